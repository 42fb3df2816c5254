import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import fc from "fast-check";
import { pgBoolArray, pgBytesArray, pgNumArray, pgTextArray, pgTimeArray } from "./arrays.ts";
import { isUnavailable, openPool, type Pool, type Queryable, rolledBack, snapshot, transact } from "./pool.ts";
import { PATIENCE_MS, type TestDatabase, testDatabase } from "./testing.ts";

let db: TestDatabase;

before(async () => {
  db = await testDatabase("store", []);
});
after(() => db.close());

async function offsetOf(account: string): Promise<bigint | undefined> {
  const { rows } = await db.pool.query("select offset_ms from clocks where account = $1", [account]);
  return rows[0]?.offset_ms;
}

const insert = "insert into clocks (account, offset_ms) values ($1, $2)";

test("transact: commits, and then runs what waited for the commit", async () => {
  const heard: string[] = [];
  const result = await transact(db.pool, async (tx) => {
    tx.afterCommit(() => heard.push("committed"));
    await tx.query(insert, ["commits", 1n]);
    assert.deepEqual(heard, []);
    return "done";
  });
  assert.equal(result, "done");
  assert.deepEqual(heard, ["committed"]);
  assert.equal(await offsetOf("commits"), 1n);
});

test("transact: what the work throws takes everything back", async () => {
  const heard: string[] = [];
  const work = transact(db.pool, async (tx) => {
    tx.afterCommit(() => heard.push("committed"));
    await tx.query(insert, ["throws", 1n]);
    throw new Error("no");
  });
  await assert.rejects(work, /^Error: no$/);
  assert.deepEqual(heard, []);
  assert.equal(await offsetOf("throws"), undefined);
});

test("transact: a failed statement that nobody awaited is thrown, never believed committed", async () => {
  const heard: string[] = [];
  const work = transact(db.pool, async (tx) => {
    tx.afterCommit(() => heard.push("committed"));
    await tx.query(insert, ["unawaited", 1n]);
    void tx.query(insert, ["unawaited", 2n]);
  });
  await assert.rejects(work, /duplicate key/);
  assert.deepEqual(heard, []);
  assert.equal(await offsetOf("unawaited"), undefined);
});

test("transact: a failure that the work swallows is thrown too, because nothing was committed", async () => {
  const work = transact(db.pool, async (tx) => {
    await tx.query(insert, ["swallowed", 1n]);
    await tx.query(insert, ["swallowed", 2n]).catch(() => {});
  });
  await assert.rejects(work, /duplicate key/);
  assert.equal(await offsetOf("swallowed"), undefined);
});

test("transact: a connection is usable again after every kind of failure", async () => {
  const narrow = openPool({ url: db.url, name: "narrow", max: 1, patience_ms: PATIENCE_MS });
  for (const sql of ["select 1/0", "nonsense", "select pg_sleep(10)"]) {
    const work = transact(narrow, async (tx) => {
      await tx.query("set local statement_timeout = 50");
      await tx.query(sql);
    });
    await assert.rejects(work);
    const { rows } = await narrow.query("select pg_catalog.now() = statement_timestamp() as alone, 1 as one");
    assert.deepEqual(rows, [{ alone: true, one: 1 }]);
  }
  await narrow.end();
});

test("transact: two that deadlock both end well", async () => {
  await db.pool.query("insert into clocks values ('deadlock a', 0), ('deadlock b', 0)");
  let runs = 0;
  let holding = 0;
  const both = Promise.withResolvers<void>();
  const add = (first: string, second: string) =>
    transact(db.pool, async (tx) => {
      runs += 1;
      const update = "update clocks set offset_ms = offset_ms + 1 where account = $1";
      await tx.query(update, [first]);
      holding += 1;
      if (holding === 2) both.resolve();
      await both.promise;
      await tx.query(update, [second]);
    });
  await Promise.all([add("deadlock a", "deadlock b"), add("deadlock b", "deadlock a")]);
  assert.ok(runs > 2, "one of the two was run again");
  assert.equal(await offsetOf("deadlock a"), 2n);
  assert.equal(await offsetOf("deadlock b"), 2n);
});

test("transact: a lost connection is a passing fault, the process lives and the next call succeeds", async () => {
  const work = transact(db.pool, async (tx) => {
    const { rows } = await tx.query<{ pid: number }>("select pg_backend_pid() as pid");
    await db.pool.query("select pg_terminate_backend($1)", [rows[0]?.pid]);
    await tx.query("select 1");
  });
  await assert.rejects(work, (error: Error & { unavailable?: boolean }) => {
    assert.ok(isUnavailable(error));
    assert.equal(error.unavailable, true);
    return true;
  });
  assert.equal(await transact(db.pool, async () => "well"), "well");
});

test("open_pool: a connection that breaks while it is held and silent does not end the process", async () => {
  const client = await db.pool.connect();
  const { rows } = await client.query<{ pid: number }>("select pg_backend_pid() as pid");
  const ended = new Promise((resolve) => client.once("end", resolve));
  await db.pool.query("select pg_terminate_backend($1)", [rows[0]?.pid]);
  await ended;
  await assert.rejects(client.query("select 1"), isUnavailable);
  client.release();
  await db.pool.query("select 1");
});

test("open_pool: a database that can't be reached is a passing fault, a wrong statement is not", async () => {
  const nowhere = openPool({ url: "postgres://x@127.0.0.1:1/x", name: "nowhere" });
  const isPassing = (error: Error & { unavailable?: boolean }) => error.unavailable === true;
  await assert.rejects(nowhere.query("select 1"), isPassing);
  await assert.rejects(
    transact(nowhere, async () => {}),
    isPassing,
  );
  await assert.rejects(db.pool.query("nonsense"), (error) => !isUnavailable(error));
});

test("snapshot: sees one moment and writes nothing", async () => {
  await snapshot(db.pool, async (tx) => {
    const count = async () => (await tx.query<{ n: number }>("select count(1)::integer as n from clocks")).rows[0]?.n;
    const first = await count();
    await db.pool.query(insert, ["beside the snapshot", 1n]);
    assert.equal(await count(), first);
  });
  await assert.rejects(
    snapshot(db.pool, (tx) => tx.query(insert, ["in a snapshot", 1n])),
    /read-only/,
  );
});

test("rolled_back: returns what the work found and leaves nothing", async () => {
  const found = await rolledBack(db.pool, async (tx) => {
    await tx.query(insert, ["never", 7n]);
    return (await tx.query<{ offset_ms: bigint }>("select offset_ms from clocks where account = 'never'")).rows;
  });
  assert.deepEqual(found, [{ offset_ms: 7n }]);
  assert.equal(await offsetOf("never"), undefined);
});

test("open_pool: bigints stay exact, times are dates, a numeric is refused", async () => {
  const { rows } = await db.pool.query(
    `select 9223372036854775807::bigint as big, '{1,NULL,9007199254740993}'::bigint[] as bigs,
            '2026-11-20T18:53:00.123Z'::timestamptz as at, '2026-11-20'::date as day`,
  );
  assert.deepEqual(rows, [
    {
      big: 9_223_372_036_854_775_807n,
      bigs: [1n, null, 9_007_199_254_740_993n],
      at: new Date("2026-11-20T18:53:00.123Z"),
      day: "2026-11-20",
    },
  ]);
  await assert.rejects(db.pool.query("select sum(1::bigint) as total"), /cast it to bigint/);
});

test("array literals: come back as they were, whatever is in them", async () => {
  const texts = fc.array(
    fc.option(
      fc.string({ unit: "binary" }).map((text) => text.replaceAll("\0", "")),
      { nil: null },
    ),
  );
  const numbers = fc.array(fc.option(fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }), { nil: null }));
  const bools = fc.array(fc.option(fc.boolean(), { nil: null }));
  const times = fc.array(
    fc.option(fc.date({ min: new Date(0), max: new Date(4e12), noInvalidDate: true }), { nil: null }),
  );
  const bytes = fc.array(fc.option(fc.uint8Array(), { nil: null }));
  await fc.assert(
    fc.asyncProperty(texts, numbers, bools, times, bytes, async (a, b, c, d, e) => {
      const { rows } = await db.pool.query(
        "select $1::text[] as a, $2::bigint[] as b, $3::boolean[] as c, $4::timestamptz[] as d, $5::bytea[] as e",
        [pgTextArray(a), pgNumArray(b), pgBoolArray(c), pgTimeArray(d), pgBytesArray(e)],
      );
      assert.deepEqual(rows, [{ a, b, c, d, e: e.map((item) => (item === null ? null : Buffer.from(item))) }]);
    }),
    { numRuns: 60 },
  );
});

test("transact: what stood behind a failed statement in its pipeline can be prepared later", async () => {
  const behind = { name: "behind", text: "select $1::integer as n" };
  const one = openPool({ url: db.url, name: "one", max: 1, patience_ms: PATIENCE_MS });
  const failing = transact(one, async (tx) => {
    void tx.prepared({ name: "wrong", text: "select 1 / $1::integer" }, [0]);
    return await tx.prepared(behind, [1]);
  });
  await assert.rejects(failing, /division by zero/);
  assert.deepEqual((await transact(one, (tx) => tx.prepared(behind, [2]))).rows, [{ n: 2 }]);
  await one.end();
});

test("transact: a migration that changes a prepared statement's columns is survived by every connection", async () => {
  await surviveMigrations((pool, text, values) => transact(pool, async (tx) => (await tx.query(text, values)).rows));
});

test("open_pool: a read outside any transaction survives it too, where such reads are prepared", async () => {
  await surviveMigrations(async (pool, text, values) => (await pool.query(text, [...values])).rows);
});

async function surviveMigrations(
  ask: (pool: Pool, text: string, values: readonly unknown[]) => Promise<unknown[]>,
): Promise<void> {
  const owner = openPool({ url: db.admin_url, name: "owner", max: 1, patience_ms: PATIENCE_MS });
  const pool = openPool({ url: db.url, name: "by index", by_index: true, patience_ms: PATIENCE_MS });
  const read = () => ask(pool, "select * from clocks where account = $1", ["none"]);
  for (let i = 0; i < 3; i += 1) {
    await Promise.all(Array.from({ length: 8 }, read));
    await owner.query(`alter table store.clocks add column spare_${i} integer`);
  }
  assert.deepEqual(await Promise.all(Array.from({ length: 8 }, read)), Array(8).fill([]));
  await owner.query("alter table store.clocks drop column spare_0, drop column spare_1, drop column spare_2");
  await Promise.all([owner.end(), pool.end()]);
}

test("snapshot: its statements are planned for their very values, also where all others are planned once", async () => {
  const pool = openPool({ url: db.url, name: "by index", by_index: true, patience_ms: PATIENCE_MS });
  const mode = async (tx: Queryable) =>
    (await tx.query<{ plan_cache_mode: string }>("show plan_cache_mode")).rows[0]?.plan_cache_mode;
  assert.equal(await snapshot(pool, mode), "force_custom_plan");
  assert.equal(await transact(pool, mode), "force_generic_plan");
  await pool.end();
});
