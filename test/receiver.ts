// A merchant's webhook endpoint: a real HTTPS server that keeps what it gets, byte for byte.

import assert from "node:assert/strict";
import { createServer, type Server } from "node:https";
import type { AddressInfo } from "node:net";
import { serverIdentity } from "./authority.ts";

export type Notice = {
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly raw: Buffer;
  readonly path: string;
  readonly at_ms: number;
  readonly event: string;
  readonly data: {
    readonly id: string;
    readonly reference: string;
    readonly merchant_reference: string | null;
    readonly amount: string;
    readonly currency: string;
    readonly status: string;
  };
};

export type Receiver = {
  readonly url: string;
  readonly notices: Notice[];
  /** Status of the answers from now on; a function decides per notice. */
  answer(status: number | ((notice: Notice) => number)): void;
  /** Notices about one operation, in the order of their arrival. */
  about(id: string): Notice[];
  /** Waits until the events about an operation include all of these, and gives the first notice of each. */
  hears(id: string, events: readonly string[], timeout_ms?: number): Promise<Notice[]>;
  close(): Promise<void>;
};

/** Starts a receiver; the run's certificates lie in CAURI_TEST_CERTS. */
export async function startReceiver(port = 0): Promise<Receiver> {
  const folder = process.env["CAURI_TEST_CERTS"];
  assert(folder !== undefined, "CAURI_TEST_CERTS is not set: run stories by `npm test -- story`.");
  const notices: Notice[] = [];
  let status: number | ((notice: Notice) => number) = 200;
  const server: Server = createServer(serverIdentity(folder), (request, response) => {
    const parts: Buffer[] = [];
    request.on("data", (part: Buffer) => parts.push(part));
    request.on("end", () => {
      const raw = Buffer.concat(parts);
      const body = JSON.parse(raw.toString("utf8"));
      const notice: Notice = {
        headers: request.headers,
        raw,
        path: request.url ?? "",
        at_ms: Date.now(),
        event: body.event,
        data: body.data,
      };
      notices.push(notice);
      response.writeHead(typeof status === "number" ? status : status(notice)).end();
    });
  });
  await new Promise<void>((open, fail) => server.once("error", fail).listen(port, "127.0.0.1", open));
  const about = (id: string) => notices.filter((notice) => notice.data.id === id);
  return {
    url: `https://127.0.0.1:${(server.address() as AddressInfo).port}/hook`,
    notices,
    answer: (next) => {
      status = next;
    },
    about,
    hears: async (id, events, timeout_ms = 60_000) => {
      const end = performance.now() + timeout_ms;
      for (;;) {
        const heard = about(id);
        const found = events.map((event) => heard.find((notice) => notice.event === event));
        if (found.every((notice) => notice !== undefined)) return found;
        if (performance.now() > end)
          assert.fail(
            `${id}: heard ${heard.map(({ event }) => event).join(", ") || "nothing"}, wanted ${events.join(", ")}`,
          );
        await new Promise((wake) => setTimeout(wake, 25));
      }
    },
    close: () =>
      new Promise((closed) => {
        server.closeAllConnections();
        server.close(() => closed());
      }),
  };
}
