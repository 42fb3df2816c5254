// Global setup of the db layer: one PostgreSQL for all files, each of which makes its own databases in it, and the
// path of a nats-server, of which a file starts its own when it needs one.

import { join } from "node:path";
import { findNats } from "./nats.ts";
import { type Postgres, startPostgres } from "./postgres.ts";
import { makeTestFolder, removeTestFolder } from "./test-folder.ts";

let postgres: Postgres | undefined;
let folder: string | undefined;

/** What it puts into the environment reaches every test file. */
export async function globalSetup(): Promise<void> {
  const home = makeTestFolder();
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
  if (folder !== undefined) removeTestFolder(folder);
}
