// HTTP/1.1 for benches, no more of it than they need: messages with a Content-Length, one after another on lines that stay
// open. What sends a load and hears its notices shares the machine with what is measured, so it has to cost little.

import assert from "node:assert/strict";
import { type AddressInfo, connect, type Socket } from "node:net";
import { createServer } from "node:tls";
import { serverIdentity } from "../test/authority.ts";

const HEAD_END = "\r\n\r\n";
const HEARD = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

/** Calls `hear` with the head of each message, when its body has come as well. */
export function readMessages(hear: (head: string) => void): (chunk: Buffer) => void {
  let rest: Buffer | null = null;
  return (chunk) => {
    let bytes: Buffer = rest === null ? chunk : Buffer.concat([rest, chunk]);
    rest = null;
    while (bytes.length > 0) {
      const head_end = bytes.indexOf(HEAD_END);
      const head = head_end === -1 ? null : bytes.toString("latin1", 0, head_end);
      const message_end = head === null ? Number.POSITIVE_INFINITY : head_end + HEAD_END.length + bodyLength(head);
      if (head === null || message_end > bytes.length) {
        rest = bytes;
        return;
      }
      bytes = bytes.subarray(message_end);
      hear(head);
    }
  };
}

function bodyLength(head: string): number {
  const [, length] = /\r\ncontent-length: *(\d+)/i.exec(head) ?? [];
  if (length !== undefined) return Number(length);
  // A 204 and a request without a body have none; anything else would be read wrongly.
  if (/\r\ntransfer-encoding:/i.test(head)) throw new Error(`a message without a length: ${head}`);
  return 0;
}

export type BenchLine = {
  /** Sends one request, its text as it goes on the wire, and answers with the status; one at a time. */
  ask(request: string): Promise<number>;
  close(): void;
};

/** One connection to the door at `base_url`. */
export async function openLine(base_url: string): Promise<BenchLine> {
  const { hostname: host, port } = new URL(base_url);
  const socket = connect({ host, port: Number(port), noDelay: true });
  await new Promise<void>((resolve, reject) => socket.once("connect", resolve).once("error", reject));
  let waiting: PromiseWithResolvers<number> | null = null;
  const settle = (settled: (one: PromiseWithResolvers<number>) => void) => {
    const one = waiting;
    waiting = null;
    if (one !== null) settled(one);
  };
  socket.on(
    "data",
    readMessages((head) => settle(({ resolve }) => resolve(Number(head.slice(9, 12))))),
  );
  socket.on("error", (error) => settle(({ reject }) => reject(error)));
  socket.on("close", () => settle(({ reject }) => reject(new Error("the door closed the line"))));
  return {
    ask: (request) => {
      assert(waiting === null, "a line asks one thing at a time");
      waiting = Promise.withResolvers<number>();
      socket.write(request);
      return waiting.promise;
    },
    close: () => socket.destroy(),
  };
}

export type BenchReceiver = { readonly url: string; heard(): number; close(): Promise<void> };

/** A merchant's endpoint that takes every notice with 200 and counts; certificates as for the stories' own receiver. */
export async function startBenchReceiver(folder: string): Promise<BenchReceiver> {
  let heard = 0;
  const lines = new Set<Socket>();
  const server = createServer({ ...serverIdentity(folder), ALPNProtocols: ["http/1.1"] }, (socket) => {
    lines.add(socket);
    socket.on("close", () => lines.delete(socket));
    // A sender may break off.
    socket.on("error", () => socket.destroy());
    socket.on(
      "data",
      readMessages(() => {
        heard += 1;
        socket.write(HEARD);
      }),
    );
  });
  await new Promise<void>((open, fail) => server.once("error", fail).listen(0, "127.0.0.1", open));
  return {
    url: `https://127.0.0.1:${(server.address() as AddressInfo).port}/hook`,
    heard: () => heard,
    close: () =>
      new Promise((closed) => {
        server.close(() => closed());
        for (const line of lines) line.destroy();
      }),
  };
}
