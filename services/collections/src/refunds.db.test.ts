// Refunds on a real database: a process that dies before any of its effects, two at once, a hundred at once, and what
// becomes of the payment. Whoever comes after a dead process must end where an undisturbed run ends.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { openFollowUp } from "@cauri/events/outgoing-follow";
import { newId } from "@cauri/money/ids";
import { isRefusal, type Refusal } from "@cauri/money/refusal";
import type { CreateRefundRequest } from "@cauri/proto/ts/cauri/collections/v1/refunds";
import { AttemptOutcome } from "@cauri/proto/ts/cauri/rails/v1/rails";
import type { Caller } from "@cauri/rpc/caller";
import { setOffset } from "@cauri/store/clock";
import { transact } from "@cauri/store/pool";
import { reread } from "./apply.ts";
import type { Payment } from "./payment.ts";
import { createRefund, refundKind } from "./refund-create.ts";
import { refunds } from "./refund-store.ts";
import { ACCOUNT, callerOf, mortal, openTestRoom, type TestRoom, tell } from "./testing.ts";

const GROSS = 10_000n;
const PAID = { railAmountMinor: GROSS, railCurrency: "XOF" };
const PART = 4_000n;
const SENT_BACK = { railAmountMinor: PART, railCurrency: "XOF" };

let room: TestRoom;
before(async () => {
  room = await openTestRoom();
});
after(() => room.close());

/** A successful payment, and enough besides it that its fee doesn't stand in the way of a full refund. */
async function paid(): Promise<Payment> {
  room.rails.script = () => ({ outcome: AttemptOutcome.SUCCESS, ...PAID });
  await room.create();
  return await room.create();
}

function refunding(caller: Partial<Caller> = {}): Caller & { readonly operation: string } {
  const operation = newId("re", 1_790_000_000_000);
  return { ...callerOf(caller), operation };
}

function good<T>(answer: T | Refusal): T {
  if (isRefusal(answer)) assert.fail(`refused: ${answer.refused} ${answer.field ?? ""} ${answer.message}`);
  return answer;
}

async function refund(request: CreateRefundRequest, caller: Partial<Caller> = {}) {
  return good(await createRefund(room.rooms.refunding, request, refunding(caller))).operation;
}

/** Everything that a refund and its payment have left behind. */
async function stateOf(id: string, payment_id: string) {
  const made = await refunds.find(room.db.pool, id);
  const payment = await reread(room.db.pool, payment_id);
  return {
    status: made?.status ?? null,
    failure_code: made?.failure_code ?? null,
    books: room.ledger.booksOf(id),
    events: await room.eventsOf(id),
    claim: await room.claimOf(id),
    payment: [payment.status, payment.refunded_minor, payment.refunding_minor],
  };
}

type Story = {
  readonly name: string;
  readonly script: TestRoom["rails"]["script"];
  readonly news: (id: string) => Uint8Array[];
};

const STORIES: readonly Story[] = [
  {
    name: "accepted, then given back",
    script: () => ({ outcome: AttemptOutcome.PENDING }),
    news: (id) => [room.rails.say({ id }, "success", SENT_BACK)],
  },
  {
    name: "accepted, refused, then given back all the same",
    script: () => ({ outcome: AttemptOutcome.PENDING }),
    news: (id) => [
      room.rails.say({ id }, "failed", { failureCode: "account_blocked" }),
      room.rails.say({ id }, "success", SENT_BACK),
    ],
  },
  {
    name: "given back at once, then called failed",
    script: () => ({ outcome: AttemptOutcome.SUCCESS, ...SENT_BACK }),
    news: (id) => [room.rails.say({ id }, "returned")],
  },
  {
    name: "failed at once",
    script: () => ({ outcome: AttemptOutcome.FAILED, failureCode: "account_blocked" }),
    news: () => [],
  },
  {
    name: "unknown, then found given back",
    script: () => ({ outcome: AttemptOutcome.UNKNOWN }),
    news: (id) => [room.rails.say({ id }, "success", SENT_BACK)],
  },
  {
    name: "another amount at first, then its own",
    script: () => ({ outcome: AttemptOutcome.SUCCESS, ...SENT_BACK, railAmountMinor: 7n }),
    news: (id) => [room.rails.say({ id }, "success", SENT_BACK)],
  },
  {
    name: "news overtake the answer",
    script: async ({ operationId: id }) => {
      await room.tellNews(room.rails.say({ id }, "success", SENT_BACK));
      return { outcome: AttemptOutcome.PENDING };
    },
    news: () => [],
  },
];

async function undisturbed(story: Story, name: string) {
  const payment = await paid();
  room.rails.script = story.script;
  const { rooms, effects } = mortal(room.rooms, Number.POSITIVE_INFINITY);
  const request = { paymentId: payment.id, amountMinor: PART };
  const created = good(await createRefund(rooms.refunding, request, refunding({ idempotency_key: name })));
  const { id } = created.operation;
  const count = effects();
  const begun = await stateOf(id, payment.id);
  for (const news of story.news(id)) await room.tellNews(news);
  return { count, begun, end: await stateOf(id, payment.id) };
}

/** Who comes after the dead process. The gateway's repeat carries the operation's id and takes over at once. */
const SUCCESSORS = {
  swept: () => room.sweep(),
  retried: async (again: () => Promise<unknown>) => void (await again()),
  "swept and retried at once": async (again: () => Promise<unknown>) => {
    await Promise.all([room.sweep(), again()]);
    await room.sweep();
  },
} as const;

for (const story of STORIES) {
  for (const [how, goOn] of Object.entries(SUCCESSORS)) {
    test(`create_refund, interrupted anywhere and ${how}: ${story.name}`, async () => {
      const { count, begun, end } = await undisturbed(story, `${story.name} ${how}`);
      assert.ok(count >= 6, `${count} effects`);
      for (let dies_before = 1; dies_before <= count; dies_before += 1) {
        const payment = await paid();
        room.rails.script = story.script;
        const caller = refunding({ idempotency_key: `${how} ${story.name} ${dies_before}` });
        const request = { paymentId: payment.reference, amountMinor: PART };
        const by = mortal(room.rooms, dies_before).rooms.refunding;
        await assert.rejects(createRefund(by, request, caller), /dead/);
        const again = () => createRefund(room.rooms.refunding, request, caller);
        await goOn(again);
        // Nothing was written yet: nothing is there, and the retry is the first request.
        if ((await room.claimOf(caller.operation)) === undefined) good(await again());
        const at = `died before effect ${dies_before} of ${count}`;
        assert.deepEqual(await stateOf(caller.operation, payment.id), begun, at);
        for (const payload of story.news(caller.operation)) {
          const dying = mortal(room.rooms, (dies_before % 5) + 1).rooms;
          await tell(dying, payload).catch((error: unknown) => assert.match(String(error), /dead/));
          await Promise.all([room.tellNews(payload, payload), room.tellNews(payload)]);
        }
        assert.deepEqual(await stateOf(caller.operation, payment.id), end, at);
        assert.equal(good(await again()).operation.id, caller.operation, "run twice, it is one refund");
      }
    });
  }
}

test("create_refund without key and client_ref: a draft that nobody can ask for is erased, its part is free again", async () => {
  const payment = await paid();
  for (let dies_before = 1; dies_before <= 8; dies_before += 1) {
    room.rails.script = () => ({ outcome: AttemptOutcome.PENDING });
    const caller = refunding();
    const by = mortal(room.rooms, dies_before).rooms.refunding;
    await createRefund(by, { paymentId: payment.id }, caller).catch((error) => assert.match(`${error}`, /dead/));
    await room.sweep();
    const state = await stateOf(caller.operation, payment.id);
    if (state.status === null) {
      assert.deepEqual([state.payment, state.events, state.claim], [["success", 0n, 0n], [], undefined]);
      assert.equal(state.books.pending, 0n);
      continue;
    }
    assert.deepEqual([state.status, state.payment], ["pending", ["success", 0n, GROSS]]);
    await room.tellNews(room.rails.say({ id: caller.operation }, "failed", { failureCode: "unknown" }));
    assert.deepEqual((await stateOf(caller.operation, payment.id)).payment, ["success", 0n, 0n]);
  }
});

test("create_refund: partial ones, then what remains; the payment is refunded with the last, and nothing is left", async () => {
  const payment = await paid();
  room.rails.script = () => ({ outcome: AttemptOutcome.SUCCESS });
  const first = await refund({ paymentId: payment.id, amountMinor: 2_500n });
  assert.deepEqual((await stateOf(first.id, payment.id)).payment, ["success", 2_500n, 0n]);
  const rest = await refund({ paymentId: payment.id });
  assert.equal(rest.amount_minor, 7_500n);
  assert.deepEqual((await stateOf(rest.id, payment.id)).payment, ["refunded", GROSS, 0n]);
  assert.equal((await room.eventsOf(payment.id)).at(-1), "payment.refunded");
  const none = await createRefund(room.rooms.refunding, { paymentId: payment.id }, refunding());
  assert.ok(isRefusal(none) && none.refused === "precondition_failed");
  // Late money of the payment itself changes nothing any more.
  await room.tellNews(room.rails.say(payment, "success"));
  assert.equal((await reread(room.db.pool, payment.id)).status, "refunded");
});

test("create_refund: 100 at once of 60 % of one payment: exactly one succeeds", async () => {
  const payment = await paid();
  room.rails.script = () => ({ outcome: AttemptOutcome.PENDING });
  const answers = await Promise.all(
    Array.from({ length: 100 }, () =>
      createRefund(room.rooms.refunding, { paymentId: payment.id, amountMinor: 6_000n }, refunding()),
    ),
  );
  const refused = answers.filter(isRefusal);
  assert.deepEqual(
    [answers.length - refused.length, new Set(refused.map(({ refused: why }) => why))],
    [1, new Set(["invalid_request"])],
  );
  assert.equal((await reread(room.db.pool, payment.id)).refunding_minor, 6_000n);
});

test("create_refund: beyond the balance nothing stays of it, and a later one fits", async () => {
  room.rails.script = () => ({ outcome: AttemptOutcome.SUCCESS, ...PAID });
  const account = newId("acct", 1_790_000_000_000);
  const payment = await room.create({}, { account });
  const request = { paymentId: payment.id, clientRef: "too-much" };
  for (let dies_before = 1; dies_before <= 8; dies_before += 1) {
    const caller = refunding({ account, idempotency_key: `poor ${dies_before}` });
    await createRefund(mortal(room.rooms, dies_before).rooms.refunding, request, caller).catch(() => {});
    await room.sweep();
    const answer = await createRefund(room.rooms.refunding, request, caller);
    assert.ok(isRefusal(answer) && answer.refused === "insufficient_funds");
    const { status, payment: of, claim } = await stateOf(caller.operation, payment.id);
    assert.deepEqual([status, of, claim], [null, ["success", 0n, 0n], undefined]);
  }
  room.rails.script = () => ({ outcome: AttemptOutcome.PENDING });
  const fits = good(
    await createRefund(room.rooms.refunding, { ...request, amountMinor: 9_850n }, refunding({ account })),
  );
  assert.equal(fits.operation.status, "pending");
  assert.equal(room.ledger.available(`merchant:${account}:plt_mtn_ci`), 0n);
});

test("create_refund: refused by the rail it waits for its retry, ten minutes at most; then it has failed", async () => {
  for (let dies_before = 1; dies_before <= 6; dies_before += 1) {
    const payment = await paid();
    room.rails.script = () => ({ outcome: AttemptOutcome.REFUSED });
    const caller = refunding({ idempotency_key: `given up ${dies_before}` });
    const request = { paymentId: payment.id };
    const first = await createRefund(room.rooms.refunding, request, caller);
    assert.ok(isRefusal(first) && first.refused === "upstream_error");
    assert.deepEqual((await stateOf(caller.operation, payment.id)).payment, ["success", 0n, GROSS]);
    await room.sweep(mortal(room.rooms, dies_before).rooms).catch(() => {});
    await room.sweep();
    const { status, failure_code, books, events, payment: of } = await stateOf(caller.operation, payment.id);
    assert.deepEqual([status, failure_code, books.pending], ["failed", "operator_unavailable", 0n]);
    assert.deepEqual([events, of], [["refund.failed"], ["success", 0n, 0n]]);
  }
});

test("follow-up: a refund that nobody knows of is looked after within a second, and soon again while rails is away", async () => {
  const account = "acct_refund_lost";
  room.rails.script = () => ({ outcome: AttemptOutcome.SUCCESS, ...PAID });
  await room.create({}, { account });
  const payment = await room.create({}, { account });
  room.rails.script = () => ({ outcome: AttemptOutcome.UNKNOWN });
  const { id, status } = await refund({ paymentId: payment.id }, { account });
  assert.equal(status, "pending");
  const look = async (at_ms: number) => {
    await transact(room.db.pool, (tx) => setOffset(tx, account, BigInt(at_ms)));
    return await openFollowUp(refundKind, room.rooms.refunding).drain(account);
  };
  // What its call came to is not known at first, then rails can't say, then it answers that it was given back.
  room.rails.attempts.delete(id);
  room.rails.script = () => {
    throw new Error("rails is away");
  };
  const text = "select extract(epoch from check_at - created_at)::float8 as wait_s from refunds where id = $1";
  const { rows } = await room.db.pool.query<{ wait_s: number }>(text, [id]);
  assert.ok((rows[0]?.wait_s ?? 0) >= 1, "not at once");
  assert.deepEqual([await look(1_501), await look(2_000)], [1, 0]);
  room.rails.script = () => ({ outcome: AttemptOutcome.SUCCESS, railAmountMinor: GROSS, railCurrency: "XOF" });
  assert.deepEqual([await look(10_000), await look(200_000)], [1, 0]);
  assert.equal((await refunds.find(room.db.pool, id))?.status, "success");
});

test("follow-up: what stays pending and certainly is nowhere has failed after ten minutes, its funds are released", async () => {
  const account = "acct_refund_nowhere";
  room.rails.script = () => ({ outcome: AttemptOutcome.SUCCESS, ...PAID });
  await room.create({}, { account });
  const payment = await room.create({}, { account });
  room.rails.script = () => ({ outcome: AttemptOutcome.UNKNOWN });
  const { id } = await refund({ paymentId: payment.id }, { account });
  // The rail has nothing of it after all, and takes nothing: its funds would be reserved for ever.
  room.rails.attempts.delete(id);
  room.rails.script = () => ({ outcome: AttemptOutcome.REFUSED });
  const look = async (at_ms: number, by = room.rooms) => {
    await transact(room.db.pool, (tx) => setOffset(tx, account, BigInt(at_ms)));
    await openFollowUp(refundKind, by.refunding).drain(account);
    const { status, failure_code, books, payment: of } = await stateOf(id, payment.id);
    return [status, failure_code, books.pending, of];
  };
  assert.deepEqual(await look(590_000), ["pending", null, -GROSS, ["success", 0n, GROSS]]);
  // Dying before any of its steps, or run by two at once, it comes to the same.
  for (let dies_before = 1; dies_before <= 4; dies_before += 1) {
    const dies = look(600_000 + dies_before * 130_000, mortal(room.rooms, dies_before).rooms);
    await dies.catch((error) => assert.match(`${error}`, /dead/));
  }
  // Whichever of the two finds nothing may look before the other one has ended.
  await Promise.all([look(1_300_000), look(1_300_000)]);
  assert.deepEqual(await look(1_300_000), ["failed", "operator_unavailable", 0n, ["success", 0n, 0n]]);
  assert.equal((await room.eventsOf(id)).at(-1), "refund.failed");
  assert.equal(room.ledger.available(`merchant:${account}:plt_mtn_ci`), 9_850n * 2n);
});

test("create_refund: another account's payment is as if unknown", async () => {
  const payment = await paid();
  const stranger = refunding({ account: `${ACCOUNT.slice(0, -1)}9` });
  const answer = await createRefund(room.rooms.refunding, { paymentId: payment.id }, stranger);
  assert.ok(isRefusal(answer) && answer.field === "payment_id");
});
