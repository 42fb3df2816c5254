// Ports of this machine: free ones for what nobody addresses by number, and a sentence for a wanted one that is taken.

import { randomInt } from "node:crypto";
import { createServer, type Server } from "node:net";
import { Sentence } from "./sentence.ts";

/**
 * Below the ports that operating systems give to outgoing connections (Linux from 32768, others from 49152): between our
 * look and the process that will listen, one of those may be taken by anybody's call.
 */
const LOWEST = 15_000;
const HIGHEST = 32_000;
/** A house takes less than one block. */
const BLOCK = 50;
const MOST_TRIES = 200;
/** So many blocks stay ours; a port that was given out that long ago is in use, or will not be. */
const MOST_BLOCKS = 4;

/**
 * The ports that this process may give out. A port is free until somebody listens, which may be seconds after it was
 * given out, and houses and tests start side by side. So a process takes a block of ports for itself by listening on
 * the block's first one for as long as it lives, and gives out the others in turn.
 */
const blocks: Server[] = [];
let rest: number[] = [];
/** The doors of this house, which open last. */
const promised = new Set<number>();
let turn: Promise<unknown> = Promise.resolve();

/** So many different free ports of the loopback interface, which no other process that asks here is given. */
export function freePorts(count: number): Promise<number[]> {
  const ports = turn.then(async () => {
    const given: number[] = [];
    while (given.length < count) given.push(await nextPort());
    return given;
  });
  turn = ports.catch(() => undefined);
  return ports;
}

async function nextPort(): Promise<number> {
  for (let tries = 1; ; tries += 1) {
    const port = rest.shift();
    try {
      if (port === undefined) await takeBlock();
      else if (!promised.has(port)) {
        await closed(await listen(port));
        return port;
      }
    } catch (error) {
      const taken = error instanceof Error && "code" in error && error.code === "EADDRINUSE";
      if (!taken || tries === MOST_TRIES) throw error;
    }
  }
}

async function takeBlock(): Promise<void> {
  const first = LOWEST + BLOCK * randomInt((HIGHEST - LOWEST) / BLOCK);
  const guard = await listen(first);
  guard.unref();
  if (blocks.push(guard) > MOST_BLOCKS) blocks.shift()?.close();
  rest = Array.from({ length: BLOCK - 1 }, (_, at) => first + 1 + at);
}

function closed(server: Server): Promise<void> {
  return new Promise((resolve) => server.close(() => resolve()));
}

export async function freePort(): Promise<number> {
  const [port] = await freePorts(1);
  if (port === undefined) throw new Error("no port was given out");
  return port;
}

/** Keeps `port` from being given out; throws a sentence when it cannot be listened on; `option` is how the person would choose another one. */
export async function requireFreePort(port: number, option: string): Promise<void> {
  try {
    promised.add(port);
    await closed(await listen(port));
  } catch (error) {
    const code = error instanceof Error && "code" in error ? error.code : "";
    if (code === "EACCES")
      throw new Sentence(`Port ${port} needs special rights: choose one above 1023 with ${option}.`);
    if (code !== "EADDRINUSE") throw error;
    throw new Sentence(`Port ${port} is taken by another program: stop it, or choose another port with ${option}.`);
  }
}

function listen(port: number) {
  return new Promise<Server>((resolve, reject) => {
    const server = createServer();
    server.once("error", reject);
    server.listen({ port, host: "127.0.0.1", exclusive: true }, () => resolve(server));
  });
}
