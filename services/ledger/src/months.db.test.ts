// The months of the books: made ahead, protected one by one like the whole, and an alarm when they are late.

import assert from "node:assert/strict";
import { copyFile, mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { migrateRoom } from "@cauri/store/migrate";
import { openPool } from "@cauri/store/pool";
import { testDatabase } from "@cauri/store/testing";
import { checkMonths } from "./monitor.ts";
import { openMonths, readMonthsAhead } from "./month-store.ts";

const database = await testDatabase("ledger", [join(import.meta.dirname, "../migrations")]);
const { pool } = database;
const admins = openPool({ url: database.admin_url, name: "months", max: 1 });
const admin = await admins.connect();
await admin.query("set search_path = ledger");
after(async () => {
  admin.release();
  await admins.end();
  await database.close();
});

const PARTS = ["batches", "transfers", "entries", "refusals", "displaced_movements"];

/** The name that tables have in the month so many months from now. */
function suffix(months: number): string {
  const now = new Date();
  const day = new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + months, 1));
  return day.toISOString().slice(0, 7).replace("-", "_");
}

test("open months: the migration makes three ahead; what is missing is made once by services that start together", async () => {
  assert.equal(await readMonthsAhead(pool), 3);
  for (const part of PARTS) await admin.query(`drop table ${part}_${suffix(3)}`);
  assert.equal(await readMonthsAhead(pool), 2);
  await Promise.all([openMonths(pool), openMonths(pool), openMonths(pool)]);
  assert.equal(await readMonthsAhead(pool), 3);
});

test("open months: fewer than two ahead is an alarm that says what to look at; a gap ends the count", async () => {
  assert.deepEqual(await checkMonths(pool), []);
  for (const part of PARTS) await admin.query(`drop table ${part}_${suffix(2)}`);
  assert.equal(await readMonthsAhead(pool), 1);
  const [sentence = ""] = await checkMonths(pool);
  assert.match(sentence, /^the ledger has tables for 1 months after this one/);
  await openMonths(pool);
  assert.deepEqual(await checkMonths(pool), []);
});

test("open months: a part gives the service no rights, has the indexes of the whole once, and vacuum settings for rows that never change", async () => {
  for (const part of PARTS) {
    const name = `${part}_${suffix(1)}`;
    for (const statement of [
      `select from ${name}`,
      `delete from ${name}`,
      `insert into ${name} select`,
      `drop table ${name}`,
    ]) {
      await assert.rejects(pool.query(statement), { code: "42501" }, statement);
    }
    const { rows } = await admin.query<{ own: string; whole: string; options: string }>(
      `select (select count(*)::integer from pg_index where indrelid = '${name}'::regclass) as own,
         (select count(*)::integer from pg_index where indrelid = '${part}'::regclass) as whole,
         (select reloptions::text from pg_class where oid = '${name}'::regclass) as options`,
    );
    assert.equal(rows[0]?.own, rows[0]?.whole, name);
    assert.match(rows[0]?.options ?? "", /insert_threshold=200000,autovacuum_freeze_min_age=0/);
  }
  const { rows } = await admin.query<{ options: string }>(
    `select pg_get_indexdef(indexrelid) as options from pg_index where indrelid = 'transfers_${suffix(1)}'::regclass`,
  );
  assert.ok(
    rows.some(({ options }) =>
      /text_bloom_ops \(n_distinct_per_range='4000', false_positive_rate='0.01'\)/.test(options),
    ),
    rows.map(({ options }) => options).join("\n"),
  );
});

/** Which ranges of pages an index of a month knows. What asking has made known is made unknown again. */
async function knownRanges(index: string): Promise<boolean[]> {
  const { rows } = await admin.query<{ block: bigint; added: number }>(
    `select block, brin_summarize_range($1::regclass, block) as added
     from pg_index i, generate_series(0, pg_relation_size(i.indrelid) / 8192 - 1, $2) block
     where i.indexrelid = $1::regclass order by block`,
    [index, index.startsWith("entries") ? 32 : 64],
  );
  for (const { block, added } of rows) {
    if (added > 0) await admin.query("select brin_desummarize_range($1::regclass, $2)", [index, block]);
  }
  return rows.map(({ added }) => added === 0);
}

test("summarize: a range is made known when it is full, the last one of a month when the month is over", async () => {
  await admin.query("select open_months((now() - interval '1 month')::date, now()::date)");
  for (const months of [-1, 0]) {
    const [transfers, entries] = [
      `transfers_${suffix(months)}_operation_id_idx`,
      `entries_${suffix(months)}_recorded_at_idx`,
    ];
    const last = months < 0;
    // Whoever analyzes a part at this very moment would be given way to.
    for (const part of ["transfers", "entries"]) {
      await admin.query(`alter table ${part}_${suffix(months)} set (autovacuum_enabled = off)`);
    }
    const fill = async (from: number, to: number) => {
      const instant = `(to_date('${suffix(months)}', 'YYYY_MM') + interval '1 day')::timestamptz`;
      await admin.query(`insert into transfers
        select gen_random_uuid(), ${instant}, 1, 1, 2, 5, 1, n, 'post', null, null, null, gen_random_uuid(), 'pay_' || n
        from generate_series(${from}, ${to}) n`);
      await admin.query(`insert into entries select n % 2, ${instant}, 0, 5, 0, 0, n / 2, 1
        from generate_series(${from} * 2, ${to} * 2 + 1) n`);
    };
    await fill(1, 10);
    await pool.query("select summarize_past()");
    assert.deepEqual([await knownRanges(transfers), await knownRanges(entries)], [[last], [last]]);
    await fill(11, 5_000);
    await pool.query("select summarize_past()");
    for (const index of [transfers, entries]) {
      const known = await knownRanges(index);
      assert.ok(known.length >= 2, `${index}: ${known.length} ranges`);
      assert.deepEqual(known, [...known.slice(1).map(() => true), last], index);
    }
  }
});

test("migration: books kept in one table each arrive in their months, with every id taken", async () => {
  const migrations = join(import.meta.dirname, "../migrations");
  const before = await mkdtemp(join(tmpdir(), "cauri-months-"));
  for (const file of await readdir(migrations)) {
    if (file < "0013") await copyFile(join(migrations, file), join(before, file));
  }
  const old = await testDatabase("ledger", [before]);
  try {
    await old.pool.query(`insert into lanes (asset_id, book) values ('ast_xof', 'live');
      insert into batches select 1, n, '2026-08-31 23:59:59Z'::timestamptz + n * interval '1 second', 1, 1, sha256('')
        from generate_series(0, 1) n;
      insert into transfers select gen_random_uuid(), 1, sequence, 0, 'post', 1, 2, 5, null, null, recorded_at,
        gen_random_uuid(), 'pay_1', recorded_at from batches;
      insert into entries select account, recorded_at, 0, 1, transfer_id, 0, 5, 0, 0
        from transfers cross join unnest('{1, 2}'::bigint[]) account;
      insert into refusals select gen_random_uuid(), 1, sequence, 0, 'post', 1, 2, 5, null, null, null, 'pay_1',
        'insufficient_funds', recorded_at from batches;
      insert into displaced_movements select account_id, recorded_at, recorded_at, position from entries`);
    await migrateRoom({ admin_url: old.admin_url, room: "ledger", dirs: [migrations] });
    const { rows } = await old.pool.query(
      `select to_char(recorded_at at time zone 'UTC', 'MM') as month,
         (select count(*)::integer from transfers t join taken_ids i using (transfer_id) where t.recorded_at = b.recorded_at
           and (i.recorded_at, i.lane_id, i.position) = (t.recorded_at, t.lane_id, t.position)) as transfers,
         (select count(*)::integer from refusals r join taken_ids using (transfer_id)
           where r.recorded_at = b.recorded_at) as refusals,
         (select count(*)::integer from movements m where m.recorded_at = b.recorded_at) as movements,
         (select count(*)::integer from displaced_movements d where d.recorded_at = b.recorded_at) as displaced
       from batches b order by 1`,
    );
    const one = { transfers: 1, refusals: 1, movements: 2, displaced: 2 };
    assert.deepEqual(rows, [
      { month: "08", ...one },
      { month: "09", ...one },
    ]);
  } finally {
    await old.close();
    await rm(before, { recursive: true });
  }
});
