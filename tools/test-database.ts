// Global setup of the db layer: one PostgreSQL for all files, each of which makes its own databases in it, and the
// path of a nats-server, of which a file starts its own when it needs one.

import { mkdirSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { findNats } from "./nats.ts";
import { type Postgres, startPostgres } from "./postgres.ts";

const PREFIX = "cauri-test-";

let postgres: Postgres | undefined;
let folder: string | undefined;

/** What it puts into the environment reaches every test file. */
export async function globalSetup(): Promise<void> {
  const home = testFolder();
  folder = home;
  const [server, nats] = await Promise.all([
    startPostgres({
      home: join(home, "postgres"),
      password: "test",
      log_file: join(home, "postgres.log"),
      durable: false,
      // Four files at once, each with a pool or two per room.
      max_connections: 400,
    }),
    findNats((text) => console.log(text)),
  ]);
  postgres = server;
  process.env["CAURI_TEST_ADMIN_URL"] = server.url;
  process.env["CAURI_TEST_NATS_BIN"] = nats;
}

export async function globalTeardown(): Promise<void> {
  await postgres?.stop();
  if (folder !== undefined) rmSync(folder, { recursive: true, force: true });
}

/** A new folder named after this process; those of processes that were killed before their teardown are removed. */
export function testFolder(): string {
  for (const name of readdirSync(tmpdir())) {
    const pid = Number(name.startsWith(PREFIX) ? name.slice(PREFIX.length) : "");
    if (pid > 0 && !isAlive(pid)) rmSync(join(tmpdir(), name), { recursive: true, force: true });
  }
  const path = join(tmpdir(), `${PREFIX}${process.pid}`);
  mkdirSync(path, { recursive: true, mode: 0o711 });
  return path;
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error instanceof Error && "code" in error && error.code === "EPERM";
  }
}
