import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { isRefusal } from "@cauri/money/refusal";
import { type ClaimRequest, claim, eraseClaim, tellUnfinished } from "./claims.ts";
import { again, claimed, claimNow, claimRequest } from "./claims-testing.ts";
import { transact } from "./pool.ts";
import { type TestDatabase, testDatabase } from "./testing.ts";

const RIVALS = 64;

let db: TestDatabase;

before(async () => {
  db = await testDatabase("store", [], { max: 20 });
});
after(() => db.close());

/** Starts everyone at once and tells how often each answer came. */
async function race(wanted: ClaimRequest[]): Promise<Record<string, number>> {
  const answers = await Promise.all(wanted.map((request) => claimNow(db.pool, request)));
  const tally: Record<string, number> = {};
  for (const answer of answers) {
    const word = "claimed" in answer ? answer.claimed : "replayed" in answer ? "replayed" : answer.refused;
    tally[word] = (tally[word] ?? 0) + 1;
  }
  return tally;
}

function rivals(change: (i: number) => Partial<ClaimRequest>): ClaimRequest[] {
  const wanted = claimRequest();
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
  const wanted = claimRequest();
  await claimed(db.pool, wanted, tellUnfinished);
  assert.deepEqual(await race(Array.from({ length: RIVALS }, () => again(wanted))), {
    resumed: 1,
    concurrent_request: RIVALS - 1,
  });
  const repeats = await Promise.all(Array.from({ length: 8 }, () => claimed(db.pool, { ...wanted, takeover: true })));
  assert.equal(new Set(repeats.map((repeat) => repeat.lease_no)).size, 8);
});

test("race: when the first rolls back, exactly one of those that waited claims in its place", async () => {
  const wanted = rivals(() => ({ client_ref: "order-1" }));
  const [first, ...rest] = wanted;
  assert.ok(first);
  const claimed = Promise.withResolvers<void>();
  const failing = transact(db.pool, async (tx) => {
    assert.ok("claimed" in (await claim(tx, first)));
    claimed.resolve();
    await sleep(50);
    throw new Error("the draft could not be written");
  });
  await claimed.promise;
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
