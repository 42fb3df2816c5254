import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { newId } from "@cauri/money/ids";
import { isRefusal } from "@cauri/money/refusal";
import {
  type Claimed,
  type ClaimRequest,
  claim,
  decideClaim,
  dueClaims,
  eraseClaim,
  fingerprint,
  finishClaim,
  forgetKeys,
  holdLease,
  peek,
  tellUnfinished,
} from "./claims.ts";
import { transact } from "./pool.ts";
import { type TestDatabase, testDatabase } from "./testing.ts";

const LEASE_MS = 9_000;
const RIVALS = 64;

let db: TestDatabase;

before(async () => {
  db = await testDatabase("store", [], { max: 20 });
});
after(() => db.close());

function request(change: Partial<ClaimRequest> = {}): ClaimRequest {
  return {
    operation_id: newId("pay", Date.now()),
    account: newId("acct", Date.now()),
    mode: "live",
    route: "POST /v1/payments",
    kind: "payment",
    key: "key-1",
    client_ref: null,
    fingerprint: fingerprint("secret", "POST /v1/payments", { amount_minor: 1500n }),
    lease_ms: LEASE_MS,
    takeover: false,
    ...change,
  };
}

/** Another request of the same merchant: only the minted id differs. */
function again(first: ClaimRequest, change: Partial<ClaimRequest> = {}): ClaimRequest {
  return { ...first, operation_id: newId("pay", Date.now()), ...change };
}

const other_payload = fingerprint("secret", "POST /v1/payments", { amount_minor: 1n });

const claimNow = (wanted: ClaimRequest) => transact(db.pool, (tx) => claim(tx, wanted));
const due = (limit = 1000) => transact(db.pool, (tx) => dueClaims(tx, { limit, lease_ms: LEASE_MS }));

async function claimed(wanted: ClaimRequest): Promise<Claimed> {
  const answer = await claimNow(wanted);
  assert.ok("claimed" in answer, `not claimed: ${JSON.stringify(answer)}`);
  return answer;
}

/** Claims and runs one of the steps, each in its transaction. */
async function claimedAnd(wanted: ClaimRequest, ...steps: (typeof finishClaim)[]): Promise<Claimed> {
  const lease = await claimed(wanted);
  for (const step of steps) {
    assert.ok(await transact(db.pool, (tx) => step(tx, lease.operation_id, lease.lease_no)));
  }
  return lease;
}

/** Moves everything about this operation into the past, instead of waiting. */
async function age(operation_id: string, ms: number): Promise<void> {
  await db.pool.query(
    `update claims set lease_until = lease_until - $2 * interval '1 millisecond',
       told_at = told_at - $2 * interval '1 millisecond', due_at = due_at - $2 * interval '1 millisecond',
       created_at = created_at - $2 * interval '1 millisecond'
      where operation_id = $1`,
    [operation_id, ms],
  );
}

async function assertRefused(
  wanted: ClaimRequest,
  refused: string,
  retry_after_s: number | undefined,
): Promise<string> {
  for (const answer of [await peek(db.pool, wanted), await claimNow(wanted)]) {
    assert.ok(isRefusal(answer), `not refused: ${JSON.stringify(answer)}`);
    assert.equal(answer.refused, refused);
    assert.equal(answer.retry_after_s, retry_after_s);
  }
  const answer = await peek(db.pool, wanted);
  return isRefusal(answer) ? answer.message : "";
}

test("claim: a new operation gets the lease number 1", async () => {
  const wanted = request();
  assert.equal(await peek(db.pool, wanted), null);
  assert.deepEqual(await claimNow(wanted), { claimed: "new", operation_id: wanted.operation_id, lease_no: 1 });
});

test("claim: the same key and payload after the end is a replay of the first operation", async () => {
  const wanted = request();
  await claimedAnd(wanted, finishClaim);
  assert.deepEqual(await peek(db.pool, again(wanted)), { replayed: wanted.operation_id });
  assert.deepEqual(await claimNow(again(wanted)), { replayed: wanted.operation_id });
});

test("claim: the same key while the first runs is 409 with Retry-After, another payload 409 without", async () => {
  const wanted = request();
  await claimed(wanted);
  const running = await assertRefused(again(wanted), "concurrent_request", 1);
  const reused = again(wanted, { fingerprint: other_payload });
  const differs = await assertRefused(reused, "concurrent_request", undefined);
  assert.notEqual(running, differs);
  await transact(db.pool, (tx) => finishClaim(tx, wanted.operation_id, 1));
  await assertRefused(reused, "concurrent_request", undefined);
});

test("claim: account, mode and route are the key's scope", async () => {
  const wanted = request();
  await claimedAnd(wanted, finishClaim);
  for (const change of [{ account: newId("acct", 1) }, { mode: "test" as const }, { route: "POST /v1/payouts" }]) {
    assert.equal((await claimed(again(wanted, change))).claimed, "new");
  }
});

test("claim: a second client_ref is concurrent_request while undecided, already_exists once decided", async () => {
  for (const key of [null, "another key"]) {
    const wanted = request({ client_ref: "order-1" });
    const lease = await claimed(wanted);
    const second = again(wanted, { key });
    await assertRefused(second, "concurrent_request", 1);
    await transact(db.pool, (tx) => decideClaim(tx, lease.operation_id, lease.lease_no));
    await assertRefused(second, "already_exists", undefined);
    await transact(db.pool, (tx) => finishClaim(tx, lease.operation_id, lease.lease_no));
    await assertRefused(second, "already_exists", undefined);
    assert.equal((await claimed(again(second, { kind: "refund", route: "POST /v1/refunds" }))).claimed, "new");
  }
});

test("claim: the key is looked at first, so a replay never sees already_exists", async () => {
  const wanted = request({ client_ref: "order-1" });
  await claimedAnd(wanted, finishClaim);
  assert.deepEqual(await claimNow(again(wanted)), { replayed: wanted.operation_id });
  await assertRefused(again(wanted, { fingerprint: other_payload }), "concurrent_request", undefined);
});

test("claim: what was refused is forgotten, and the retry is a new operation", async () => {
  const wanted = request({ client_ref: "order-1" });
  await claimedAnd(wanted, eraseClaim);
  const retry = again(wanted, { fingerprint: other_payload });
  assert.equal(await peek(db.pool, retry), null);
  assert.deepEqual(await claimNow(retry), { claimed: "new", operation_id: retry.operation_id, lease_no: 1 });
});

test("claim: a told 5xx goes on at the retry, and the number of the lease rises", async () => {
  const wanted = request();
  await claimedAnd(wanted, tellUnfinished);
  await assertRefused(again(wanted, { fingerprint: other_payload }), "concurrent_request", undefined);
  assert.deepEqual(await peek(db.pool, again(wanted)), { resumable: wanted.operation_id });
  assert.deepEqual(await claimNow(again(wanted)), {
    claimed: "resumed",
    operation_id: wanted.operation_id,
    lease_no: 2,
  });
  await assertRefused(again(wanted), "concurrent_request", 1);
});

test("claim: a lease that ran out is taken over by the retry", async () => {
  const wanted = request();
  await claimed(wanted);
  await age(wanted.operation_id, LEASE_MS);
  assert.deepEqual(await claimNow(again(wanted)), {
    claimed: "resumed",
    operation_id: wanted.operation_id,
    lease_no: 2,
  });
});

test("claim: the gateway's repeat of the same call takes the lease over at once, with a key or without", async () => {
  for (const key of ["key-1", null]) {
    const wanted = request({ key });
    await claimed(wanted);
    const repeat = { ...wanted, takeover: true };
    assert.deepEqual(await peek(db.pool, repeat), { resumable: wanted.operation_id });
    assert.deepEqual(await claimNow(repeat), { claimed: "resumed", operation_id: wanted.operation_id, lease_no: 2 });
    await transact(db.pool, (tx) => finishClaim(tx, wanted.operation_id, 2));
    assert.deepEqual(await claimNow(repeat), { replayed: wanted.operation_id });
  }
});

test("claim: carrying another operation's id takes nothing over", async () => {
  const wanted = request();
  await claimed(wanted);
  await assertRefused(again(wanted, { takeover: true }), "concurrent_request", 1);
});

test("lease: after a takeover every write of the old runner touches nothing", async () => {
  const wanted = request();
  await claimed(wanted);
  await claimed({ ...wanted, takeover: true });
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
  const wanted = request();
  await claimed(wanted);
  const order: string[] = [];
  const holding = transact(db.pool, async (tx) => {
    assert.ok(await holdLease(tx, wanted.operation_id, 1));
    await sleep(60);
    order.push("written under the old lease");
  });
  await sleep(20);
  const taken = claimed({ ...wanted, takeover: true }).then(() => order.push("taken over"));
  await Promise.all([holding, taken]);
  assert.deepEqual(order, ["written under the old lease", "taken over"]);
});

/** Starts everyone at once and tells how often each answer came. */
async function race(wanted: ClaimRequest[]): Promise<Record<string, number>> {
  const answers = await Promise.all(wanted.map(claimNow));
  const tally: Record<string, number> = {};
  for (const answer of answers) {
    const word = "claimed" in answer ? answer.claimed : "replayed" in answer ? "replayed" : answer.refused;
    tally[word] = (tally[word] ?? 0) + 1;
  }
  return tally;
}

function rivals(change: (i: number) => Partial<ClaimRequest>): ClaimRequest[] {
  const wanted = request();
  return Array.from({ length: RIVALS }, (_, i) => again(wanted, change(i)));
}

test("race: of 64 clients with one key exactly one claims, 63 are told to wait", async () => {
  assert.deepEqual(await race(rivals(() => ({}))), { new: 1, concurrent_request: RIVALS - 1 });
});

test("race: of 64 keys with one client_ref exactly one claims, 63 are told to wait", async () => {
  const wanted = rivals((i) => ({ key: i % 3 === 0 ? null : `key-${i}`, client_ref: "order-1" }));
  assert.deepEqual(await race(wanted), { new: 1, concurrent_request: RIVALS - 1 });
});

test("race: keys and client_refs that cross neither deadlock nor fail", async () => {
  const wanted = rivals((i) => ({ key: `key-${i % 8}`, client_ref: `order-${(i >> 3) % 8}` }));
  const tally = await race(wanted);
  assert.equal((tally["new"] ?? 0) + (tally["concurrent_request"] ?? 0), RIVALS);
  assert.ok((tally["new"] ?? 0) >= 1 && (tally["new"] ?? 0) <= 8);
});

test("race: of 64 repeats of an interrupted operation each takeover has a number of its own", async () => {
  const wanted = request();
  await claimedAnd(wanted, tellUnfinished);
  assert.deepEqual(await race(Array.from({ length: RIVALS }, () => again(wanted))), {
    resumed: 1,
    concurrent_request: RIVALS - 1,
  });
  const repeats = await Promise.all(Array.from({ length: 8 }, () => claimed({ ...wanted, takeover: true })));
  assert.equal(new Set(repeats.map((repeat) => repeat.lease_no)).size, 8);
});

test("race: when the first rolls back, exactly one of those that waited claims in its place", async () => {
  const wanted = rivals(() => ({ client_ref: "order-1" }));
  const [first, ...rest] = wanted;
  assert.ok(first);
  const failing = transact(db.pool, async (tx) => {
    assert.ok("claimed" in (await claim(tx, first)));
    await sleep(50);
    throw new Error("the draft could not be written");
  });
  await sleep(20);
  const tally = race(rest);
  await assert.rejects(failing, /draft/);
  assert.deepEqual(await tally, { new: 1, concurrent_request: RIVALS - 2 });
});

test("race: when each one is refused and erased, every answer is still a claim or a wait", async () => {
  const answers = await Promise.all(
    rivals(() => ({})).map((wanted) =>
      transact(db.pool, async (tx) => {
        const answer = await claim(tx, wanted);
        if ("claimed" in answer) assert.ok(await eraseClaim(tx, answer.operation_id, answer.lease_no));
        return answer;
      }),
    ),
  );
  assert.ok(
    answers.every((answer) => "claimed" in answer || (isRefusal(answer) && answer.refused === "concurrent_request")),
  );
});

test("due_claims: takes over 1 s after the lease ran out, once, under a new number", async () => {
  await due();
  const wanted = request();
  await claimed(wanted);
  await age(wanted.operation_id, LEASE_MS + 900);
  assert.deepEqual(await due(), []);
  await age(wanted.operation_id, 100);
  const [found, ...more] = await due();
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
  assert.deepEqual(await due(), []);
  assert.equal(await transact(db.pool, (tx) => holdLease(tx, wanted.operation_id, 1)), false);
  await assertRefused(again(wanted), "concurrent_request", 1);
});

test("due_claims: a told operation is given up after ten minutes, also when the first sweeper crashed at it", async () => {
  await due();
  const wanted = request();
  await claimedAnd(wanted, decideClaim, tellUnfinished);
  await age(wanted.operation_id, 599_000);
  assert.deepEqual(await due(), []);
  await age(wanted.operation_id, 1_000);
  assert.equal((await due())[0]?.give_up, true);
  await age(wanted.operation_id, LEASE_MS + 1_000);
  const [found] = await due();
  assert.deepEqual([found?.give_up, found?.decided, found?.lease_no], [true, true, 3]);
});

test("due_claims: a retry of a told operation starts the ten minutes anew", async () => {
  await due();
  const wanted = request();
  await claimedAnd(wanted, tellUnfinished);
  await age(wanted.operation_id, 590_000);
  await claimed(again(wanted));
  await age(wanted.operation_id, LEASE_MS + 1_000);
  assert.equal((await due())[0]?.give_up, false, "the crash of a retry is an interruption like any other");
});

test("due_claims: a draft that nobody can name is an orphan, and a told one doesn't wait ten minutes", async () => {
  await due();
  const crashed = request({ key: null });
  await claimed(crashed);
  await age(crashed.operation_id, LEASE_MS + 1_000);
  assert.deepEqual(
    (await due()).map((found) => [found.operation_id, found.orphan]),
    [[crashed.operation_id, true]],
  );
  const told = request({ key: null });
  await claimedAnd(told, tellUnfinished);
  assert.deepEqual(await due(), []);
  await age(told.operation_id, 10_000);
  assert.deepEqual(
    (await due()).map((found) => [found.operation_id, found.give_up]),
    [[told.operation_id, true]],
  );
});

test("due_claims: several sweepers share the work and never the same operation", async () => {
  await due();
  for (let i = 0; i < 40; i += 1) {
    const wanted = request();
    await claimed(wanted);
    await age(wanted.operation_id, LEASE_MS + 1_000);
  }
  const shares = await Promise.all(Array.from({ length: 8 }, () => due(10)));
  const ids = shares.flat().map((found) => found.operation_id);
  assert.equal(new Set(ids).size, ids.length);
  const rest = (await due()).map((found) => found.operation_id);
  assert.equal(new Set([...ids, ...rest]).size, 40);
});

test("forget_keys: old finished keys go, a client_ref protects for ever, what runs stays", async () => {
  const keyed = request();
  const named = request({ client_ref: "order-1" });
  const nameless = request({ key: null });
  const young = request();
  const running = request();
  for (const wanted of [keyed, named, nameless, young]) await claimedAnd(wanted, finishClaim);
  await claimed(running);
  for (const wanted of [keyed, named, nameless, running]) await age(wanted.operation_id, 25 * 3_600_000);
  const yesterday = new Date(Date.now() - 24 * 3_600_000);
  assert.equal(await transact(db.pool, (tx) => forgetKeys(tx, yesterday)), 3);
  assert.equal(await transact(db.pool, (tx) => forgetKeys(tx, yesterday)), 0);
  assert.equal((await claimed(again(keyed))).claimed, "new");
  await assertRefused(again(named), "already_exists", undefined);
  assert.deepEqual(await claimNow(again(young)), { replayed: young.operation_id });
  assert.deepEqual(await peek(db.pool, again(running)), { resumable: running.operation_id });
  const { rows } = await db.pool.query("select 1 from claims where operation_id = $1", [nameless.operation_id]);
  assert.deepEqual(rows, []);
});
