// Withdrawals on a real database: every refusal of a request, every end of an approval, and a process that dies before each
// of its effects in turn.

import assert from "node:assert/strict";
import { after, before, beforeEach, test } from "node:test";
import { merchantCode } from "@cauri/money/posting";
import { isRefusal, type Refusal } from "@cauri/money/refusal";
import type { CreateWithdrawalRequest } from "@cauri/proto/ts/cauri/payouts/v1/withdrawals";
import { AttemptOutcome } from "@cauri/proto/ts/cauri/rails/v1/rails";
import { openFollowUpOfWithdrawals } from "./follow-up.ts";
import { ACCOUNT, callerOf, good, MTN, mortal, ORANGE, openTestRoom, type TestRoom } from "./testing.ts";
import { createWithdrawal } from "./withdrawal-create.ts";
import { approveWithdrawal, rejectWithdrawal } from "./withdrawal-decide.ts";
import { withdrawals } from "./withdrawal-store.ts";

let room: TestRoom;
before(async () => {
  room = await openTestRoom();
  room.rails.paid = { railAmountMinor: NET, railCurrency: "XOF" };
});
after(() => room.close());

const [AMOUNT, NET] = [10_000n, 9_900n];
const OURS = merchantCode(ACCOUNT, MTN);
/** The settlement account is on another platform: the clearing between the two takes part. */
const PAID = {
  [OURS]: -10_000,
  [`interplatform:${MTN}`]: 9_900,
  fees: 100,
  [`interplatform:${ORANGE}`]: -9_900,
  [`float:${ORANGE}`]: 9_900,
};
const NOTHING = { moved: {}, held: 0 };
const SUCCESS = { outcome: AttemptOutcome.SUCCESS, railAmountMinor: NET, railCurrency: "XOF" };

beforeEach(() => {
  room.rails.script = () => ({ outcome: AttemptOutcome.PENDING });
  room.terms.fee = { percentBps: 100, fixedMinor: 0n };
  Object.assign(room.settlement, { isActive: true, platformId: ORANGE, keptAs: "kept" });
});

function asked(more: Partial<CreateWithdrawalRequest> = {}): CreateWithdrawalRequest {
  return { amountMinor: AMOUNT, assetId: "ast_xof", platformId: MTN, ...more };
}

async function request(more: Partial<CreateWithdrawalRequest> = {}, key: string | null = null): Promise<string> {
  const caller = callerOf("wr", { idempotency_key: key });
  return good(await createWithdrawal(room.rooms, asked(more), caller)).operation.id;
}

async function stateOf(id: string) {
  const withdrawal = await withdrawals.find(room.db.pool, id);
  return {
    status: withdrawal?.status,
    failure_code: withdrawal?.failure_code,
    books: room.ledger.booksOf(id),
    sent: new Set(room.rails.sent.get(id) ?? []).size,
  };
}

function refusedWith(answer: unknown, reason: string, field?: string): void {
  assert.ok(isRefusal(answer), "was not refused");
  const { refused, field: named } = answer as Refusal;
  assert.deepEqual([refused, named], [reason, field]);
}

test("create_withdrawal: recorded, nothing reserved; the same key replays it, another payload is refused", async () => {
  const caller = callerOf("wr", { idempotency_key: "once" });
  const made = good(await createWithdrawal(room.rooms, asked({ note: "Takings" }), caller));
  const { status, fee_minor, platform_id, note, destination } = made.operation;
  assert.deepEqual([status, fee_minor, platform_id, note], ["requested", 100n, ORANGE, "Takings"]);
  assert.equal(destination.phone, "+22507*****00");
  assert.deepEqual(room.ledger.booksOf(made.operation.id), NOTHING);
  const again = good(
    await createWithdrawal(room.rooms, asked({ note: "Takings" }), callerOf("wr", { idempotency_key: "once" })),
  );
  assert.deepEqual([again.outcome, again.operation.id], ["replayed", made.operation.id]);
  refusedWith(
    await createWithdrawal(room.rooms, asked(), callerOf("wr", { idempotency_key: "once" })),
    "concurrent_request",
  );
});

test("create_withdrawal: refused in the contract's order: fee line, settlement account, amount against fee, balance", async () => {
  const create = (more: Partial<CreateWithdrawalRequest>) => createWithdrawal(room.rooms, asked(more), callerOf("wr"));
  const poor = { amountMinor: 1_500_000_000n };
  const too_much = await create(poor);
  refusedWith(too_much, "insufficient_funds");
  room.terms.fee = { percentBps: 0, fixedMinor: 2_000_000_000n };
  // The terms are held in memory for a moment; the room is told when they change.
  room.rooms.withdrawal_terms.forget("");
  refusedWith(await create(poor), "invalid_request", "amount_minor");
  Object.assign(room.settlement, { platformId: undefined, keptAs: undefined });
  refusedWith(await create(poor), "precondition_failed");
  room.terms.fee = undefined;
  room.rooms.withdrawal_terms.forget("");
  const closed = await create(poor);
  assert.ok(isRefusal(closed) && closed.message.includes("fee schedule"), "the fee line is looked at first");
  room.terms.fee = { percentBps: 100, fixedMinor: 0n };
  room.rooms.withdrawal_terms.forget("");
});

test("approve_withdrawal: held, processing, paid across the platforms; approving again answers how it stands", async () => {
  const id = await request();
  const approved = good(await approveWithdrawal(room.rooms, { id, note: "Fine" }, "req"));
  assert.deepEqual([approved.status, approved.decision_note], ["processing", "Fine"]);
  assert.notEqual(approved.decided_at, null);
  assert.deepEqual(room.ledger.booksOf(id), { moved: {}, held: 10_000 });
  assert.equal(good(await approveWithdrawal(room.rooms, { id }, "req")).status, "processing");
  refusedWith(await rejectWithdrawal(room.rooms, { id }), "precondition_failed");
  const news = room.rails.say(id, "success");
  await room.tellNews(news, news);
  assert.deepEqual(await stateOf(id), { status: "paid", failure_code: null, books: { moved: PAID, held: 0 }, sent: 1 });
  await room.tellNews(room.rails.say(id, "returned"));
  const returned = { ...PAID, [`suspense:${ORANGE}`]: 9_900 } as Record<string, number>;
  delete returned[`float:${ORANGE}`];
  assert.deepEqual(await stateOf(id), {
    status: "paid",
    failure_code: null,
    books: { moved: returned, held: 0 },
    sent: 1,
  });
});

test("news: money that came back is heard of before its success: paid, and the return is an operator's", async () => {
  const id = await request();
  good(await approveWithdrawal(room.rooms, { id }, "req"));
  const success = room.rails.say(id, "success");
  await room.tellNews(room.rails.say(id, "returned"));
  await room.tellNews(success);
  const returned = { ...PAID, [`suspense:${ORANGE}`]: 9_900 } as Record<string, number>;
  delete returned[`float:${ORANGE}`];
  const state = await stateOf(id);
  assert.deepEqual([state.status, state.books], ["paid", { moved: returned, held: 0 }]);
});

test("approve_withdrawal: failed by the rail, all of it is available again; a late success is an operator's", async () => {
  room.rails.script = () => ({ outcome: AttemptOutcome.FAILED, failureCode: "account_blocked" });
  const id = await request();
  assert.equal(good(await approveWithdrawal(room.rooms, { id }, "req")).status, "failed");
  assert.deepEqual(await stateOf(id), { status: "failed", failure_code: "account_blocked", books: NOTHING, sent: 1 });
  await room.tellNews(room.rails.say(id, "success"));
  const late = { [`suspense:${ORANGE}`]: -9_900, [`float:${ORANGE}`]: 9_900 };
  assert.deepEqual((await stateOf(id)).books, { moved: late, held: 0 });
  await room.tellNews(room.rails.say(id, "returned"));
  assert.deepEqual((await stateOf(id)).books, NOTHING, "what came back is with the house again");
});

test("approve_withdrawal: want of funds is refused and it stays requested; after a top-up it can be approved", async () => {
  const before = room.ledger.available(OURS);
  const id = await request();
  room.ledger.fund(OURS, AMOUNT - 1n - before);
  refusedWith(await approveWithdrawal(room.rooms, { id, note: "Fine" }, "req"), "insufficient_funds");
  refusedWith(await approveWithdrawal(room.rooms, { id }, "req"), "insufficient_funds");
  const { status, decision_note, decided_at } = (await withdrawals.find(room.db.pool, id)) ?? assert.fail();
  assert.deepEqual([status, decision_note, decided_at], ["requested", null, null]);
  room.ledger.fund(OURS, before);
  assert.equal(good(await approveWithdrawal(room.rooms, { id }, "req")).status, "processing");
});

test("approve_withdrawal: net 0 is paid at once, no rail is asked; a suspended account's request waits", async () => {
  room.terms.fee = { percentBps: 0, fixedMinor: AMOUNT };
  room.rooms.withdrawal_terms.forget("");
  const id = await request();
  room.terms.fee = { percentBps: 100, fixedMinor: 0n };
  room.rooms.withdrawal_terms.forget("");
  room.settlement.isActive = false;
  refusedWith(await approveWithdrawal(room.rooms, { id }, "req"), "precondition_failed");
  room.settlement.isActive = true;
  assert.equal(good(await approveWithdrawal(room.rooms, { id }, "req")).status, "paid");
  const books = { moved: { [OURS]: -10_000, fees: 10_000 }, held: 0 };
  assert.deepEqual(await stateOf(id), { status: "paid", failure_code: null, books, sent: 0 });
});

test("approve_withdrawal: net 0, interrupted anywhere and looked after before it is swept: no rail is asked", async () => {
  room.terms.fee = { percentBps: 0, fixedMinor: AMOUNT };
  room.rooms.withdrawal_terms.forget("");
  const { rooms, effects } = mortal(room.rooms, Number.POSITIVE_INFINITY);
  good(await approveWithdrawal(rooms, { id: await request() }, "req"));
  for (let dies_before = 1; dies_before <= effects(); dies_before += 1) {
    const id = await request();
    await assert.rejects(approveWithdrawal(mortal(room.rooms, dies_before).rooms, { id }, "req"), /dead/);
    await room.db.pool.query("update withdrawals set check_at = created_at where id = $1", [id]);
    await openFollowUpOfWithdrawals(room.rooms).drain(ACCOUNT);
    await room.sweep();
    await approveWithdrawal(room.rooms, { id }, "req");
    const books = { moved: { [OURS]: -10_000, fees: 10_000 }, held: 0 };
    assert.deepEqual(await stateOf(id), { status: "paid", failure_code: null, books, sent: 0 });
  }
  room.terms.fee = { percentBps: 100, fixedMinor: 0n };
  room.rooms.withdrawal_terms.forget("");
});

test("approve_withdrawal: a rail that does not take it is tried again, and given up after ten minutes", async () => {
  room.rails.script = () => ({ outcome: AttemptOutcome.UNAVAILABLE });
  const [tried, given_up] = [await request(), await request()];
  for (const id of [tried, given_up]) {
    assert.equal(good(await approveWithdrawal(room.rooms, { id }, "req")).status, "approved");
    assert.equal((await stateOf(id)).books.held, 10_000);
  }
  room.rails.script = () => SUCCESS;
  const due = "update withdrawals set check_at = clock_timestamp() - interval '1 second' where id = $1";
  await room.db.pool.query(due, [tried]);
  await openFollowUpOfWithdrawals(room.rooms).drain(ACCOUNT);
  assert.equal((await stateOf(tried)).status, "paid");
  await room.sweep();
  assert.deepEqual(await stateOf(given_up), {
    status: "failed",
    failure_code: "operator_unavailable",
    books: NOTHING,
    sent: 0,
  });
  assert.deepEqual((await stateOf(tried)).books, { moved: PAID, held: 0 });
});

test("approve_withdrawal: overtaken by another approval it answers how that one stands, and sends nothing", async () => {
  const id = await request();
  const { settlements } = room.rooms;
  const of: typeof settlements.of = async (caller) => {
    good(await approveWithdrawal(room.rooms, { id, note: "first" }, "req"));
    return await settlements.of(caller);
  };
  const second = good(await approveWithdrawal({ ...room.rooms, settlements: { of } }, { id, note: "second" }, "req"));
  assert.deepEqual([second.status, second.decision_note], ["processing", "first"]);
  assert.deepEqual(room.ledger.booksOf(id), { moved: {}, held: 10_000 });
});

test("approve and reject at once: one of the two decides", async () => {
  for (let turn = 0; turn < 10; turn += 1) {
    const id = await request();
    const answers = await Promise.all([
      approveWithdrawal(room.rooms, { id }, "req"),
      rejectWithdrawal(room.rooms, { id }),
      approveWithdrawal(room.rooms, { id }, "req"),
      rejectWithdrawal(room.rooms, { id }),
    ]);
    const { status, books } = await stateOf(id);
    assert.ok(status === "processing" || status === "rejected", `${status}`);
    assert.equal(books.held, status === "processing" ? 10_000 : 0);
    for (const answer of answers) if (!isRefusal(answer)) assert.notEqual(answer.status, "requested");
  }
});

for (const [name, script, end] of [
  ["paid at once", () => SUCCESS, { status: "paid", books: { moved: PAID, held: 0 }, sent: 1 }],
  [
    "processing",
    () => ({ outcome: AttemptOutcome.UNKNOWN }),
    { status: "processing", books: { moved: {}, held: 10_000 }, sent: 1 },
  ],
  [
    "another amount",
    () => ({ ...SUCCESS, railAmountMinor: 7n }),
    {
      status: "processing",
      books: { moved: { [`suspense:${ORANGE}`]: -7, [`float:${ORANGE}`]: 7 }, held: 10_000 },
      sent: 1,
    },
  ],
] as const) {
  test(`approve_withdrawal, interrupted anywhere, swept and repeated at once: ${name}`, async () => {
    room.rails.script = script;
    const { rooms, effects } = mortal(room.rooms, Number.POSITIVE_INFINITY);
    good(await approveWithdrawal(rooms, { id: await request() }, "req"));
    const count = effects();
    assert.ok(count >= 5, `${count} effects`);
    for (let dies_before = 1; dies_before <= count; dies_before += 1) {
      const id = await request();
      await assert.rejects(approveWithdrawal(mortal(room.rooms, dies_before).rooms, { id }, "req"), /dead/);
      await Promise.all([room.sweep(), approveWithdrawal(room.rooms, { id }, "req"), rejectIfFree(id)]);
      await room.sweep();
      if ((await stateOf(id)).status === "rejected") continue;
      await approveWithdrawal(room.rooms, { id }, "req");
      assert.deepEqual(
        await stateOf(id),
        { failure_code: null, ...end },
        `died before effect ${dies_before} of ${count}`,
      );
    }
  });
}

/** A rejection that comes while the dead process's approval is open must not take the request from its holds. */
async function rejectIfFree(id: string): Promise<void> {
  const answer = await rejectWithdrawal(room.rooms, { id });
  if (!isRefusal(answer)) assert.deepEqual(room.ledger.booksOf(id), NOTHING);
}

test("create_withdrawal, interrupted anywhere and retried: recorded once", async () => {
  for (let dies_before = 1; dies_before <= 5; dies_before += 1) {
    const caller = callerOf("wr", { idempotency_key: `create ${dies_before}` });
    await createWithdrawal(mortal(room.rooms, dies_before).rooms, asked(), caller).catch(() => {});
    await room.sweep();
    const [a, b] = await Promise.all([
      createWithdrawal(room.rooms, asked(), caller),
      createWithdrawal(room.rooms, asked(), caller),
    ]);
    assert.deepEqual([good(a).operation.id, good(b).operation.id], [caller.operation, caller.operation]);
    assert.equal(await room.claimOf(caller.operation ?? ""), "done");
  }
});
