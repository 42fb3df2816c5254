// A process dies before each of its effects in turn; whoever comes after it must end where an undisturbed run ends.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { isRefusal } from "@cauri/money/refusal";
import { AttemptOutcome } from "@cauri/proto/ts/cauri/rails/v1/rails";
import { transact } from "@cauri/store/pool";
import { createPayment, sweepPayment } from "./create.ts";
import { applyNews } from "./news.ts";
import { callerOf, mortal, openTestRoom, requestOf, stateOf, type TestRoom } from "./testing.ts";

let room: TestRoom;
before(async () => {
  room = await openTestRoom();
});
after(() => room.close());

/** What the rail says to the call, and the news that follow it. */
type Story = {
  readonly name: string;
  readonly script: TestRoom["rails"]["script"];
  readonly news: (id: string) => Uint8Array[];
};

const XOF = { railAmountMinor: 10_000n, railCurrency: "XOF" };
const STORIES: readonly Story[] = [
  {
    name: "accepted, then collected",
    script: () => ({ outcome: AttemptOutcome.PENDING }),
    news: (id) => [room.rails.say({ id }, "success")],
  },
  {
    name: "accepted, then refused by the payer",
    script: () => ({ outcome: AttemptOutcome.PENDING }),
    news: (id) => [room.rails.say({ id }, "failed", { failureCode: "payer_rejected" })],
  },
  {
    name: "accepted, then cancelled, then paid all the same",
    script: () => ({ outcome: AttemptOutcome.PENDING }),
    news: (id) => [room.rails.say({ id }, "cancelled"), room.rails.say({ id }, "success")],
  },
  { name: "collected at once", script: () => ({ outcome: AttemptOutcome.SUCCESS, ...XOF }), news: () => [] },
  {
    name: "failed at once, then late money",
    script: () => ({ outcome: AttemptOutcome.FAILED, failureCode: "insufficient_funds" }),
    news: (id) => [room.rails.say({ id }, "success")],
  },
  {
    name: "unknown, then found collected",
    script: () => ({ outcome: AttemptOutcome.UNKNOWN }),
    news: (id) => [room.rails.say({ id }, "success")],
  },
  {
    name: "another amount at first, then its own",
    script: () => ({ outcome: AttemptOutcome.SUCCESS, ...XOF, railAmountMinor: 7n }),
    news: (id) => [room.rails.say({ id }, "success")],
  },
  {
    name: "news overtake the answer",
    script: async ({ operationId }) => {
      await room.tellNews(room.rails.say({ id: operationId }, "success"));
      return { outcome: AttemptOutcome.PENDING };
    },
    news: () => [],
  },
];

async function undisturbed(story: Story) {
  room.rails.script = story.script;
  const { rooms, effects } = mortal(room.rooms, Number.POSITIVE_INFINITY);
  const caller = callerOf();
  const created = await createPayment(rooms, requestOf(), caller);
  assert.ok(!isRefusal(created));
  const count = effects();
  const begun = await lookAt(created.payment.id);
  for (const news of story.news(created.payment.id)) await room.tellNews(news);
  return { count, begun, end: await lookAt(created.payment.id) };
}

/** Where the payer pays matters while it is awaited; of a payment at rest it may be unknown. */
async function lookAt(id: string) {
  const state = await stateOf(room, id);
  return state.status === "pending" ? state : { ...state, payment_url: null };
}

for (const story of STORIES) {
  test(`create_payment, interrupted anywhere and swept: ${story.name}`, async () => {
    const { count, begun, end } = await undisturbed(story);
    assert.ok(count >= 4, `${count} effects`);
    for (let dies_before = 1; dies_before <= count; dies_before += 1) {
      room.rails.script = story.script;
      const caller = callerOf({ idempotency_key: `swept ${story.name} ${dies_before}` });
      const id = caller.operation ?? "";
      await assert.rejects(createPayment(mortal(room.rooms, dies_before).rooms, requestOf(), caller), /dead/);
      await room.sweep();
      if ((await room.claimOf(id)) === undefined) {
        // Nothing was written yet: nothing is there, and the retry is the first request.
        assert.equal((await room.eventsOf(id)).length, 0);
        await createPayment(room.rooms, requestOf(), caller);
      }
      assert.deepEqual(await lookAt(id), begun, `died before effect ${dies_before} of ${count}`);
      for (const news of story.news(id)) await room.tellNews(news);
      assert.deepEqual(await lookAt(id), end, `died before effect ${dies_before} of ${count}`);
    }
  });

  test(`create_payment, interrupted anywhere and retried: ${story.name}`, async () => {
    const { count, begun, end } = await undisturbed(story);
    for (let dies_before = 1; dies_before <= count; dies_before += 1) {
      room.rails.script = story.script;
      const caller = callerOf({ idempotency_key: `retried ${story.name} ${dies_before}` });
      await assert.rejects(createPayment(mortal(room.rooms, dies_before).rooms, requestOf(), caller), /dead/);
      // The gateway's repeat carries the operation's id: it takes over at once, the lease has not run out.
      const created = await createPayment(room.rooms, requestOf(), caller);
      assert.ok(!isRefusal(created) && created.payment.id === caller.operation);
      assert.deepEqual(await lookAt(created.payment.id), begun, `died before effect ${dies_before} of ${count}`);
      for (const news of story.news(created.payment.id)) await room.tellNews(news);
      assert.deepEqual(await lookAt(created.payment.id), end, `died before effect ${dies_before} of ${count}`);
    }
  });

  test(`news, interrupted anywhere and delivered again: ${story.name}`, async () => {
    const { end } = await undisturbed(story);
    for (let dies_before = 1; dies_before <= 6; dies_before += 1) {
      room.rails.script = story.script;
      const { id } = await room.create();
      const { rooms } = mortal(room.rooms, dies_before);
      for (const payload of story.news(id)) {
        await applyNews(rooms, [{ payload }]).catch((error: unknown) => assert.match(String(error), /dead/));
        await room.tellNews(payload, payload);
      }
      assert.deepEqual(await lookAt(id), end, `died before effect ${dies_before}`);
    }
  });
}

test("create_payment: news come to a payment whose runner died, then the sweeper finds it at rest", async () => {
  room.rails.script = () => ({ outcome: AttemptOutcome.PENDING });
  for (let dies_before = 4; dies_before <= 7; dies_before += 1) {
    const caller = callerOf();
    const id = caller.operation ?? "";
    await createPayment(mortal(room.rooms, dies_before).rooms, requestOf(), caller).catch(() => {});
    if ((await room.claimOf(id)) === undefined) continue;
    await room.tellNews(room.rails.say({ id }, "success"));
    await room.sweep();
    const { status, books, events, claim } = await stateOf(room, id);
    assert.deepEqual([status, claim, books.available, books.pending], ["success", "done", 9_850n, 0n]);
    assert.equal(events.at(-1), "payment.success");
  }
});

test("create_payment: a stalled runner is overtaken, finds its lease gone and changes nothing", async () => {
  const gate = Promise.withResolvers<void>();
  room.rails.script = () => gate.promise.then(() => ({ outcome: AttemptOutcome.PENDING }));
  const caller = callerOf({ idempotency_key: "stalled" });
  const stalled = createPayment(room.rooms, requestOf(), caller);
  while ((await room.claimOf(caller.operation ?? "")) === undefined) await new Promise((next) => setTimeout(next, 5));
  await room.db.pool.query("update claims set lease_until = clock_timestamp() where operation_id = $1", [
    caller.operation,
  ]);
  const retry = createPayment(room.rooms, requestOf(), { ...callerOf(), idempotency_key: "stalled" });
  const overtaken = "select from claims where operation_id = $1 and lease_no = 2";
  while ((await room.db.pool.query(overtaken, [caller.operation])).rowCount === 0) {
    await new Promise((next) => setTimeout(next, 5));
  }
  gate.resolve();
  const answers = await Promise.all([stalled, retry]);
  const created = answers.filter((answer) => !isRefusal(answer));
  const refused = answers.filter(isRefusal);
  assert.deepEqual([created.length, refused.map((refusal) => refusal.refused)], [1, ["concurrent_request"]]);
  const { status, books, events } = await stateOf(room, caller.operation ?? "");
  assert.deepEqual([status, books.holds, books.pending], ["pending", 1, 10_000n]);
  assert.deepEqual(events, ["payment.initiated", "payment.pending"]);
});

test("create_payment: given up in the books but not in the table, then retried: the books decide", async () => {
  room.rails.script = () => ({ outcome: AttemptOutcome.REFUSED });
  const caller = callerOf({ idempotency_key: "given up" });
  const id = caller.operation ?? "";
  assert.ok(isRefusal(await createPayment(room.rooms, requestOf(), caller)));
  // The sweeper's process reads, releases in the ledger and dies before it writes.
  const dying = mortal(room.rooms, 3).rooms;
  await transact(room.db.pool, (tx) => tx.query("update claims set lease_no = 2 where operation_id = $1", [id]));
  const due = { operation_id: id, account: caller.account, mode: caller.mode, route: "", kind: "payment", lease_no: 2 };
  await assert.rejects(sweepPayment(dying, { ...due, give_up: true, orphan: false, decided: true }), /dead/);
  room.rails.script = () => ({ outcome: AttemptOutcome.PENDING });
  const retried = await createPayment(room.rooms, requestOf(), caller);
  assert.ok(!isRefusal(retried));
  const { status, failure_code, books } = await stateOf(room, id);
  assert.deepEqual([status, failure_code, books.pending, books.holds], ["failed", "operator_unavailable", 0n, 1]);
  await room.tellNews(room.rails.say({ id }, "success"));
  assert.deepEqual((await stateOf(room, id)).books.available, 9_850n);
});
