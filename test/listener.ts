// `cauri listen` as a developer runs it, beside the server on this machine that it forwards to.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { dataFolder, noteSecret } from "./house.ts";

const BIN = join(dirname(import.meta.dirname), "cli", "bin", "cauri.js");

/** One line of `cauri listen --json`. */
export type Printed = {
  readonly event_id: string;
  readonly event: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  readonly forwarded: { status_code: number | null; duration_ms: number; error: string | null } | null;
};

export type Listener = {
  readonly secret: string;
  readonly printed: readonly Printed[];
  /** What it has said on standard error. */
  errors(): string;
  /** Waits until an operation's events were printed, in whatever order, and answers all that was printed of it. */
  prints(operation_id: string, events: readonly string[], timeout_ms?: number): Promise<readonly Printed[]>;
  /** The exit code, once it has ended. */
  readonly ended: Promise<number | null>;
  /** Ctrl-C; answers the exit code. */
  stop(): Promise<number | null>;
};

/** Resolves when the session stands; a command that ends before that fails. */
export async function startListener(args: readonly string[]): Promise<Listener> {
  const child = spawn(process.execPath, [BIN, "listen", "--json", "--data", dataFolder(), ...args]);
  const ended = once(child, "exit").then(([code]) => code as number | null);
  let errors = "";
  child.stderr.on("data", (chunk) => {
    errors += chunk;
  });
  const printed: Printed[] = [];
  const opened = Promise.withResolvers<string>();
  createInterface({ input: child.stdout }).on("line", (line) => {
    const said = JSON.parse(line);
    if (said.listening === undefined) printed.push(said);
    else opened.resolve(noteSecret(said.listening.secret));
  });
  ended.then((code) => opened.reject(new Error(`cauri listen ended with ${code}: ${errors}`)));
  const secret = await opened.promise;
  const about = (id: string) => printed.filter(({ body }) => JSON.parse(body).data.id === id);
  return {
    secret,
    printed,
    ended,
    errors: () => errors,
    prints: async (id, events, timeout_ms = 60_000) => {
      for (const end = performance.now() + timeout_ms; ; ) {
        const seen = about(id);
        if (events.every((event) => seen.some((one) => one.event === event))) return seen;
        if (performance.now() > end)
          assert.fail(`${id}: printed ${seen.map(({ event }) => event)}, wanted ${events}; ${errors}`);
        await new Promise((wake) => setTimeout(wake, 50));
      }
    },
    stop: async () => {
      child.kill("SIGINT");
      return await ended;
    },
  };
}

/** A request as the developer's server saw it. */
export type Taken = { readonly headers: Readonly<Record<string, string>>; readonly raw: Buffer };

export type LocalServer = { readonly url: string; readonly taken: readonly Taken[]; close(): void };

/** A plain HTTP server, such as a developer's own. */
export async function startLocalServer(): Promise<LocalServer> {
  const taken: Taken[] = [];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      taken.push({ headers: request.headers as Record<string, string>, raw: Buffer.concat(chunks) });
      response.writeHead(204).end();
    });
  });
  await new Promise<void>((open) => server.listen(0, "127.0.0.1", open));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`,
    taken,
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}
