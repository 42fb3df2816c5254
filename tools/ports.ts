// Ports of this machine: free ones for what nobody addresses by number, and a sentence for a wanted one that is taken.

import { randomInt } from "node:crypto";
import { type AddressInfo, createServer } from "node:net";
import { Sentence } from "./sentence.ts";

/**
 * Below the ports that operating systems give to outgoing connections (Linux from 32768, others from 49152): between our
 * look and the process that will listen, one of those may be taken by anybody's call.
 */
const LOWEST = 15_000;
const HIGHEST = 32_000;
const MOST_TRIES = 200;

/** So many different free ports of the loopback interface; held together, so that none is given out twice. */
export async function freePorts(count: number): Promise<number[]> {
  const held = await Promise.all(Array.from({ length: count }, () => listenAnywhere()));
  const ports = held.map((server) => (server.address() as AddressInfo).port);
  await Promise.all(held.map((server) => new Promise((resolve) => server.close(resolve))));
  return ports;
}

async function listenAnywhere() {
  for (let tries = 1; ; tries += 1) {
    try {
      return await listen(randomInt(LOWEST, HIGHEST));
    } catch (error) {
      const taken = error instanceof Error && "code" in error && error.code === "EADDRINUSE";
      if (!taken || tries === MOST_TRIES) throw error;
    }
  }
}

export async function freePort(): Promise<number> {
  const [port] = await freePorts(1);
  if (port === undefined) throw new Error("no port was given out");
  return port;
}

/** Throws a sentence when `port` cannot be listened on; `option` is how the person would choose another one. */
export async function requireFreePort(port: number, option: string): Promise<void> {
  try {
    const server = await listen(port);
    await new Promise((resolve) => server.close(resolve));
  } catch (error) {
    const code = error instanceof Error && "code" in error ? error.code : "";
    if (code === "EACCES")
      throw new Sentence(`Port ${port} needs special rights: choose one above 1023 with ${option}.`);
    if (code !== "EADDRINUSE") throw error;
    throw new Sentence(`Port ${port} is taken by another program: stop it, or choose another port with ${option}.`);
  }
}

function listen(port: number) {
  return new Promise<ReturnType<typeof createServer>>((resolve, reject) => {
    const server = createServer();
    server.once("error", reject);
    server.listen({ port, host: "127.0.0.1", exclusive: true }, () => resolve(server));
  });
}
