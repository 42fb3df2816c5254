// Every refund row of the sandbox's table, as a merchant lives it: the answer, the end, the payment, the books, the notices.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import {
  type Answer,
  advanceClock,
  balance,
  cauri,
  eventually,
  fund,
  type Merchant,
  merchant,
  paymentBody,
  paymentIs,
} from "./house.ts";
import { type Receiver, startReceiver } from "./receiver.ts";

const AMOUNT = 10_000;
const PART = 4_000;
/** Besides what the payment brought: its fee of 1.5 % is not given back. */
const FUNDED = 1_000;
const NET = 9_850 + FUNDED;

let receiver: Receiver;
before(async () => {
  receiver = await startReceiver();
});
after(() => receiver.close());

/** A merchant of the row's own, with one successful payment of the row and a little money besides. */
async function paid(row: string): Promise<{ at: Merchant; payment: Answer["body"] }> {
  const at = await merchant("Refund rows");
  const answer = await at.test.post("/v1/webhooks", { url: receiver.url });
  assert.equal(answer.status, 201, answer.text);
  await fund(at.account_id, FUNDED);
  const headers = { "idempotency-key": `pay-${row}` };
  let made = await at.test.post("/v1/payments", paymentBody(row), headers);
  if (row === "05") made = await at.test.post("/v1/payments", paymentBody(row), headers);
  assert.equal(made.status, 201, made.text);
  if (row === "04") await cauri(["sandbox", "advance", made.body.id, "--to", "success"]);
  if (row === "08") await advanceClock(at.account_id, "61s");
  return { at, payment: await paymentIs(at.test, made.body.id, "success") };
}

async function created(
  at: Merchant,
  body: Record<string, unknown>,
  headers: Record<string, string> = {},
): Promise<Answer["body"]> {
  const answer = await at.test.post("/v1/refunds", body, headers);
  assert.equal(answer.status, 201, answer.text);
  assert.equal(answer.headers.get("location"), `/v1/refunds/${answer.body.id}`);
  return answer.body;
}

async function books(at: Merchant): Promise<number[]> {
  const { available_minor, reserved_minor, pending_minor } = await balance(at.test);
  return [available_minor, reserved_minor, pending_minor];
}

function refundIs(at: Merchant, id: string, status: string): Promise<Answer["body"]> {
  return eventually(
    `refund ${id} is ${status}`,
    async () => (await at.test.get(`/v1/refunds/${id}`)).body,
    (refund) => refund.status === status,
  );
}

async function paymentOf(at: Merchant, id: string): Promise<unknown[]> {
  const { status, refunded_minor } = (await at.test.get(`/v1/payments/${id}`)).body;
  return [status, refunded_minor];
}

async function givenBack(at: Merchant, refund: Answer["body"]): Promise<void> {
  const ended = await refundIs(at, refund.id, "success");
  assert.deepEqual([ended.fee_minor, ended.net_minor, ended.failure], [0, PART, null]);
  assert.notEqual(ended.completed_at, null);
  assert.deepEqual(await paymentOf(at, refund.payment_id), ["success", PART]);
  assert.deepEqual(await books(at), [NET - PART, 0, 0]);
  const [notice] = await receiver.hears(refund.id, ["refund.success"]);
  assert.deepEqual([notice?.data.amount, notice?.data.status], [String(PART), "success"]);
  assert.deepEqual(
    receiver.about(refund.id).map(({ event }) => event),
    ["refund.success"],
  );
}

test("row 00: off the balance when the 201 leaves; given back a moment later", async () => {
  const { at, payment } = await paid("00");
  const refund = await created(at, { payment_id: payment.id, amount_minor: PART });
  assert.equal((await balance(at.test)).available_minor, NET - PART);
  await givenBack(at, refund);
});

test("row 08: its funds are reserved while it is pending; given back after a minute of the test clock", async () => {
  const { at, payment } = await paid("08");
  const body = { payment_id: payment.id, amount_minor: PART, reason: "requested_by_customer", client_ref: "r-1" };
  const refund = await created(at, body);
  assert.match(refund.reference, /^RFD-TEST[0-9A-HJKMNP-TV-Z]{8}$/);
  const { id, reference, created_at, updated_at, ...rest } = refund;
  assert.match(id, /^re_/);
  assert.ok(typeof reference === "string" && created_at <= updated_at);
  assert.deepEqual(rest, {
    object: "refund",
    client_ref: "r-1",
    status: "pending",
    amount_minor: PART,
    fee_minor: 0,
    net_minor: PART,
    asset_id: "ast_xof",
    platform_id: "plt_mtn_ci",
    rail: "mtn_momo",
    failure: null,
    description: null,
    metadata: null,
    is_test: true,
    completed_at: null,
    payment_id: payment.id,
    reason: "requested_by_customer",
  });
  await advanceClock(at.account_id, "5s");
  assert.equal((await at.test.get(`/v1/refunds/${id}`)).body.status, "pending");
  assert.deepEqual(await books(at), [NET - PART, PART, 0]);
  assert.deepEqual(await paymentOf(at, payment.id), ["success", 0], "refunded_minor counts what has succeeded");
  await advanceClock(at.account_id, "56s");
  await givenBack(at, refund);
});

test("row 01: given back before the 201 leaves", async () => {
  const { at, payment } = await paid("01");
  const refund = await created(at, { payment_id: payment.reference, amount_minor: PART });
  assert.equal(refund.status, "success");
  await givenBack(at, refund);
});

for (const [row, what] of [
  ["04", "its payment was driven to a success; it is given back as usual"],
  ["06", "accepted, answered 500, found by asking"],
  ["07", "its callback arrives twice, it is given back once"],
  ["09", "given back as long as no dispute stands"],
  ["10", "late money can be given back"],
  ["11", "the callback overtakes the call's own answer"],
] as const) {
  test(`row ${row}: ${what}`, async () => {
    const { at, payment } = await paid(row);
    await givenBack(at, await created(at, { payment_id: payment.id, amount_minor: PART }));
  });
}

test("row 05: refused by the rail, 502, its part reserved; the same key goes on and succeeds", async () => {
  const { at, payment } = await paid("05");
  const [body, headers] = [{ payment_id: payment.id, amount_minor: PART }, { "idempotency-key": "row-05" }];
  const first = await at.test.post("/v1/refunds", body, headers);
  assert.deepEqual([first.status, first.body.error.code], [502, "upstream_error"], first.text);
  const listed = await at.test.get("/v1/refunds?status=pending");
  assert.deepEqual([listed.body.total, listed.body.data[0].status, listed.body.data[0].rail], [1, "pending", null]);
  assert.deepEqual(await books(at), [NET - PART, PART, 0]);
  const second = await created(at, body, headers);
  assert.equal(second.id, listed.body.data[0].id);
  await givenBack(at, second);
});

test("row 13: failed, account_blocked; the funds are back and may be refunded anew", async () => {
  const { at, payment } = await paid("13");
  for (let attempt = 0; attempt < 2; attempt += 1) {
    const refund = await created(at, { payment_id: payment.id });
    assert.deepEqual([refund.status, refund.failure?.code], ["failed", "account_blocked"]);
    assert.deepEqual(await books(at), [NET, 0, 0]);
    assert.deepEqual(await paymentOf(at, payment.id), ["success", 0]);
    const [notice] = await receiver.hears(refund.id, ["refund.failed"]);
    assert.deepEqual([notice?.data.amount, notice?.data.status], [String(AMOUNT), "failed"]);
  }
});

test("row 14: stays pending, its part reserved, until the operator says how it ended", async () => {
  const { at, payment } = await paid("14");
  const refund = await created(at, { payment_id: payment.id, amount_minor: 6_000 });
  await advanceClock(at.account_id, "3d");
  assert.equal((await at.test.get(`/v1/refunds/${refund.id}`)).body.status, "pending");
  const more = await at.test.post("/v1/refunds", { payment_id: payment.id, amount_minor: 4_001 });
  assert.deepEqual([more.status, more.body.error.code], [422, "invalid_request"]);
  assert.ok(more.body.error.message.startsWith("amount_minor: "), more.text);
  const rest = await created(at, { payment_id: payment.id });
  assert.equal(rest.amount_minor, 4_000, "what remains is less what is pending");
  const none = await at.test.post("/v1/refunds", { payment_id: payment.id });
  assert.deepEqual([none.status, none.body.error.code], [409, "precondition_failed"]);
  const advance = (id: string, to: string) => cauri(["sandbox", "advance", id, "--to", to, "--json"]);
  assert.equal(JSON.parse((await advance(refund.reference, "failed")).stdout).status, "failed");
  assert.equal(JSON.parse((await advance(rest.id, "success")).stdout).status, "success");
  assert.equal((await advance(rest.id, "failed")).code, 1);
  assert.equal((await advance(rest.id, "refunded")).code, 1);
  assert.deepEqual(await paymentOf(at, payment.id), ["success", 4_000]);
  assert.deepEqual(await books(at), [NET - 4_000, 0, 0]);
});

test("refunds in parts: the payment becomes refunded when all is; the list, its filters, a replay", async () => {
  const { at, payment } = await paid("01");
  const first = await created(at, { payment_id: payment.id, amount_minor: PART, client_ref: "part-1" });
  const headers = { "idempotency-key": "rest" };
  const rest = await created(at, { payment_id: payment.id, metadata: { why: "all" } }, headers);
  assert.deepEqual([rest.amount_minor, rest.metadata], [AMOUNT - PART, { why: "all" }]);
  assert.deepEqual(await paymentOf(at, payment.id), ["refunded", AMOUNT]);
  assert.deepEqual(await books(at), [NET - AMOUNT, 0, 0]);
  const again = await at.test.post("/v1/refunds", { payment_id: payment.id, metadata: { why: "all" } }, headers);
  const replayed = [again.status, again.body.id, again.headers.get("idempotent-replayed")];
  assert.deepEqual(replayed, [201, rest.id, "true"]);
  const other = await at.test.post("/v1/refunds", { payment_id: payment.id, amount_minor: 1 }, headers);
  assert.deepEqual([other.status, other.body.error.code], [409, "concurrent_request"]);
  const none = await at.test.post("/v1/refunds", { payment_id: payment.id, amount_minor: 1 });
  assert.deepEqual([none.status, none.body.error.code], [409, "precondition_failed"]);
  for (const name of [first.id, first.reference, "part-1", first.reference.toLowerCase()]) {
    assert.equal((await at.test.get(`/v1/refunds/${name}`)).body.id, first.id);
  }
  const taken = await at.test.post("/v1/refunds", { payment_id: payment.id, client_ref: "part-1" });
  assert.deepEqual([taken.status, taken.body.error.code], [409, "already_exists"]);
  const list = async (query: string) => (await at.test.get(`/v1/refunds?${query}`)).body;
  const { data, total, has_more } = await list("per_page=1");
  assert.deepEqual([data[0].id, total, has_more], [rest.id, 2, true]);
  const totals = await Promise.all([list("status=success"), list("status=pending"), list("client_ref=part-1")]);
  assert.deepEqual(
    totals.map((page) => page.total),
    [2, 0, 1],
  );
  assert.equal((await at.test.get("/v1/payments?status=refunded")).body.total, 1);
  assert.equal((await at.test.get("/v1/refunds?status=nonsense")).status, 422);
});

test("create_refund: each refusal by its status and field, and nothing is created", async () => {
  const { at, payment } = await paid("01");
  const poor = await merchant("Refunds, poor");
  const theirs = (await poor.test.post("/v1/payments", paymentBody("01"))).body;
  const waits = (await at.test.post("/v1/payments", paymentBody("04"))).body;
  const mine = { payment_id: payment.id };
  for (const [body, status, code, field] of [
    [{}, 422, "invalid_request", "payment_id"],
    [{ payment_id: "unknown" }, 422, "invalid_request", "payment_id"],
    [{ payment_id: theirs.id }, 422, "invalid_request", "payment_id"],
    [{ payment_id: waits.id }, 409, "precondition_failed", ""],
    [{ ...mine, amount_minor: AMOUNT + 1 }, 422, "invalid_request", "amount_minor"],
    [{ ...mine, amount_minor: 0 }, 422, "invalid_request", "amount_minor"],
    [{ ...mine, amount_minor: "500" }, 422, "invalid_request", "amount_minor"],
    [{ ...mine, reason: "because" }, 422, "invalid_request", "reason"],
    [{ ...mine, client_ref: "RFD-7F3K9Q2MBX4T" }, 422, "invalid_request", "client_ref"],
  ] as const) {
    const answer = await at.test.post("/v1/refunds", body);
    assert.deepEqual([answer.status, answer.body.error?.code], [status, code], answer.text);
    assert.ok(answer.body.error.message.startsWith(field), answer.text);
  }
  assert.equal((await at.test.get("/v1/refunds")).body.total, 0);
  // Without the fee the balance does not cover it all; after a top-up the same key does.
  const headers = { "idempotency-key": "poor" };
  const short = await poor.test.post("/v1/refunds", { payment_id: theirs.id }, headers);
  assert.deepEqual([short.status, short.body.error.code], [422, "insufficient_funds"]);
  assert.equal((await poor.test.get("/v1/refunds")).body.total, 0);
  await fund(poor.account_id, 150);
  assert.equal((await poor.test.post("/v1/refunds", { payment_id: theirs.id }, headers)).status, 201);
  const reader = await at.key("test", ["can_initiate_payment", "can_read_transactions"]);
  assert.equal((await reader.post("/v1/refunds", mine)).body.error.code, "insufficient_scope");
  assert.equal((await poor.test.get(`/v1/refunds/${payment.id}`)).status, 404);
});

test("sandbox advance: a successful payment is driven to refunded, once", async () => {
  const { at, payment } = await paid("14");
  const advance = () => cauri(["sandbox", "advance", payment.id, "--to", "refunded", "--json"]);
  const driven = await advance();
  assert.equal(JSON.parse(driven.stdout).status, "refunded", driven.stderr);
  assert.deepEqual(await books(at), [NET - AMOUNT, 0, 0]);
  assert.equal((await advance()).code, 1);
});

test("100 refunds of 60 % of one payment at once: exactly one succeeds", async () => {
  const { at, payment } = await paid("01");
  const body = { payment_id: payment.id, amount_minor: 6_000 };
  const answers = await Promise.all(Array.from({ length: 100 }, () => at.test.post("/v1/refunds", body)));
  const statuses = answers.map(({ status }) => status);
  assert.deepEqual([statuses.filter((s) => s === 201).length, statuses.filter((s) => s === 422).length], [1, 99]);
  assert.deepEqual(await paymentOf(at, payment.id), ["success", 6_000]);
  assert.deepEqual(await books(at), [NET - 6_000, 0, 0]);
  assert.equal((await at.test.get("/v1/refunds")).body.total, 1);
});
