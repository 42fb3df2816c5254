// Databases for tests: a room's template is migrated once per server and content, and each test file gets a clone of it.
// The server is that of CAURI_TEST_ADMIN_URL, which the global setup of a test run provides; a file that is run alone
// starts one for itself by the same setup and stops it with its last database.

import { createHash, randomBytes } from "node:crypto";
import { join } from "node:path";
import pg from "pg";
import { migrateRoom, migrationFiles, roomUrl } from "./migrate.ts";
import { openPool, type Pool } from "./pool.ts";

/** Test servers hold nothing of worth, and a fixed password lets every test process log in with the same roles. */
const PASSWORD = "test";
/** Templates are made one at a time on a server; any number that nothing else locks. */
const TEMPLATE_LOCK = 7_215_004_184;
/** A busy machine may let a race of many wait for its few connections; it only ends a test that hangs. */
export const PATIENCE_MS = 60_000;

export type TestDatabase = {
  /** Logged in as the room's service: with its rights, no more. */
  readonly pool: Pool;
  readonly url: string;
  /** The superuser's URL of this same database. */
  readonly admin_url: string;
  close(): Promise<void>;
};

/** A fresh database with the room's tables; `shared: false` as in `migrateRoom`. */
export async function testDatabase(
  room: string,
  dirs: readonly string[],
  options: { shared?: boolean; max?: number } = {},
): Promise<TestDatabase> {
  const server_url = await serverUrl();
  const shared = options.shared ?? true;
  const template = await ensureTemplate(server_url, room, dirs, shared);
  const name = `test_${room}_${randomBytes(6).toString("hex")}`;
  await asAdmin(server_url, (admin) => admin.query(`create database ${name} template ${template} strategy file_copy`));
  const admin_url = databaseUrl(server_url, name);
  const url = roomUrl(admin_url, room, PASSWORD);
  const max = options.max === undefined ? {} : { max: options.max };
  const pool = openPool({ url, name: `test ${room}`, patience_ms: PATIENCE_MS, ...max });
  return {
    pool,
    url,
    admin_url,
    close: async () => {
      await pool.end();
      await asAdmin(server_url, (admin) => admin.query(`drop database if exists ${name} with (force)`));
      await leaveServer();
    },
  };
}

type GlobalSetup = { globalSetup(): Promise<void>; globalTeardown(): Promise<void> };

let own_server: Promise<GlobalSetup> | undefined;
let databases = 0;

async function serverUrl(): Promise<string> {
  databases += 1;
  if (process.env["CAURI_TEST_ADMIN_URL"] === undefined) own_server ??= startOwnServer();
  await own_server;
  const url = process.env["CAURI_TEST_ADMIN_URL"];
  if (url === undefined) throw new Error("the global setup of the tests gave no CAURI_TEST_ADMIN_URL");
  return url;
}

async function startOwnServer(): Promise<GlobalSetup> {
  // By path and at run time: packages import no tools, and only a lone test file comes here.
  const path = join(import.meta.dirname, "../../../tools/test-database.ts");
  const tools = (await import(path)) as GlobalSetup;
  await tools.globalSetup();
  return tools;
}

async function leaveServer(): Promise<void> {
  databases -= 1;
  if (databases > 0 || own_server === undefined) return;
  const tools = await own_server;
  own_server = undefined;
  delete process.env["CAURI_TEST_ADMIN_URL"];
  await tools.globalTeardown();
}

/** Named by its content, so that an edited migration gets a new template and never meets an old one. */
async function ensureTemplate(server_url: string, room: string, dirs: readonly string[], shared: boolean) {
  const files = await migrationFiles({ dirs, shared });
  const content = createHash("sha256").update(files.map((file) => `${file.name} ${file.checksum}\n`).join(""));
  const template = `template_${room}_${content.digest("hex").slice(0, 16)}`;
  await asAdmin(server_url, async (admin) => {
    const exists = () => admin.query("select 1 from pg_database where datname = $1 and datistemplate", [template]);
    if ((await exists()).rowCount === 1) return;
    await admin.query("select pg_advisory_lock($1)", [TEMPLATE_LOCK]);
    if ((await exists()).rowCount === 1) return;
    await admin.query(`drop database if exists ${template} with (force)`);
    await admin.query(`create database ${template}`);
    await migrateRoom({ admin_url: databaseUrl(server_url, template), room, dirs, shared, password: PASSWORD });
    await admin.query(`alter database ${template} with is_template true`);
  });
  return template;
}

async function asAdmin<T>(url: string, work: (admin: pg.Client) => Promise<T>): Promise<T> {
  const admin = new pg.Client({ connectionString: url });
  await admin.connect();
  try {
    return await work(admin);
  } finally {
    await admin.end();
  }
}

function databaseUrl(server_url: string, database: string): string {
  const url = new URL(server_url);
  url.pathname = `/${database}`;
  return url.toString();
}
