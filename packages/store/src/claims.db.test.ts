import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { newId } from "@cauri/money/ids";
import { decideClaim, eraseClaim, finishClaim, forgetKeys, holdLease, peek, tellUnfinished } from "./claims.ts";
import {
  again,
  age,
  assertRefused,
  claimed,
  claimNow,
  claimRequest,
  LEASE_MS,
  other_payload,
} from "./claims-testing.ts";
import { transact } from "./pool.ts";
import { type TestDatabase, testDatabase } from "./testing.ts";

let db: TestDatabase;

before(async () => {
  db = await testDatabase("store", [], { max: 20 });
});
after(() => db.close());

test("claim: a new operation gets the lease number 1", async () => {
  const wanted = claimRequest();
  assert.equal(await peek(db.pool, wanted), null);
  assert.deepEqual(await claimNow(db.pool, wanted), { claimed: "new", operation_id: wanted.operation_id, lease_no: 1 });
});

test("claim: the same key and payload after the end is a replay of the first operation", async () => {
  const wanted = claimRequest();
  await claimed(db.pool, wanted, finishClaim);
  assert.deepEqual(await peek(db.pool, again(wanted)), { replayed: wanted.operation_id });
  assert.deepEqual(await claimNow(db.pool, again(wanted)), { replayed: wanted.operation_id });
});

test("claim: the same key while the first runs is 409 with Retry-After, another payload 409 without", async () => {
  const wanted = claimRequest();
  await claimed(db.pool, wanted);
  const running = await assertRefused(db.pool, again(wanted), "concurrent_request", 1);
  const reused = again(wanted, { fingerprint: other_payload });
  const differs = await assertRefused(db.pool, reused, "concurrent_request", undefined);
  assert.notEqual(running, differs);
  await transact(db.pool, (tx) => finishClaim(tx, wanted.operation_id, 1));
  await assertRefused(db.pool, reused, "concurrent_request", undefined);
});

test("claim: account, mode and route are the key's scope", async () => {
  const wanted = claimRequest();
  await claimed(db.pool, wanted, finishClaim);
  for (const change of [{ account: newId("acct", 1) }, { mode: "test" as const }, { route: "POST /v1/payouts" }]) {
    assert.equal((await claimed(db.pool, again(wanted, change))).claimed, "new");
  }
});

test("claim: a second client_ref is concurrent_request while undecided, already_exists once decided", async () => {
  for (const key of [null, "another key"]) {
    const wanted = claimRequest({ client_ref: "order-1" });
    const lease = await claimed(db.pool, wanted);
    const second = again(wanted, { key });
    await assertRefused(db.pool, second, "concurrent_request", 1);
    await transact(db.pool, (tx) => decideClaim(tx, lease.operation_id, lease.lease_no));
    await assertRefused(db.pool, second, "already_exists", undefined);
    await transact(db.pool, (tx) => finishClaim(tx, lease.operation_id, lease.lease_no));
    await assertRefused(db.pool, second, "already_exists", undefined);
    assert.equal((await claimed(db.pool, again(second, { kind: "refund", route: "POST /v1/refunds" }))).claimed, "new");
  }
});

test("claim: what is visible from its first transaction is decided from there, and told it waits its ten minutes", async () => {
  const wanted = claimRequest({ key: null, client_ref: "order-1", decided: true });
  await claimed(db.pool, wanted);
  await assertRefused(db.pool, again(wanted), "already_exists", undefined);
  const nameless = claimRequest({ key: null, decided: true });
  await claimed(db.pool, nameless, tellUnfinished);
  const { rows } = await db.pool.query<{ waits: boolean }>(
    "select due_at > told_at + interval '9 minutes' as waits from claims where operation_id = $1",
    [nameless.operation_id],
  );
  assert.equal(rows[0]?.waits, true);
});

test("claim: the key is looked at first, so a replay never sees already_exists", async () => {
  const wanted = claimRequest({ client_ref: "order-1" });
  await claimed(db.pool, wanted, finishClaim);
  assert.deepEqual(await claimNow(db.pool, again(wanted)), { replayed: wanted.operation_id });
  await assertRefused(db.pool, again(wanted, { fingerprint: other_payload }), "concurrent_request", undefined);
});

test("claim: what was refused is forgotten, and the retry is a new operation", async () => {
  const wanted = claimRequest({ client_ref: "order-1" });
  await claimed(db.pool, wanted, eraseClaim);
  const retry = again(wanted, { fingerprint: other_payload });
  assert.equal(await peek(db.pool, retry), null);
  assert.deepEqual(await claimNow(db.pool, retry), { claimed: "new", operation_id: retry.operation_id, lease_no: 1 });
});

test("claim: a told 5xx goes on at the retry, and the number of the lease rises", async () => {
  const wanted = claimRequest();
  await claimed(db.pool, wanted, tellUnfinished);
  await assertRefused(db.pool, again(wanted, { fingerprint: other_payload }), "concurrent_request", undefined);
  assert.deepEqual(await peek(db.pool, again(wanted)), { resumable: wanted.operation_id });
  assert.deepEqual(await claimNow(db.pool, again(wanted)), {
    claimed: "resumed",
    operation_id: wanted.operation_id,
    lease_no: 2,
  });
  await assertRefused(db.pool, again(wanted), "concurrent_request", 1);
});

test("claim: a lease that ran out is taken over by the retry", async () => {
  const wanted = claimRequest();
  await claimed(db.pool, wanted);
  await age(db.pool, wanted.operation_id, LEASE_MS);
  assert.deepEqual(await claimNow(db.pool, again(wanted)), {
    claimed: "resumed",
    operation_id: wanted.operation_id,
    lease_no: 2,
  });
});

test("claim: the gateway's repeat of the same call takes the lease over at once, with a key or without", async () => {
  for (const key of ["key-1", null]) {
    const wanted = claimRequest({ key });
    await claimed(db.pool, wanted);
    const repeat = { ...wanted, takeover: true };
    assert.deepEqual(await peek(db.pool, repeat), { resumable: wanted.operation_id });
    assert.deepEqual(await claimNow(db.pool, repeat), {
      claimed: "resumed",
      operation_id: wanted.operation_id,
      lease_no: 2,
    });
    await transact(db.pool, (tx) => finishClaim(tx, wanted.operation_id, 2));
    assert.deepEqual(await claimNow(db.pool, repeat), { replayed: wanted.operation_id });
  }
});

test("claim: carrying another operation's id takes nothing over", async () => {
  const wanted = claimRequest();
  await claimed(db.pool, wanted);
  await assertRefused(db.pool, again(wanted, { takeover: true }), "concurrent_request", 1);
});

test("lease: after a takeover every write of the old runner touches nothing", async () => {
  const wanted = claimRequest();
  await claimed(db.pool, wanted);
  await claimed(db.pool, { ...wanted, takeover: true });
  for (const step of [holdLease, decideClaim, tellUnfinished, eraseClaim, finishClaim]) {
    assert.equal(await transact(db.pool, (tx) => step(tx, wanted.operation_id, 1)), false, step.name);
  }
  assert.equal(await transact(db.pool, (tx) => holdLease(tx, wanted.operation_id, 2)), true);
  await transact(db.pool, (tx) => finishClaim(tx, wanted.operation_id, 2));
  for (const step of [holdLease, tellUnfinished, eraseClaim, finishClaim]) {
    assert.equal(
      await transact(db.pool, (tx) => step(tx, wanted.operation_id, 2)),
      false,
      `${step.name} after the end`,
    );
  }
});

test("lease: a takeover waits for the transaction that holds the lease", async () => {
  const wanted = claimRequest();
  await claimed(db.pool, wanted);
  const order: string[] = [];
  let taken: Promise<unknown> | undefined;
  await transact(db.pool, async (tx) => {
    assert.ok(await holdLease(tx, wanted.operation_id, 1));
    taken = claimed(db.pool, { ...wanted, takeover: true }).then(() => order.push("taken over"));
    // In this database: other tests share the server.
    const waits = "select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";
    while ((await db.pool.query(waits)).rowCount === 0 && order.length === 0) await sleep(10);
    order.push("written under the old lease");
  });
  await taken;
  assert.deepEqual(order, ["written under the old lease", "taken over"]);
});

test("forget_keys: old finished keys go, a client_ref protects for ever, what runs stays", async () => {
  const keyed = claimRequest();
  const named = claimRequest({ client_ref: "order-1" });
  const nameless = claimRequest({ key: null });
  const young = claimRequest();
  const running = claimRequest();
  for (const wanted of [keyed, named, nameless, young]) await claimed(db.pool, wanted, finishClaim);
  await claimed(db.pool, running);
  for (const wanted of [keyed, named, nameless, running]) await age(db.pool, wanted.operation_id, 25 * 3_600_000);
  const yesterday = new Date(Date.now() - 24 * 3_600_000);
  assert.equal(await transact(db.pool, (tx) => forgetKeys(tx, yesterday)), 3);
  assert.equal(await transact(db.pool, (tx) => forgetKeys(tx, yesterday)), 0);
  assert.equal((await claimed(db.pool, again(keyed))).claimed, "new");
  await assertRefused(db.pool, again(named), "already_exists", undefined);
  assert.deepEqual(await claimNow(db.pool, again(young)), { replayed: young.operation_id });
  assert.deepEqual(await peek(db.pool, again(running)), { resumable: running.operation_id });
  const { rows } = await db.pool.query("select 1 from claims where operation_id = $1", [nameless.operation_id]);
  assert.deepEqual(rows, []);
});
