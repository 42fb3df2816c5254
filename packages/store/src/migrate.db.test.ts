import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import pg from "pg";
import { migrateRoom, roomUrl } from "./migrate.ts";
import { SESSION_LIMITS } from "./pool.ts";
import { type TestDatabase, testDatabase } from "./testing.ts";

let db: TestDatabase;
let dir: string;

before(async () => {
  db = await testDatabase("store", [join(import.meta.dirname, "../test-migrations")]);
  dir = await mkdtemp(join(tmpdir(), "cauri-migrations-"));
});
after(async () => {
  await rm(dir, { recursive: true });
  await db.close();
});

async function as<T>(url: string, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}

test("migrate_room: the service's role owns nothing and has only the rights it needs", async () => {
  const { rows } = await db.pool.query<{ owner: string }>(
    `select distinct pg_get_userbyid(relowner)::text as owner from pg_class
      where relnamespace = 'store'::regnamespace and relkind in ('r', 'S')`,
  );
  assert.deepEqual(rows, [{ owner: "cauri_store_owner" }]);
  for (const sql of [
    "drop table things",
    "alter table things disable trigger all",
    "truncate things",
    "create table mine ()",
    "set role cauri_store_owner",
    "insert into migrations values ('x', 'y')",
    "update entries set id = 'other'",
    "delete from entries",
  ]) {
    await assert.rejects(db.pool.query(sql), (error: Error & { code?: string }) => error.code === "42501", sql);
  }
  await db.pool.query("insert into entries values ('one')");
});

test("migrate_room: another room's role sees nothing of this one", async () => {
  await migrateRoom({ admin_url: db.admin_url, room: "other", dirs: [], shared: false, password: "other" });
  await as(roomUrl(db.admin_url, "other", "other"), async (client) => {
    await assert.rejects(client.query("select * from store.things"), /permission denied for schema store/);
    await assert.rejects(client.query("select * from things"), /does not exist/);
    const { rows } = await client.query("select name from migrations");
    assert.deepEqual(rows, [], "a room without operations gets none of the shared tables");
  });
});

test("migrate_room: the role's sessions have their limits and their schema", async () => {
  await as(db.url, async (client) => {
    const { rows } = await client.query(
      `select current_setting('search_path') as schema, current_setting('lock_timeout') as lock,
              current_setting('idle_in_transaction_session_timeout') as idle`,
    );
    const seconds = (ms: number) => `${ms / 1000}s`;
    const { lock_timeout, idle_in_transaction_session_timeout: idle } = SESSION_LIMITS;
    assert.deepEqual(rows, [{ schema: "store", lock: seconds(lock_timeout), idle: seconds(idle) }]);
  });
});

test("migrate_room: applies what is new, once, in order; an edit of what was applied is refused", async () => {
  const room = { admin_url: db.admin_url, room: "grows", dirs: [dir], shared: false };
  await writeFile(join(dir, "0001_first.sql"), "create table first (id int);");
  assert.deepEqual(await migrateRoom(room), ["0001_first.sql"]);
  await writeFile(join(dir, "0002_second.sql"), "alter table first add column name text; create table second ();");
  assert.deepEqual(await migrateRoom(room), ["0002_second.sql"]);
  assert.deepEqual(await migrateRoom(room), []);
  await writeFile(join(dir, "0001_first.sql"), "create table first (id bigint);");
  await assert.rejects(migrateRoom(room), /grows: 0001_first.sql was edited after it was applied/);
});

test("migrate_room: a broken migration leaves nothing of itself and says its name", async () => {
  const broken = await mkdtemp(join(tmpdir(), "cauri-migrations-"));
  const room = { admin_url: db.admin_url, room: "breaks", dirs: [broken], shared: false };
  await writeFile(join(broken, "0001_half.sql"), "create table half (); select nonsense;");
  await assert.rejects(migrateRoom(room), /breaks: the migration 0001_half.sql failed: .*nonsense/);
  await writeFile(join(broken, "0001_half.sql"), "create table half ();");
  assert.deepEqual(await migrateRoom(room), ["0001_half.sql"]);
  await writeFile(join(broken, "second.sql"), "");
  await assert.rejects(migrateRoom(room), /NNNN_what.sql: second.sql/);
  await rm(broken, { recursive: true });
});

test("migrate_room: migrators that start together apply each file once", async () => {
  const room = { admin_url: db.admin_url, room: "races", dirs: [], password: "test" };
  const applied = await Promise.all(Array.from({ length: 6 }, () => migrateRoom(room)));
  assert.equal(applied.filter((names) => names.length > 0).length, 1);
});

test("migrate_room: a migrator that is no superuser can do it all", async () => {
  await as(db.admin_url, async (admin) => {
    await admin.query("drop role if exists cauri_test_migrator");
    await admin.query("create role cauri_test_migrator login createrole password 'test'");
    await admin.query(`grant create on database ${new URL(db.admin_url).pathname.slice(1)} to cauri_test_migrator`);
    const url = new URL(db.admin_url);
    url.username = "cauri_test_migrator";
    url.password = "test";
    const room = `lowly_${process.pid}`;
    assert.ok((await migrateRoom({ admin_url: url.toString(), room, dirs: [], password: "test" })).length > 0);
    assert.deepEqual(await migrateRoom({ admin_url: url.toString(), room, dirs: [], password: "test" }), []);
    await as(roomUrl(db.admin_url, room, "test"), (client) => client.query("select * from claims"));
    await admin.query(`drop schema ${room} cascade`);
    await admin.query(`drop owned by cauri_${room}, cauri_${room}_owner`);
    await admin.query(`drop role cauri_${room}, cauri_${room}_owner`);
    await admin.query("drop owned by cauri_test_migrator");
    await admin.query("drop role cauri_test_migrator");
  });
});
