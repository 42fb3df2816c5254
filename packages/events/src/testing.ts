// A nats-server for one test file, which can be killed, restarted and robbed of its store.

import { cp, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { headers } from "@nats-io/transport-node";
import type { Events } from "./events.ts";
import { ACCOUNT_HEADER } from "./relay.ts";

type Running = {
  readonly pid: number;
  readonly url: string;
  readonly port: number;
  stop(): Promise<void>;
  readonly exited: Promise<string>;
};
type Tools = {
  startNats(options: { bin: string; store_dir: string; log_file: string; port?: number }): Promise<Running>;
  findNats(say: (text: string) => void): Promise<string>;
};

export type TestNats = {
  readonly url: string;
  /** SIGKILL. */
  kill(): Promise<void>;
  /** Starts again on the same port; `empty` forgets the store first. */
  start(options?: { empty?: boolean }): Promise<void>;
  /** SIGKILL, and a copy of the stream's messages as the disk then has them. */
  copyMessages(): Promise<void>;
  /** Starts again with the messages as they were copied; what the server knows of its consumers is newer. */
  startWithCopy(): Promise<void>;
  close(): Promise<void>;
};

export async function testNats(): Promise<TestNats> {
  // By path and at run time: packages import no tools.
  const { startNats, findNats } = (await import(join(import.meta.dirname, "../../../tools/nats.ts"))) as Tools;
  const bin = process.env["CAURI_TEST_NATS_BIN"] || (await findNats(() => {}));
  const folder = await mkdtemp(join(tmpdir(), "cauri-nats-"));
  const store_dir = join(folder, "store");
  const log_file = join(folder, "nats.log");
  const messages = join(store_dir, "jetstream/$G/streams/CAURI/msgs");
  const copy = join(folder, "copy");
  let server: Running | null = await startNats({ bin, store_dir, log_file });
  const { url, port } = server;
  const kill = async () => {
    if (server === null) return;
    process.kill(server.pid, "SIGKILL");
    await server.exited;
    server = null;
  };
  const start = async ({ empty = false } = {}) => {
    await kill();
    if (empty) await rm(store_dir, { recursive: true, force: true });
    server = await startNats({ bin, store_dir, log_file, port });
  };
  return {
    url,
    kill,
    start,
    copyMessages: async () => {
      await kill();
      await cp(messages, copy, { recursive: true });
    },
    startWithCopy: async () => {
      await kill();
      await rm(messages, { recursive: true });
      await cp(copy, messages, { recursive: true });
      await start();
    },
    close: async () => {
      await kill();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** Puts an event on the stream as a relay would, without a database behind it. */
export async function publishAs(
  events: Events,
  event: { readonly subject: string; readonly id: string; readonly account: string; readonly payload: Uint8Array },
): Promise<void> {
  const carried = headers();
  carried.set(ACCOUNT_HEADER, event.account);
  await events.js.publish(event.subject, event.payload, { msgID: event.id, headers: carried });
}
