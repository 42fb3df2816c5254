// The merchants of `npm run bench webhooks`: HTTPS servers in a process of their own, one port for each endpoint, that
// count what arrives and when. The bench forks it and asks over the channel.

import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { serverIdentity } from "../test/authority.ts";

/** What the bench asks: forget what came, and let the first `hanging` endpoints never answer; or tell what came. */
export type Ask = { readonly hanging: number } | "tell";

export type Told = {
  /** Requests of the endpoints that answer. */
  readonly arrived: number;
  /** The same event twice at the same endpoint. */
  readonly doubled: number;
  readonly first_ms: number;
  readonly last_ms: number;
  /** From the event's own stamp to its arrival here, sorted. */
  readonly latencies_ms: readonly number[];
};

const [folder = "", endpoints = "0"] = process.argv.slice(2);
let hanging = 0;
let arrived = 0;
let doubled = 0;
let first_ms = 0;
let last_ms = 0;
let latencies_ms: number[] = [];
let seen = new Set<string>();

function hear(id: string, body: Buffer): void {
  last_ms = Date.now();
  if (arrived === 0) first_ms = last_ms;
  arrived += 1;
  if (seen.has(id)) doubled += 1;
  seen.add(id);
  const { created } = JSON.parse(body.toString("utf8")) as { created: string };
  latencies_ms.push(last_ms - Date.parse(created));
}

async function listen(index: number): Promise<number> {
  const server = createServer(serverIdentity(folder), (request, response) => {
    const parts: Buffer[] = [];
    request.on("data", (part: Buffer) => parts.push(part));
    request.on("end", () => {
      if (index < hanging) return;
      hear(`${index} ${request.headers["x-service-delivery"]}`, Buffer.concat(parts));
      response.end();
    });
  });
  await new Promise<void>((open) => server.listen(0, "127.0.0.1", open));
  return (server.address() as AddressInfo).port;
}

const ports = await Promise.all(Array.from({ length: Number(endpoints) }, (_, index) => listen(index)));
process.on("message", (ask: Ask) => {
  if (ask === "tell") {
    const sorted = latencies_ms.toSorted((a, b) => a - b);
    process.send?.({ arrived, doubled, first_ms, last_ms, latencies_ms: sorted } satisfies Told);
    return;
  }
  hanging = ask.hanging;
  arrived = 0;
  doubled = 0;
  latencies_ms = [];
  seen = new Set();
});
process.on("disconnect", () => process.exit(0));
process.send?.(ports);
