// What the shared migrations make of rows and lists that were there before them.

import assert from "node:assert/strict";
import { copyFile, mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { migrateRoom } from "./migrate.ts";
import { outboxLag, sentRounds, unsentEvents } from "./outbox.ts";
import { type TestDatabase, testDatabase } from "./testing.ts";

const SHARED = join(import.meta.dirname, "../migrations");
const THINGS = join(import.meta.dirname, "../test-migrations/0001_things.sql");

let dir: string;
let db: TestDatabase;

/** A room as it was before the outbox was written once. */
before(async () => {
  dir = await mkdtemp(join(tmpdir(), "cauri-shared-migrations-"));
  await copy((name) => name < "0006");
  await copyFile(THINGS, join(dir, "0005_things.sql"));
  db = await testDatabase("store", [dir], { shared: false });
});
after(async () => {
  await db?.close();
  await rm(dir, { recursive: true });
});

async function copy(chosen: (name: string) => boolean): Promise<void> {
  for (const name of (await readdir(SHARED)).filter(chosen)) await copyFile(join(SHARED, name), join(dir, name));
}

test("shared migrations: what was sent stays sent, what was not is found, and a list loses its index by time", async () => {
  await db.pool.query(
    `insert into outbox (event_id, topic, subject, payload, account, mode, sent_at, stream_seq)
     select 'evt_' || i, 'topic', 'cauri.store.thing.done', '', 'acct_1', 'live', case when i <= 6 then $1::timestamptz + i * interval '250 ms' end,
            case when i <= 6 then 100 + i end
       from generate_series(1, 8) as i`,
    ["2026-11-21T12:00:00Z"],
  );
  await db.pool.query(
    "insert into things (id, account, mode, n, status, created_at) values ('a', 'a', 'live', 1, 'new', now())",
  );
  await copy((name) => name >= "0006");
  const applied = await migrateRoom({ admin_url: db.admin_url, room: "store", dirs: [dir], shared: false });
  assert.equal(applied.length, (await readdir(dir)).filter((name) => name >= "0006").length);

  const rounds = await sentRounds(db.pool, { sent_at: "-infinity", round: -1n }, 10);
  assert.deepEqual(
    rounds.map(({ sent_at, events }) => [sent_at, events.map(({ event_id }) => event_id).sort()]),
    [
      ["2026-11-21 12:00:00.25+00", ["evt_1", "evt_2", "evt_3"]],
      ["2026-11-21 12:00:01+00", ["evt_4", "evt_5", "evt_6"]],
    ],
  );
  assert.deepEqual(
    (await unsentEvents(db.pool, 10)).events.map(({ event_id }) => event_id),
    ["evt_7"],
    "of one topic the oldest alone",
  );
  assert.equal((await outboxLag(db.pool)).waiting, 2);

  const { rows } = await db.pool.query(
    "select indexname from pg_indexes where tablename = 'things' order by indexname",
  );
  assert.deepEqual(
    rows.map(({ indexname }) => indexname),
    ["things_client_ref", "things_list", "things_list_status", "things_pkey"],
  );
  for (const change of ["n = 2", "account = 'b'", "mode = 'test'", "created_at = now() + interval '1 s'"]) {
    await assert.rejects(
      db.pool.query(`update things set ${change}`),
      (error: Error & { code?: string }) => error.code === "23001",
      change,
    );
  }
  await db.pool.query("update things set status = 'old'");
});
