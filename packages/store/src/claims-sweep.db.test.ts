import assert from "node:assert/strict";
import { after, before, beforeEach, test } from "node:test";
import { decideClaim, holdLease, peek, tellUnfinished, yieldLease } from "./claims.ts";
import { again, age, assertRefused, claimed, claimRequest, LEASE_MS, sweep } from "./claims-testing.ts";
import { transact } from "./pool.ts";
import { type TestDatabase, testDatabase } from "./testing.ts";

let db: TestDatabase;

before(async () => {
  db = await testDatabase("store", [], { max: 20 });
});
// What an earlier test has left falls due some seconds later, which on a slow machine is in the middle of another one.
beforeEach(() => db.pool.query("delete from claims"));
after(() => db.close());

test("due_claims: takes over 1 s after the lease ran out, once, under a new number", async () => {
  const wanted = claimRequest();
  await claimed(db.pool, wanted);
  await age(db.pool, wanted.operation_id, LEASE_MS);
  assert.deepEqual(await sweep(db.pool), [], "the lease is over, the second is not");
  await age(db.pool, wanted.operation_id, 1_000);
  const [found, ...more] = await sweep(db.pool);
  assert.deepEqual(more, []);
  assert.deepEqual(found, {
    operation_id: wanted.operation_id,
    account: wanted.account,
    mode: "live",
    route: wanted.route,
    kind: "payment",
    lease_no: 2,
    give_up: false,
    orphan: false,
    decided: false,
  });
  assert.deepEqual(await sweep(db.pool), []);
  assert.equal(await transact(db.pool, (tx) => holdLease(tx, wanted.operation_id, 1)), false);
  await assertRefused(db.pool, again(wanted), "concurrent_request", 1);
});

test("due_claims: a told operation is given up after ten minutes, also when the first sweeper crashed at it", async () => {
  const wanted = claimRequest();
  await claimed(db.pool, wanted, decideClaim, tellUnfinished);
  await age(db.pool, wanted.operation_id, 599_000);
  assert.deepEqual(await sweep(db.pool), []);
  await age(db.pool, wanted.operation_id, 1_000);
  assert.equal((await sweep(db.pool))[0]?.give_up, true);
  await age(db.pool, wanted.operation_id, LEASE_MS + 1_000);
  const [found] = await sweep(db.pool);
  assert.deepEqual([found?.give_up, found?.decided, found?.lease_no], [true, true, 3]);
});

test("due_claims: a retry of a told operation starts the ten minutes anew", async () => {
  const wanted = claimRequest();
  await claimed(db.pool, wanted, tellUnfinished);
  await age(db.pool, wanted.operation_id, 590_000);
  await claimed(db.pool, again(wanted));
  await age(db.pool, wanted.operation_id, LEASE_MS + 1_000);
  assert.equal((await sweep(db.pool))[0]?.give_up, false, "the crash of a retry is an interruption like any other");
});

test("due_claims: a draft that nobody can name is an orphan, and a told one doesn't wait ten minutes", async () => {
  const crashed = claimRequest({ key: null });
  await claimed(db.pool, crashed);
  await age(db.pool, crashed.operation_id, LEASE_MS + 1_000);
  assert.deepEqual(
    (await sweep(db.pool)).map((found) => [found.operation_id, found.orphan]),
    [[crashed.operation_id, true]],
  );
  const told = claimRequest({ key: null });
  await claimed(db.pool, told, tellUnfinished);
  assert.deepEqual(await sweep(db.pool), []);
  await age(db.pool, told.operation_id, 10_000);
  assert.deepEqual(
    (await sweep(db.pool)).map((found) => [found.operation_id, found.give_up]),
    [[told.operation_id, true]],
  );
});

test("due_claims: several sweepers share the work and never the same operation", async () => {
  for (let i = 0; i < 40; i += 1) {
    const wanted = claimRequest();
    await claimed(db.pool, wanted);
    await age(db.pool, wanted.operation_id, LEASE_MS + 1_000);
  }
  const shares = await Promise.all(Array.from({ length: 8 }, () => sweep(db.pool, 10)));
  const ids = shares.flat().map((found) => found.operation_id);
  assert.equal(new Set(ids).size, ids.length);
  const rest = (await sweep(db.pool)).map((found) => found.operation_id);
  assert.equal(new Set([...ids, ...rest]).size, 40);
});

test("yield_lease: a retry goes on at once, else the sweeper does after a second", async () => {
  const wanted = claimRequest();
  await claimed(db.pool, wanted, yieldLease);
  assert.deepEqual(await sweep(db.pool), []);
  assert.deepEqual(await peek(db.pool, again(wanted)), { resumable: wanted.operation_id });
  await age(db.pool, wanted.operation_id, 1_000);
  assert.deepEqual(
    (await sweep(db.pool)).map((found) => found.operation_id),
    [wanted.operation_id],
  );
  assert.equal(await transact(db.pool, (tx) => yieldLease(tx, wanted.operation_id, 1)), false);
});

test("yield_lease: a draft that nobody can name waits for the gateway's repeat", async () => {
  const wanted = claimRequest({ key: null });
  await claimed(db.pool, wanted, yieldLease);
  await age(db.pool, wanted.operation_id, 9_000);
  assert.deepEqual(await sweep(db.pool), []);
  await age(db.pool, wanted.operation_id, 1_000);
  assert.equal((await sweep(db.pool))[0]?.orphan, true);
});
