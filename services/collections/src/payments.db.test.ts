// Payments on a real database before neighbours that speak gRPC: creation, idempotency, news, reads.

import assert from "node:assert/strict";
import { after, before, beforeEach, test } from "node:test";
import { systemClock } from "@cauri/money/clock";
import { isRefusal, type Refusal } from "@cauri/money/refusal";
import { PaymentStatus } from "@cauri/proto/ts/cauri/collections/v1/payments";
import { AttemptOutcome } from "@cauri/proto/ts/cauri/rails/v1/rails";
import { forgetKeys } from "@cauri/store/claims";
import { reread } from "./apply.ts";
import { type Created, createPayment } from "./create.ts";
import { findPaymentBy, listPayments } from "./store.ts";
import { ACCOUNT, callerOf, mortal, newsOf, openTestRoom, requestOf, stateOf, type TestRoom } from "./testing.ts";
import { viewOf } from "./view.ts";

const HOUR_MS = 3_600_000;

let room: TestRoom;
before(async () => {
  room = await openTestRoom();
});
beforeEach(() => {
  room.rails.script = () => ({ outcome: AttemptOutcome.PENDING });
  room.rails.onAsk = null;
  room.ledger.down = false;
});
after(() => room.close());

async function refusalOf(...[request, caller]: Parameters<TestRoom["create"]>): Promise<Refusal> {
  const answer = await createPayment(room.rooms, requestOf(request), callerOf(caller));
  return isRefusal(answer) ? answer : assert.fail("expected a refusal");
}

test("create_payment: accepted by the rail, it is pending with its hold and what the payer pays with", async () => {
  const payment = await room.create({
    clientRef: "order-1",
    description: "Two cups",
    payer: { phone: "+2250700000000", name: "Awa Kone" },
    metadata: { values: { b: "2", a: "1" } },
  });
  const view = viewOf(payment);
  assert.match(view.reference, /^PAY-TEST[0-9A-HJKMNP-TV-Z]{8}$/);
  assert.deepEqual(
    [view.object, view.status, view.isTest, view.amountMinor, view.feeMinor, view.netMinor, view.rail, view.paymentUrl],
    ["payment", PaymentStatus.PENDING, true, 10_000n, 150n, 9_850n, "mtn_momo", "https://pay.test/1"],
  );
  assert.deepEqual([view.clientRef, view.description, view.refundedMinor], ["order-1", "Two cups", 0n]);
  assert.deepEqual(view.payer, { phone: "+22507*****00", name: undefined, email: undefined });
  assert.deepEqual(view.metadata, { values: { b: "2", a: "1" } });
  assert.equal(JSON.stringify(view.metadata), '{"values":{"b":"2","a":"1"}}');
  assert.deepEqual(
    [view.completedAt, view.failure, view.deepLink, view.qr],
    [undefined, undefined, undefined, undefined],
  );
  assert.equal(payment.expires_at.getTime() - payment.created_at.getTime(), HOUR_MS);
  const { books, events, claim } = await stateOf(room, payment.id);
  assert.deepEqual(books, { available: 0n, pending: 10_000n, fees: 0n, suspense: 0n, holds: 1 });
  assert.deepEqual([events, claim], [["payment.initiated", "payment.pending"], "done"]);
});

test("create_payment: nothing raw of the payer is in any table", async () => {
  await room.create({ payer: { phone: "+2250799887766", name: "Zenabou Traore", email: "zena@example.com" } });
  const { rows } = await room.db.pool.query<{ text: string }>(
    `select (select string_agg(p::text, ' ') from payments p) || (select string_agg(c::text, ' ') from claims c)
         || (select string_agg(encode(o.payload, 'escape'), ' ') from outbox o) as text`,
  );
  assert.doesNotMatch(rows[0]?.text ?? "", /99887766|Zenabou|zena@/);
});

test("create_payment: refused before anything exists, nothing is remembered", async () => {
  const key = { idempotency_key: "refused" };
  const refused = await refusalOf({ amountMinor: 1n }, key);
  assert.deepEqual([refused.refused, refused.field], ["invalid_request", "amount_minor"]);
  room.rails.wrongPayer = "payer.phone";
  assert.equal((await refusalOf({}, key)).field, "payer.phone");
  room.rails.wrongPayer = null;
  assert.equal((await room.create({}, key)).status, "pending");
});

test("create_payment: a client_ref in the form of ours is refused, a used one exists already", async () => {
  assert.equal((await refusalOf({ clientRef: "PAY-7F3K9Q2MBX4T" })).field, "client_ref");
  await room.create({ clientRef: "twice" });
  assert.equal((await refusalOf({ clientRef: "twice" })).refused, "already_exists");
});

test("create_payment: replay answers the current state, another payload is refused", async () => {
  const first = callerOf({ idempotency_key: "replay" });
  const { id } = await room.create({}, first);
  await room.tellNews(room.rails.say({ id }, "success"));
  const again = await createPayment(room.rooms, requestOf(), { ...callerOf(), idempotency_key: "replay" });
  assert.ok(!isRefusal(again));
  assert.deepEqual([again.outcome, again.payment.id, again.payment.status], ["replayed", id, "success"]);
  const repeated = await createPayment(room.rooms, requestOf(), first);
  assert.ok(!isRefusal(repeated) && repeated.outcome === "created", "the gateway's own repeat is no replay");
  const other = await refusalOf({ amountMinor: 500n }, { idempotency_key: "replay" });
  assert.deepEqual([other.refused, other.retry_after_s], ["concurrent_request", undefined]);
});

test("create_payment: a day later the key is forgotten, and the client_ref still protects", async () => {
  const named = { idempotency_key: "a day with a name" };
  const nameless = { idempotency_key: "a day without" };
  const { id } = await room.create({ clientRef: "a-day" }, named);
  const first = await room.create({}, nameless);
  const hour = (hours: number) => new Date(systemClock() - hours * HOUR_MS);
  await room.db.pool.query("update claims set created_at = $1 where operation_id in ($2, $3)", [
    hour(24),
    id,
    first.id,
  ]);
  assert.equal(await forgetKeys(room.db.pool, hour(25)), 0, "not a moment sooner");
  assert.equal((await room.create({}, nameless)).id, first.id);
  await forgetKeys(room.db.pool, hour(23));
  assert.notEqual((await room.create({}, nameless)).id, first.id);
  assert.equal((await refusalOf({ clientRef: "a-day" }, named)).refused, "already_exists");
  assert.notEqual((await room.create({}, named)).id, id, "the key itself is free");
});

test("create_payment: 64 at once with one key create one payment", async () => {
  const collected = room.rails.collected;
  const answers = await Promise.all(
    Array.from({ length: 64 }, () =>
      createPayment(room.rooms, requestOf(), callerOf({ idempotency_key: "race", account: "acct_race" })),
    ),
  );
  const created = answers.filter((answer): answer is Created => !isRefusal(answer));
  assert.equal(new Set(created.map(({ payment }) => payment.id)).size, 1);
  assert.equal(created.filter(({ outcome }) => outcome === "created").length, 1);
  for (const refusal of answers.filter(isRefusal)) {
    assert.deepEqual([refusal.refused, refusal.retry_after_s], ["concurrent_request", 1]);
  }
  assert.equal(room.rails.collected - collected, 1);
  const page = await listPayments(room.db.pool, { account: "acct_race", mode: "test", page: 1, per_page: 25 });
  assert.equal(page.total, 1);
});

test("create_payment: refused by the rail it stays initiated, the same key goes on", async () => {
  room.rails.script = () => ({ outcome: AttemptOutcome.REFUSED });
  const key = { idempotency_key: "row-05" };
  assert.equal((await refusalOf({}, key)).refused, "upstream_error");
  const page = await listPayments(room.db.pool, { account: ACCOUNT, mode: "test", page: 1, per_page: 1 });
  assert.equal(page.payments[0]?.status, "initiated");
  assert.equal((await refusalOf({ amountMinor: 500n }, key)).refused, "concurrent_request");
  room.rails.script = () => ({ outcome: AttemptOutcome.SUCCESS });
  const payment = await room.create({}, key);
  assert.deepEqual([payment.id, payment.status], [page.payments[0]?.id, "success"]);
  assert.deepEqual((await stateOf(room, payment.id)).events, ["payment.initiated", "payment.success"]);
});

test("create_payment: no retry after a 503, the sweeper gives it up after ten minutes; late money still counts", async () => {
  room.rails.script = () => ({ outcome: AttemptOutcome.UNAVAILABLE });
  const caller = callerOf();
  const refused = await refusalOf({}, caller);
  assert.deepEqual([refused.refused, refused.retry_after_s], ["temporarily_unavailable", 5]);
  const id = caller.operation ?? "";
  assert.equal(await room.claimOf(id), "told");
  await room.sweep();
  const failed = await stateOf(room, id);
  assert.deepEqual([failed.status, failed.failure_code, failed.claim], ["failed", "operator_unavailable", "done"]);
  assert.deepEqual([failed.books.pending, failed.books.available], [0n, 0n]);
  await room.tellNews(room.rails.say({ id }, "success"));
  const late = await stateOf(room, id);
  assert.deepEqual(
    [late.status, late.failure_code, late.books.available, late.books.fees],
    ["success", null, 9_850n, 150n],
  );
  assert.deepEqual(late.events, ["payment.initiated", "payment.failed", "payment.success"]);
});

test("create_payment: told 502 it holds its client_ref from the first moment on, and waits its ten minutes unnamed too", async () => {
  room.rails.script = () => ({ outcome: AttemptOutcome.REFUSED });
  const caller = callerOf();
  await refusalOf({ clientRef: "told" }, caller);
  assert.equal((await refusalOf({ clientRef: "told" })).refused, "already_exists");
  const nameless = callerOf();
  await refusalOf({}, nameless);
  const { rows } = await room.db.pool.query<{ waits: boolean }>(
    "select due_at > clock_timestamp() + interval '9 minutes' as waits from claims where operation_id = $1",
    [nameless.operation],
  );
  assert.equal(rows[0]?.waits, true);
});

test("news: another amount overtakes the refusal that the call answered: the refusal still counts", async () => {
  // Two news of one attempt whose order a redelivery turned round, before the runner has written anything.
  room.rails.script = async ({ operationId: id }) => {
    await room.tellNews(newsOf(id, "success", 2n, { railAmountMinor: 7n, railCurrency: "XOF" }));
    return { outcome: AttemptOutcome.FAILED, failureCode: "payer_rejected" };
  };
  const { id } = await room.create();
  const { status, failure_code, claim, books } = await stateOf(room, id);
  assert.deepEqual([status, failure_code, claim], ["failed", "payer_rejected", "done"]);
  assert.deepEqual([books.suspense, books.pending, books.holds], [7n, 0n, 1]);
});

test("create_payment: the ledger is down, the lease is given back and the retry goes on", async () => {
  room.ledger.down = true;
  const key = { idempotency_key: "ledger" };
  await assert.rejects(room.create({}, key), /ledger/);
  room.ledger.down = false;
  assert.equal((await room.create({}, key)).status, "pending");
});

test("news: repeated, older, and not drawn ones change nothing and are kept", async () => {
  const { id } = await room.create();
  const success = room.rails.say({ id }, "success");
  await room.tellNews(success, success);
  await room.tellNews(newsOf(id, "pending", 1n), newsOf(id, "failed", 1n), success);
  await room.tellNews(newsOf(id, "failed", 9n, { failureCode: "unknown" }));
  const { status, books, events } = await stateOf(room, id);
  assert.deepEqual([status, books.available, books.fees], ["success", 9_850n, 150n]);
  assert.deepEqual(events, ["payment.initiated", "payment.pending", "payment.success"]);
  const { rows } = await room.db.pool.query(
    "select source, says, applied from payment_news where payment_id = $1 order by rail_version, source, says",
    [id],
  );
  assert.deepEqual(
    rows.map(({ source, says, applied }) => `${source} ${says} ${applied}`),
    ["answer accept true", "news accept false", "news reject false", "news settle true", "news reject false"],
  );
});

test("news: another amount or currency goes to suspense, the payment stays pending until it is paid", async () => {
  room.ledger.closed.add("suspense:plt_mtn_ci ast_ghs");
  const one = await room.create();
  await room.tellNews(room.rails.say(one, "success", { railAmountMinor: 9_000n }));
  await room.tellNews(room.rails.say(one, "success", { railAmountMinor: 9_001n }));
  const two = await room.create();
  await room.tellNews(room.rails.say(two, "success", { railCurrency: "GHS" }));
  for (const [payment, suspense] of [
    [one, 9_000n],
    [two, 10_000n],
  ] as const) {
    const { status, books, events } = await stateOf(room, payment.id);
    assert.deepEqual([status, books.suspense, books.pending], ["pending", suspense, 10_000n]);
    assert.deepEqual(events, ["payment.initiated", "payment.pending"]);
  }
  await room.tellNews(room.rails.say(one, "success"));
  assert.equal((await reread(room.db.pool, one.id)).status, "success");
});

test("news: another amount that comes after the payment's own is not lost: it goes to suspense, the success stays", async () => {
  const payment = await room.create();
  await room.tellNews(room.rails.say(payment, "success"));
  const odd = room.rails.say(payment, "success", { railAmountMinor: 7n });
  await room.tellNews(odd, odd);
  const { status, books, events } = await stateOf(room, payment.id);
  assert.deepEqual([status, books.available, books.fees, books.suspense], ["success", 9_850n, 150n, 7n]);
  assert.deepEqual(events, ["payment.initiated", "payment.pending", "payment.success"]);
});

test("create_payment: interrupted after another amount was noted and news made it pending, its claim ends", async () => {
  const caller = callerOf();
  const id = caller.operation ?? "";
  room.rails.script = () => ({ outcome: AttemptOutcome.SUCCESS, railAmountMinor: 7n, railCurrency: "XOF" });
  // The answer is received and lost: the process dies before it books anything.
  await assert.rejects(createPayment(mortal(room.rooms, 5).rooms, requestOf(), caller), /dead/);
  await room.tellNews(newsOf(id, "pending", 1n));
  await room.sweep();
  const { status, claim, books, events } = await stateOf(room, id);
  assert.deepEqual([status, claim, books.suspense, books.pending], ["pending", "done", 7n, 10_000n]);
  assert.deepEqual(events, ["payment.initiated", "payment.pending"]);
});

test("news: a failure and a success at once end in one success, booked once", async () => {
  for (let round = 0; round < 10; round += 1) {
    const payment = await room.create();
    const failed = room.rails.say(payment, "failed", { failureCode: "unknown" });
    const success = room.rails.say(payment, "success");
    await Promise.all([room.tellNews(failed), room.tellNews(success), room.tellNews(success)]);
    const { status, books, events } = await stateOf(room, payment.id);
    assert.deepEqual([status, books.available, books.fees, books.pending], ["success", 9_850n, 150n, 0n]);
    assert.equal(events.filter((event) => event === "payment.success").length, 1);
  }
});

test("news: cancelled by the payer is told as payment.failed, with its own status and no failure", async () => {
  const payment = await room.create();
  await room.tellNews(room.rails.say(payment, "cancelled"));
  const { status, failure_code, events } = await stateOf(room, payment.id);
  assert.deepEqual([status, failure_code, events.at(-1)], ["cancelled", null, "payment.failed (cancelled)"]);
});

test("get_payment: by id, reference in any case, or client_ref; another account's and mode's are unknown", async () => {
  const payment = await room.create({ clientRef: "found" });
  const { id, reference } = payment;
  for (const named of [
    { by: "id", value: id },
    { by: "reference", value: reference },
    { by: "client_ref", value: "found" },
  ] as const) {
    assert.equal((await findPaymentBy(room.db.pool, [named], { account: ACCOUNT, mode: "test" }))?.id, id);
    assert.equal(await findPaymentBy(room.db.pool, [named], { account: "acct_other", mode: "test" }), null);
    assert.equal(await findPaymentBy(room.db.pool, [named], { account: ACCOUNT, mode: "live" }), null);
  }
});

test("list_payments: newest first, with exact totals under filters", async () => {
  const account = "acct_list";
  const made = [];
  for (let n = 0; n < 5; n += 1) made.push(await room.create({ clientRef: `n-${n}` }, { account }));
  await room.tellNews(room.rails.say(made[1] ?? assert.fail(), "success"));
  const list = (query: object) => listPayments(room.db.pool, { account, mode: "test", page: 1, per_page: 2, ...query });
  const first = await list({});
  assert.deepEqual(
    [first.total, first.has_more, first.payments.map(({ client_ref }) => client_ref)],
    [5, true, ["n-4", "n-3"]],
  );
  assert.equal((await list({ status: "success" })).total, 1);
  assert.equal((await list({ status: "pending" })).total, 4);
  assert.deepEqual(
    (await list({ client_ref: "n-2" })).payments.map(({ id }) => id),
    [made[2]?.id],
  );
  assert.equal((await list({ created_from: made[3]?.created_at })).total >= 2, true);
});
