// Every payout row of the sandbox's table, as a merchant lives it: the answer, the end, the books, the notices.

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
  payoutBody,
} from "./house.ts";
import { type Receiver, startReceiver } from "./receiver.ts";

const AMOUNT = 10_000;
/** The seeded default: 100 basis points, on top of the amount. */
const FEE = 100;
const FUNDED = 50_000;

let receiver: Receiver;
before(async () => {
  receiver = await startReceiver();
});
after(() => receiver.close());

/** A merchant of the row's own, so that its books hold this one payout. */
async function shop(): Promise<Merchant> {
  const made = await merchant("Payout rows");
  const answer = await made.test.post("/v1/webhooks", { url: receiver.url });
  assert.equal(answer.status, 201, answer.text);
  await fund(made.account_id, FUNDED);
  return made;
}

async function created(at: Merchant, row: string, headers: Record<string, string> = {}): Promise<Answer["body"]> {
  const answer = await at.test.post("/v1/payouts", payoutBody(row), headers);
  assert.equal(answer.status, 201, `row ${row}: ${answer.text}`);
  assert.equal(answer.headers.get("location"), `/v1/payouts/${answer.body.id}`);
  return answer.body;
}

async function books(at: Merchant): Promise<number[]> {
  const { available_minor, reserved_minor, pending_minor } = await balance(at.test);
  return [available_minor, reserved_minor, pending_minor];
}

function payoutIs(at: Merchant, id: string, status: string): Promise<Answer["body"]> {
  return eventually(
    `payout ${id} is ${status}`,
    async () => (await at.test.get(`/v1/payouts/${id}`)).body,
    (payout) => payout.status === status,
  );
}

async function paid(at: Merchant, id: string, events: readonly string[] = ["payout.success"]): Promise<void> {
  const payout = await payoutIs(at, id, "success");
  assert.deepEqual([payout.fee_minor, payout.net_minor, payout.failure], [FEE, AMOUNT, null]);
  assert.notEqual(payout.completed_at, null);
  assert.deepEqual(await books(at), [FUNDED - AMOUNT - FEE, 0, 0]);
  const [notice] = await receiver.hears(id, events);
  assert.deepEqual([notice?.data.amount, notice?.data.status], [String(AMOUNT), "success"]);
}

async function notPaid(at: Merchant, id: string, code: string): Promise<void> {
  const payout = await payoutIs(at, id, "failed");
  assert.equal(payout.failure.code, code);
  assert.deepEqual(await books(at), [FUNDED, 0, 0]);
  const [notice] = await receiver.hears(id, ["payout.failed"]);
  assert.equal(notice?.data.status, "failed");
}

test("row 00: funds are off the balance when the 201 leaves; paid a moment later", async () => {
  const at = await shop();
  const payout = await created(at, "00");
  assert.equal((await balance(at.test)).available_minor, FUNDED - AMOUNT - FEE);
  await paid(at, payout.id);
});

test("row 08: its funds are reserved while it is pending; paid after a minute of the test clock", async () => {
  const at = await shop();
  const payout = await created(at, "08");
  assert.deepEqual(
    [payout.status, payout.object, payout.is_test, payout.rail, payout.recall],
    ["pending", "payout", true, "mtn_momo", null],
  );
  assert.match(payout.reference, /^PYT-TEST[0-9A-HJKMNP-TV-Z]{8}$/);
  assert.deepEqual(payout.destination, {
    type: "mobile_wallet",
    phone: "+22505*****08",
    iban: null,
    account_number: null,
    bank_code: null,
    name: "A*** K***",
  });
  await advanceClock(at.account_id, "5s");
  assert.equal((await at.test.get(`/v1/payouts/${payout.id}`)).body.status, "pending");
  assert.deepEqual(await books(at), [FUNDED - AMOUNT - FEE, AMOUNT + FEE, 0]);
  await advanceClock(at.account_id, "56s");
  await paid(at, payout.id);
});

for (const row of ["01", "13", "14"]) {
  test(`row ${row}: paid before the 201 leaves`, async () => {
    const at = await shop();
    const payout = await created(at, row);
    assert.equal(payout.status, "success");
    await paid(at, payout.id);
  });
}

for (const [row, code] of [
  ["02", "limit_exceeded"],
  ["03", "payee_not_found"],
  ["10", "unknown"],
] as const) {
  test(`row ${row}: failed, ${code}; the reserve is released`, async () => {
    const at = await shop();
    await notPaid(at, (await created(at, row)).id, code);
  });
}

test("row 04: pending for ever, its funds reserved", async () => {
  const at = await shop();
  const payout = await created(at, "04");
  await advanceClock(at.account_id, "3d");
  assert.equal((await at.test.get(`/v1/payouts/${payout.id}`)).body.status, "pending");
  assert.deepEqual(await books(at), [FUNDED - AMOUNT - FEE, AMOUNT + FEE, 0]);
});

test("row 05: refused by the rail, 502; the same key goes on and succeeds", async () => {
  const at = await shop();
  const headers = { "idempotency-key": "row-05" };
  const first = await at.test.post("/v1/payouts", payoutBody("05"), headers);
  assert.deepEqual([first.status, first.body.error.code], [502, "upstream_error"], first.text);
  const listed = await at.test.get("/v1/payouts");
  assert.deepEqual([listed.body.total, listed.body.data[0].status], [1, "initiated"]);
  assert.deepEqual(await books(at), [FUNDED - AMOUNT - FEE, AMOUNT + FEE, 0]);
  const second = await created(at, "05", headers);
  assert.equal(second.id, listed.body.data[0].id);
  await paid(at, second.id);
});

for (const [row, what] of [
  ["06", "accepted, answered 500, found by asking"],
  ["07", "its callback arrives twice, it is paid once"],
  ["11", "the callback overtakes the call's own answer"],
] as const) {
  test(`row ${row}: ${what}`, async () => {
    const at = await shop();
    const payout = await created(at, row);
    await paid(at, payout.id);
    assert.equal(receiver.about(payout.id).length, 1);
  });
}

test("row 09: paid, then returned by the rail: the amount is back, the fee is not", async () => {
  const at = await shop();
  const payout = await created(at, "09");
  await receiver.hears(payout.id, ["payout.success", "payout.refunded"]);
  assert.equal((await payoutIs(at, payout.id, "refunded")).failure, null);
  assert.deepEqual(await books(at), [FUNDED - FEE, 0, 0]);
  assert.deepEqual(
    receiver.about(payout.id).map(({ event }) => event),
    ["payout.success", "payout.refunded"],
  );
});

test("row 12: unavailable, 503 with Retry-After; an operator cancels what has not left, once", async () => {
  const at = await shop();
  const answer = await at.test.post("/v1/payouts", payoutBody("12"), { "idempotency-key": "row-12" });
  assert.deepEqual([answer.status, answer.body.error.code], [503, "temporarily_unavailable"], answer.text);
  assert.match(answer.headers.get("retry-after") ?? "", /^[1-9]\d*$/);
  const [{ reference, id }] = (await at.test.get("/v1/payouts")).body.data;
  const cancelled = await cauri(["payout", "cancel", reference, "--json"]);
  assert.deepEqual([cancelled.code, JSON.parse(cancelled.stdout).status], [0, "cancelled"]);
  assert.deepEqual(await books(at), [FUNDED, 0, 0]);
  const [notice] = await receiver.hears(id, ["payout.cancelled"]);
  assert.equal(notice?.data.status, "cancelled");
  const retry = await at.test.post("/v1/payouts", payoutBody("12"), { "idempotency-key": "row-12" });
  assert.deepEqual([retry.status, retry.body.id, retry.body.status], [201, id, "cancelled"]);
});

test("cancel and advance: what has left cannot be cancelled; arrows that don't stand are 409", async () => {
  const at = await shop();
  const { id } = await created(at, "04");
  const tried = await cauri(["payout", "cancel", id, "--json"]);
  assert.deepEqual([tried.code, JSON.parse(tried.stdout).error.code], [1, "precondition_failed"]);
  const advance = (to: string) => cauri(["sandbox", "advance", id, "--to", to, "--json"]);
  assert.equal((await advance("refunded")).code, 1);
  assert.equal(JSON.parse((await advance("success")).stdout).status, "success");
  assert.equal((await advance("failed")).code, 1);
  assert.equal(JSON.parse((await advance("refunded")).stdout).status, "refunded");
  assert.deepEqual(await books(at), [FUNDED - FEE, 0, 0]);
});

test("create_payout: each wrong input is 422 with its field, and nothing is created", async () => {
  const at = await shop();
  const wallet = (phone: string) => ({ destination: { type: "mobile_wallet", phone } });
  const bank = { platform_id: "plt_bank_ci" };
  for (const [more, field] of [
    [{ amount_minor: 99 }, "amount_minor"],
    [{ asset_id: "ast_ghs" }, "platform_id"],
    [{ platform_id: "plt_none" }, "platform_id"],
    [{ rail: "wave" }, "rail"],
    [{ destination: null }, "destination"],
    [{ destination: {} }, "destination.type"],
    [{ destination: { type: "mobile_wallet" } }, "destination.phone"],
    [wallet("+221771234567"), "destination.phone"],
    [wallet("0504030200"), "destination.phone"],
    [{ destination: { type: "alias", alias: "x" } }, "destination.type"],
    [{ destination: { type: "bank_account", iban: "CI93CI0080111301134291200589" } }, "destination.type"],
    [{ ...bank, ...wallet("+2250504030200") }, "destination.type"],
    [{ ...bank, destination: { type: "bank_account", iban: "CI94CI0080111301134291200589" } }, "destination.iban"],
    [{ ...bank, destination: { type: "bank_account", account_number: "0123456789" } }, "destination.bank_code"],
    [{ client_ref: "PYT-7F3K9Q2MBX4T" }, "client_ref"],
  ] as const) {
    const answer = await at.test.post("/v1/payouts", payoutBody("00", more));
    assert.deepEqual([answer.status, answer.body.error?.code], [422, "invalid_request"], answer.text);
    assert.ok(answer.body.error.message.startsWith(`${field}:`), answer.text);
  }
  const poor = await at.test.post("/v1/payouts", payoutBody("00", { amount_minor: FUNDED }), {
    "idempotency-key": "k",
  });
  assert.deepEqual([poor.status, poor.body.error.code], [422, "insufficient_funds"]);
  assert.equal((await at.test.get("/v1/payouts")).body.total, 0);
  await fund(at.account_id, 1_000);
  const rich = await at.test.post("/v1/payouts", payoutBody("00", { amount_minor: FUNDED }), {
    "idempotency-key": "k",
  });
  assert.equal(rich.status, 201, "after a top-up the same key succeeds");
});

test("bank account: paid to an IBAN, which every read masks", async () => {
  const at = await merchant("Bank");
  await fund(at.account_id, FUNDED, "plt_bank_ci");
  const destination = { type: "bank_account", iban: "CI44 CI00 8011 1301 1342 9120 0501", name: "Awa Kone" };
  const answer = await at.test.post("/v1/payouts", payoutBody("", { platform_id: "plt_bank_ci", destination }));
  assert.equal(answer.status, 201, answer.text);
  assert.deepEqual([answer.body.status, answer.body.rail], ["success", "bank_transfer"]);
  assert.equal(answer.body.destination.iban, "CI*****0501");
});

test("scopes, live activation, ownership, replay, filters", async () => {
  const at = await shop();
  const reader = await at.key("test", ["can_read_transactions"]);
  assert.equal((await reader.post("/v1/payouts", payoutBody("00"))).body.error.code, "insufficient_scope");
  const live = await at.key("live");
  assert.equal((await live.post("/v1/payouts", payoutBody("00"))).body.error.code, "not_live");
  const headers = { "idempotency-key": "once" };
  const first = await at.test.post(
    "/v1/payouts",
    payoutBody("01", { client_ref: "pay-1", metadata: { a: "b" } }),
    headers,
  );
  const again = await at.test.post(
    "/v1/payouts",
    payoutBody("01", { client_ref: "pay-1", metadata: { a: "b" } }),
    headers,
  );
  assert.deepEqual(
    [again.status, again.body.id, again.headers.get("idempotent-replayed")],
    [201, first.body.id, "true"],
  );
  assert.equal((await at.test.post("/v1/payouts", payoutBody("02"), headers)).body.error.code, "concurrent_request");
  const taken = await at.test.post("/v1/payouts", payoutBody("01", { client_ref: "pay-1" }));
  assert.deepEqual([taken.status, taken.body.error.code], [409, "already_exists"]);
  for (const name of [first.body.id, first.body.reference, "pay-1", first.body.reference.toLowerCase()]) {
    assert.equal((await at.test.get(`/v1/payouts/${name}`)).body.id, first.body.id);
  }
  const other = await merchant("Other");
  assert.equal((await other.test.get(`/v1/payouts/${first.body.id}`)).status, 404);
  const list = async (query: string) => (await at.test.get(`/v1/payouts?${query}`)).body.total;
  assert.deepEqual(
    await Promise.all([list("status=success"), list("status=failed"), list("client_ref=pay-1")]),
    [1, 0, 1],
  );
  assert.equal((await at.test.get("/v1/payouts?status=nonsense")).status, 422);
});
