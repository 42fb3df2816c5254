// Plans of results: a vacuum that has met the small tables empty makes PostgreSQL plan anew, for a table of one row at
// most. What is read there afterwards must not grow with what is there.

import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { openPool, type Pool, type Tx, transact } from "@cauri/store/pool";
import { type TestDatabase, testDatabase } from "@cauri/store/testing";
import { type Claimed, claimDue } from "./delivery-store.ts";
import { endAndTake, endAttempts, endAttemptsAgain } from "./result-store.ts";
import { tidyQueue } from "./upkeep-store.ts";

const ENDPOINTS = 20;
const WAITING = 2_000;
const FLYING = 400;
/** Of each table a statement may read so many rows for each that it is for. */
const EACH = 6;
const CAPS = { per_endpoint: 20, per_account: 40, lease_ms: 20_000 };
const rules = () => ({ ladder_s: [60], suspend_ms: 3_600_000, now: new Date() });

let database: TestDatabase;
let pool: Pool;
let endpoints: readonly bigint[];
let flying: Claimed[];
before(async () => {
  database = await testDatabase("webhooks", [join(import.meta.dirname, "..", "migrations")]);
  // One connection: what it has read is counted for it alone.
  pool = openPool({ url: database.url, name: "plans", max: 1, by_index: true });
  const { rows } = await pool.query<{ id: bigint }>(
    `insert into endpoints (operation_id, account, url, secret_sealed)
     select 'op' || n, 'acct' || n, 'https://shop.example.com/' || n, 'sealed' from generate_series(1, $1::int) n returning id`,
    [ENDPOINTS],
  );
  endpoints = rows.map(({ id }) => id);
  await fill(0, 40);
  await claim(20);
  await emptyAndVacuum();
  await fill(40, WAITING);
  flying = [...(await claim(FLYING))];
  assert.equal(flying.length, FLYING);
});
after(async () => {
  await pool.end();
  await database.close();
});

async function emptyAndVacuum(): Promise<void> {
  await pool.query("delete from queue");
  await pool.query("delete from flights");
  await tidyQueue(pool);
  const { rows } = await pool.query(
    "select relname from pg_class where relname in ('queue', 'flights') and reltuples <> 0",
  );
  assert.deepEqual(rows, [], "the vacuum has met no row");
}

async function fill(from: number, to: number): Promise<void> {
  await pool.query(
    `with made as (
       insert into deliveries (id, endpoint_id, event_id, account, mode, event, operation_id, version, body, occurred_at, due_at)
       select 'dl_' || n, e.id, 'evt_' || n, e.account, 'live', 'payment.success', 'pay_' || n, 1, '{}', now(),
              date_trunc('milliseconds', now())
         from generate_series($1::int, $2::int - 1) n join endpoints e on e.account = 'acct' || 1 + n % $3::int
       returning id, endpoint_id, mode, due_at, operation_id, version)
     insert into queue (endpoint_id, mode, due_at, delivery_id, operation_id, version, attempts)
     select endpoint_id, mode, due_at, id, operation_id, version, 0 from made`,
    [from, to, ENDPOINTS],
  );
}

async function claim(limit: number): Promise<readonly Claimed[]> {
  return (await transact(pool, (tx) => claimDue(tx, { ...CAPS, endpoints, limit, now: new Date() }))).claimed;
}

/** How many rows of both tables the work has read by their indexes. */
async function readBy(work: (tx: Tx) => Promise<unknown>): Promise<number> {
  const fetched = async (tx: Tx) => {
    const { rows } = await tx.query<{ read: number }>(
      `select coalesce(sum(idx_tup_fetch + seq_tup_read), 0)::int as read from pg_stat_xact_user_tables
        where relname in ('queue', 'flights')`,
    );
    return rows[0]?.read ?? 0;
  };
  return transact(pool, async (tx) => {
    const before = await fetched(tx);
    await work(tx);
    return (await fetched(tx)) - before;
  });
}

const ended = (count: number, delivered = true) =>
  flying.splice(0, count).map((claimed) => {
    const attempt = { delivered, status_code: 200, duration_ms: 1, error: null, answer: null };
    return { claimed, attempt, at: new Date() };
  });

for (const [name, work] of [
  ["results", (tx: Tx) => endAttempts(tx, ended(20), rules())],
  ["results that failed", (tx: Tx) => endAttempts(tx, ended(20, false), rules())],
  ["results written again", (tx: Tx) => endAttemptsAgain(tx, ended(20), rules())],
  ["results that hand places on", (tx: Tx) => endAndTake(tx, ended(20), rules(), { ...CAPS, endpoints: [] })],
] as const)
  test(`${name}: read the flights that they end, also after a vacuum that has met none`, async () => {
    const read = await readBy(work);
    assert.ok(read >= 20 && read <= 20 * EACH, `${read} rows read for 20 results, with ${flying.length} under way`);
  });
