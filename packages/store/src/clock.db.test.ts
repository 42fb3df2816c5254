import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { openClocks, readOffset, setOffset } from "./clock.ts";
import { openPool, transact } from "./pool.ts";
import { PATIENCE_MS, type TestDatabase, testDatabase } from "./testing.ts";

const DAY_MS = 86_400_000n;
const NOW_MS = Date.UTC(2026, 10, 20, 18, 53);

let db: TestDatabase;

before(async () => {
  db = await testDatabase("store", []);
});
after(() => db.close());

const move = (account: string, offset_ms: bigint) => transact(db.pool, (tx) => setOffset(tx, account, offset_ms));

async function aheadInSql(account: string, mode: string): Promise<number> {
  const { rows } = await db.pool.query<{ ahead: number }>(
    "select (extract(epoch from now_of($1, $2) - date_trunc('milliseconds', statement_timestamp())) * 1000)::float8 as ahead",
    [account, mode],
  );
  return rows[0]?.ahead ?? Number.NaN;
}

test("clocks: test mode is ahead by the account's offset, live mode and other accounts never", async () => {
  const clocks = await openClocks(db.pool, () => NOW_MS);
  await move("moved", 31n * DAY_MS);
  const moved = NOW_MS + Number(31n * DAY_MS);
  assert.equal(clocks.now("moved", "test").getTime(), moved, "this process sees it with the commit");
  assert.equal(clocks.now("moved", "live").getTime(), NOW_MS);
  assert.equal(clocks.now("other", "test").getTime(), NOW_MS);
  assert.equal(await aheadInSql("moved", "test"), Number(31n * DAY_MS));
  assert.equal(await aheadInSql("moved", "live"), 0);
  assert.equal(await aheadInSql("other", "test"), 0);
  clocks.close();
});

test("clocks: a late or repeated event never turns a clock back", async () => {
  const clocks = await openClocks(db.pool, () => NOW_MS);
  await move("forward", 2n * DAY_MS);
  await move("forward", DAY_MS);
  assert.equal(await readOffset(db.pool, "forward"), 2n * DAY_MS);
  assert.equal(clocks.offset("forward"), 2n * DAY_MS);
  assert.equal(await readOffset(db.pool, "unknown"), 0n);
  clocks.close();
});

test("clocks: a rolled-back move is not seen", async () => {
  const clocks = await openClocks(db.pool);
  await assert.rejects(
    transact(db.pool, async (tx) => {
      await setOffset(tx, "rolled back", DAY_MS);
      throw new Error("no");
    }),
  );
  assert.equal(clocks.offset("rolled back"), 0n);
  clocks.close();
});

test("clocks: another replica sees the move when it reads anew", async () => {
  const other = openPool({ url: db.url, name: "replica", patience_ms: PATIENCE_MS });
  const clocks = await openClocks(other);
  await move("replicated", DAY_MS);
  await clocks.refresh();
  assert.equal(clocks.offset("replicated"), DAY_MS);
  clocks.close();
  await other.end();
});

test("latest_now: bounds every account's time, so that a due query may use its index", async () => {
  await move("furthest", 400n * DAY_MS);
  const { rows } = await db.pool.query(
    "select latest_now('test') = now_of('furthest', 'test') as test, latest_now('live') = now_of('x', 'live') as live",
  );
  assert.deepEqual(rows, [{ test: true, live: true }]);
});

test("now_of: shows milliseconds, as the API does", async () => {
  const { rows } = await db.pool.query(
    "select now_of('x', 'live') = date_trunc('milliseconds', statement_timestamp()) as truncated",
  );
  assert.deepEqual(rows, [{ truncated: true }]);
});
