// Migrates one room: its schema, the role that owns it, the role that its service logs in with, and its tables.
// The service's role owns nothing and holds only DML on the room's tables, so that a rule such as "append-only" is the
// database's and not a promise. Run by the migrator alone; services never migrate.

import { createHash, createHmac, pbkdf2Sync, randomBytes } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import pg from "pg";
import { SESSION_LIMITS } from "./pool.ts";

/** The tables that every room with operations needs, applied before the room's own. */
const SHARED = join(import.meta.dirname, "..", "migrations");

/** One migrator at a time in a database; any number that nothing else locks. */
const MIGRATION_LOCK = 7_215_004_183;
/** DDL that waits for a lock stops everyone behind it: better to fail and be run again. */
const DDL_LOCK_TIMEOUT = "10s";
/** Two migrators in two databases of one server may touch the same role at once; the second one simply tries again. */
const ROLE_ATTEMPTS = 10;
const SCRAM_ITERATIONS = 4096;

export type RoomMigration = {
  /** A superuser's URL, or that of a role that may create schemas and roles. */
  readonly admin_url: string;
  /** Names the schema, `cauri_<room>` and `cauri_<room>_owner`; `instant_payment`, not `instant-payment`. */
  readonly room: string;
  /** The room's own folders of `NNNN_name.sql`, applied in this order. */
  readonly dirs: readonly string[];
  /** The login role's password; without one it stays what it is. */
  readonly password?: string;
  /** False for a room without operations (the gateway): it gets none of the shared tables. */
  readonly shared?: boolean;
};

type MigrationFile = { readonly name: string; readonly sql: string; readonly checksum: string };

/** The database was made by another text of a migration than this tree holds: one of the two is not what it seems. */
export class EditedMigration extends Error {
  override readonly name = "EditedMigration";
}

/** Brings the room up to date and returns the names of the migrations that were applied now. */
export async function migrateRoom(migration: RoomMigration): Promise<string[]> {
  const { room } = migration;
  if (!/^[a-z][a-z0-9_]{0,40}$/.test(room)) throw new Error(`a room is named by lower-case letters: ${room}`);
  const files = await migrationFiles(migration);
  const client = new pg.Client({ connectionString: migration.admin_url, application_name: `migrate ${room}` });
  await client.connect();
  try {
    await client.query("select pg_advisory_lock($1)", [MIGRATION_LOCK]);
    await ensureRoles(client, room, migration.password);
    await ensureSchema(client, room);
    return await applyFiles(client, room, files);
  } finally {
    await client.end();
  }
}

/** The URL with which the room's service logs in, beside the migrator's. */
export function roomUrl(admin_url: string, room: string, password: string): string {
  const url = new URL(admin_url);
  url.username = `cauri_${room}`;
  url.password = encodeURIComponent(password);
  return url.toString();
}

/** Every migration of a room in the order of application, the shared ones first. */
export async function migrationFiles(room: Pick<RoomMigration, "dirs" | "shared">): Promise<MigrationFile[]> {
  const files: MigrationFile[] = [];
  if (room.shared !== false) files.push(...(await filesOf(SHARED, "shared/")));
  for (const dir of room.dirs) files.push(...(await filesOf(dir, "")));
  const twice = files.find((file, index) => files.findIndex((other) => other.name === file.name) !== index);
  if (twice !== undefined) throw new Error(`two migrations have the same name: ${twice.name}`);
  return files;
}

async function filesOf(dir: string, prefix: string): Promise<MigrationFile[]> {
  const names = (await readdir(dir)).filter((name) => name.endsWith(".sql")).sort();
  return await Promise.all(
    names.map(async (name) => {
      if (!/^[0-9]{4}_[a-z0-9_]+\.sql$/.test(name)) throw new Error(`a migration is named NNNN_what.sql: ${name}`);
      const sql = await readFile(join(dir, name), "utf8");
      return { name: prefix + name, sql, checksum: createHash("sha256").update(sql).digest("hex") };
    }),
  );
}

/** Roles belong to the whole server, so they may exist already, and another database's migrator may be at them now. */
async function ensureRoles(client: pg.Client, room: string, password: string | undefined): Promise<void> {
  const login = `cauri_${room}`;
  const limits = Object.entries(SESSION_LIMITS).map(([name, ms]) => `alter role ${login} set ${name} = '${ms}ms'`);
  const statements = [
    createRole(`${login}_owner`, "nologin"),
    createRole(login, "login noinherit"),
    // The migrator acts as the owner; a superuser may anyway, another migrator only as a member.
    `grant ${login}_owner to current_user`,
    `alter role ${login} set search_path = ${room}`,
    ...limits,
  ];
  if (password !== undefined) statements.push(`alter role ${login} password '${scramVerifier(password)}'`);
  for (const statement of statements) await repeatWhileContended(() => client.query(statement));
}

function createRole(role: string, kind: string): string {
  return `do $$ begin create role ${role} ${kind}; exception when duplicate_object or unique_violation then null; end $$`;
}

async function repeatWhileContended(run: () => Promise<unknown>): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      await run();
      return;
    } catch (error) {
      const contended = error instanceof Error && /tuple concurrently updated/.test(error.message);
      if (!contended || attempt === ROLE_ATTEMPTS) throw error;
      await new Promise((resolve) => setTimeout(resolve, 20 * attempt * Math.random()));
    }
  }
}

async function ensureSchema(client: pg.Client, room: string): Promise<void> {
  const login = `cauri_${room}`;
  const owner = `${login}_owner`;
  await client.query(`create schema if not exists ${room} authorization ${owner}`);
  await client.query(`set role ${owner}`);
  await client.query(`set search_path = ${room}`);
  await client.query(`set lock_timeout = '${DDL_LOCK_TIMEOUT}'`);
  await client.query(`grant usage on schema ${room} to ${login}`);
  await client.query(
    `create table if not exists migrations (
       name text primary key, checksum text not null, applied_at timestamptz not null default clock_timestamp())`,
  );
  await client.query(`grant select on migrations to ${login}`);
  const whoever = `alter default privileges for role ${owner} in schema ${room} grant`;
  await client.query(`${whoever} select, insert, update, delete on tables to ${login}`);
  await client.query(`${whoever} usage, select on sequences to ${login}`);
}

async function applyFiles(client: pg.Client, room: string, files: readonly MigrationFile[]): Promise<string[]> {
  const { rows } = await client.query<{ name: string; checksum: string }>("select name, checksum from migrations");
  const known = new Map(rows.map((row) => [row.name, row.checksum]));
  const applied: string[] = [];
  for (const file of files) {
    const checksum = known.get(file.name);
    if (checksum === file.checksum) continue;
    if (checksum !== undefined)
      throw new EditedMigration(`${room}: ${file.name} was edited after it was applied; write a new one`);
    try {
      await client.query("begin");
      await client.query(file.sql);
      await client.query("insert into migrations (name, checksum) values ($1, $2)", [file.name, file.checksum]);
      await client.query("commit");
    } catch (error) {
      throw new Error(`${room}: the migration ${file.name} failed: ${(error as Error).message}`, { cause: error });
    }
    applied.push(file.name);
  }
  return applied;
}

/** What PostgreSQL stores of a password. Made here, so that the password itself is in no statement and no server log. */
function scramVerifier(password: string): string {
  const salt = randomBytes(16);
  const salted = pbkdf2Sync(password.normalize("NFKC"), salt, SCRAM_ITERATIONS, 32, "sha256");
  const hmac = (text: string) => createHmac("sha256", salted).update(text).digest();
  const stored = createHash("sha256").update(hmac("Client Key")).digest("base64");
  const server = hmac("Server Key").toString("base64");
  return `SCRAM-SHA-256$${SCRAM_ITERATIONS}:${salt.toString("base64")}$${stored}:${server}`;
}
