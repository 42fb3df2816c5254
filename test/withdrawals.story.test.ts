// A withdrawal as a merchant and the person who decides live it: closed by default, requested, approved or rejected, paid to
// the settlement account, never among the payouts.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isDeepStrictEqual } from "node:util";
import {
  type Answer,
  advanceClock,
  balance,
  cauri,
  eventually,
  fund,
  type Merchant,
  merchant,
  operate,
} from "./house.ts";

const AMOUNT = 10_000;
const FEE = 500;
const FUNDED = 50_000;

// biome-ignore lint/suspicious/noExplicitAny: the contract's JSON, read field by field.
async function ok(args: readonly string[]): Promise<any> {
  const { code, stdout, stderr } = await cauri([...args, "--json"]);
  assert.equal(code, 0, stderr);
  return JSON.parse(stdout);
}

async function refusedBy(args: readonly string[]): Promise<string> {
  const { code, stdout } = await cauri([...args, "--json"]);
  assert.equal(code, 1, stdout);
  return JSON.parse(stdout).error.code;
}

function body(more: Record<string, unknown> = {}): Record<string, unknown> {
  return { amount_minor: AMOUNT, asset_id: "ast_xof", platform_id: "plt_mtn_ci", ...more };
}

async function priced(at: Merchant, fixed_minor = FEE): Promise<void> {
  const line = { operation: "FEE_OPERATION_WITHDRAWAL", asset_id: "ast_xof", account_id: at.account_id };
  await operate("cauri.accounts.v1.ReferenceService/SetFee", { ...line, percent_bps: 0, fixed_minor });
}

async function settled(at: Merchant, row: string, platform_id = "plt_mtn_ci"): Promise<void> {
  const phone = `+22505040302${row}`;
  const wallet = ["--type", "mobile_wallet", "--phone", phone, "--name", "Awa Kone"];
  const account = await ok(["account", "settlement", "set", at.account_id, "--platform", platform_id, ...wallet]);
  assert.deepEqual(account.settlement, {
    platform_id,
    destination: {
      type: "mobile_wallet",
      phone: `+22505*****${row}`,
      iban: null,
      account_number: null,
      bank_code: null,
      name: "A*** K***",
    },
  });
}

/** A merchant that may withdraw; the settlement account's last two digits choose the sandbox's row. */
async function shop(row: string): Promise<Merchant> {
  const at = await merchant("Withdrawals");
  await priced(at);
  await settled(at, row);
  await fund(at.account_id, FUNDED);
  return at;
}

async function requested(at: Merchant, more: Record<string, unknown> = {}): Promise<Answer["body"]> {
  const answer = await at.test.post("/v1/payout-requests", body(more));
  assert.equal(answer.status, 201, answer.text);
  assert.equal(answer.headers.get("location"), `/v1/payout-requests/${answer.body.id}`);
  return answer.body;
}

function becomes(at: Merchant, id: string, status: string): Promise<Answer["body"]> {
  return eventually(
    `withdrawal ${id} is ${status}`,
    async () => (await at.test.get(`/v1/payout-requests/${id}`)).body,
    (seen) => seen.status === status,
  );
}

async function books(at: Merchant): Promise<number[]> {
  const { available_minor, reserved_minor, pending_minor } = await balance(at.test);
  return [available_minor, reserved_minor, pending_minor];
}

test("refusals in the contract's order: fee line 409, settlement account 409, fee 422, balance 422", async () => {
  const at = await merchant("Withdrawals refused");
  const create = async (more: Record<string, unknown> = {}) => {
    const { status, body: told } = await at.test.post("/v1/payout-requests", body(more));
    return [status, told.error?.code, told.error?.message.split(":")[0]];
  };
  assert.deepEqual((await create()).slice(0, 2), [409, "precondition_failed"]);
  await priced(at);
  // Payouts has asked for this merchant's terms, and forgets them when it hears that they changed.
  const unsettled = [409, "precondition_failed", "the account has no settlement account"];
  await eventually("the new price is known", create, (told) => isDeepStrictEqual(told, unsettled));
  await settled(at, "01");
  assert.deepEqual(await create({ amount_minor: FEE - 1 }), [422, "invalid_request", "amount_minor"]);
  assert.deepEqual((await create()).slice(0, 2), [422, "insufficient_funds"]);
  for (const [more, field] of [
    [{ asset_id: "ast_none" }, "asset_id"],
    [{ platform_id: "plt_none" }, "platform_id"],
    [{ asset_id: "ast_ghs" }, "platform_id"],
    [{ amount_minor: "100" }, "amount_minor"],
    [{ client_ref: "WDR-7F3K9Q2MBX4T" }, "client_ref"],
  ] as const) {
    assert.deepEqual(await create(more), [422, "invalid_request", field]);
  }
  assert.equal((await at.test.get("/v1/payout-requests")).body.total, 0);
  const reader = await at.key("test", ["can_read_transactions"]);
  assert.equal((await reader.post("/v1/payout-requests", body())).body.error.code, "insufficient_scope");
  const live = await at.key("live");
  assert.equal((await live.post("/v1/payout-requests", body())).body.error.code, "not_live");
  const wrong = ["--platform", "plt_bank_ci", "--type", "mobile_wallet", "--phone", "+2250504030201"];
  assert.equal(await refusedBy(["account", "settlement", "set", at.account_id, ...wrong]), "invalid_request");
});

test("requested: nothing is reserved, a replay is 200, found by id, reference and client_ref, never among payouts", async () => {
  const at = await shop("01");
  const headers = { "idempotency-key": "once" };
  const more = { client_ref: "wd-1", note: "Takings", metadata: { week: "47" } };
  const first = await at.test.post("/v1/payout-requests", body(more), headers);
  assert.equal(first.status, 201, first.text);
  const { id, reference, created_at, updated_at, ...rest } = first.body;
  assert.match(id, /^wr_[0-9A-HJKMNP-TV-Z]{26}$/);
  assert.match(reference, /^WDR-TEST[0-9A-HJKMNP-TV-Z]{8}$/);
  assert.equal(created_at, updated_at);
  assert.deepEqual(rest, {
    object: "withdrawal_request",
    client_ref: "wd-1",
    status: "requested",
    amount_minor: AMOUNT,
    fee_minor: FEE,
    net_minor: AMOUNT - FEE,
    asset_id: "ast_xof",
    platform_id: "plt_mtn_ci",
    destination: {
      type: "mobile_wallet",
      phone: "+22505*****01",
      iban: null,
      account_number: null,
      bank_code: null,
      name: "A*** K***",
    },
    note: "Takings",
    decision_note: null,
    decided_at: null,
    paid_at: null,
    metadata: { week: "47" },
    is_test: true,
  });
  assert.deepEqual(await books(at), [FUNDED, 0, 0]);
  const again = await at.test.post("/v1/payout-requests", body(more), headers);
  assert.deepEqual([again.status, again.body.id, again.headers.get("idempotent-replayed")], [200, id, "true"]);
  const other = await at.test.post("/v1/payout-requests", body(), headers);
  assert.deepEqual([other.status, other.body.error.code], [409, "concurrent_request"]);
  const taken = await at.test.post("/v1/payout-requests", body({ client_ref: "wd-1" }));
  assert.deepEqual([taken.status, taken.body.error.code], [409, "already_exists"]);
  for (const name of [id, reference, reference.toLowerCase(), "wd-1"]) {
    assert.deepEqual((await at.test.get(`/v1/payout-requests/${name}`)).body, first.body);
  }
  assert.equal((await at.test.get("/v1/payouts")).body.total, 0);
  assert.equal((await at.test.get(`/v1/payouts/${id}`)).status, 404);
  assert.equal((await (await merchant("Other")).test.get(`/v1/payout-requests/${id}`)).status, 404);
  const total = async (query: string) => (await at.test.get(`/v1/payout-requests?${query}`)).body.total;
  assert.deepEqual(await Promise.all([total(""), total("status=requested"), total("status=paid")]), [1, 1, 0]);
  assert.equal((await at.test.get("/v1/payout-requests?status=nonsense")).status, 422);
});

test("approved: set aside, processing, paid to the settlement account of the request, also when that changes since", async () => {
  const at = await shop("08");
  const { id, reference } = await requested(at);
  await settled(at, "03");
  const approved = await ok(["withdrawal", "approve", reference, "--note", "Checked"]);
  assert.deepEqual([approved.status, approved.decision_note, approved.paid_at], ["processing", "Checked", null]);
  assert.deepEqual(await books(at), [FUNDED - AMOUNT, AMOUNT, 0]);
  await advanceClock(at.account_id, "61s");
  const paid = await becomes(at, id, "paid");
  assert.deepEqual([paid.destination.phone, paid.paid_at === null], ["+22505*****08", false]);
  assert.deepEqual(await books(at), [FUNDED - AMOUNT, 0, 0]);
  assert.equal((await ok(["withdrawal", "approve", id])).status, "paid");
  assert.equal(await refusedBy(["withdrawal", "reject", id]), "precondition_failed");
});

test("approved: want of funds is 422 to the operator and it stays requested; a top-up makes it pass", async () => {
  const at = await shop("01");
  const [first, second] = [
    await requested(at, { amount_minor: FUNDED }),
    await requested(at, { amount_minor: FUNDED }),
  ];
  assert.equal((await ok(["withdrawal", "approve", first.id])).status, "paid");
  assert.equal(await refusedBy(["withdrawal", "approve", second.id]), "insufficient_funds");
  assert.equal((await at.test.get(`/v1/payout-requests/${second.id}`)).body.status, "requested");
  await fund(at.account_id, FUNDED);
  assert.equal((await ok(["withdrawal", "approve", second.id])).status, "paid");
  assert.deepEqual(await books(at), [0, 0, 0]);
});

test("rejected and failed: everything is available; a suspended account's request is not approved", async () => {
  const at = await shop("02");
  const rejected = await requested(at);
  const told = await ok(["withdrawal", "reject", rejected.reference, "--note", "Not this week"]);
  assert.deepEqual([told.status, told.decision_note], ["rejected", "Not this week"]);
  assert.equal(await refusedBy(["withdrawal", "approve", rejected.id]), "precondition_failed");
  const failing = await requested(at);
  await ok(["account", "suspend", at.account_id]);
  assert.equal(await refusedBy(["withdrawal", "approve", failing.id]), "precondition_failed");
  await ok(["account", "reinstate", at.account_id]);
  await ok(["withdrawal", "approve", failing.id]);
  await becomes(at, failing.id, "failed");
  assert.deepEqual(await books(at), [FUNDED, 0, 0]);
});

test("another platform's settlement account, a driven end, and all of it fee: the books stay whole", async () => {
  const at = await shop("04");
  await settled(at, "04", "plt_wave_ci");
  const driven = await requested(at);
  assert.equal((await ok(["withdrawal", "approve", driven.id])).status, "processing");
  assert.equal((await ok(["sandbox", "advance", driven.id, "--to", "success"])).status, "paid");
  assert.equal(await refusedBy(["sandbox", "advance", driven.id, "--to", "refunded"]), "precondition_failed");
  const all_fee = await requested(at, { amount_minor: FEE });
  assert.equal((await ok(["withdrawal", "approve", all_fee.id])).status, "paid");
  assert.deepEqual(await books(at), [FUNDED - AMOUNT - FEE, 0, 0]);
  const { ok: whole, problems } = await ok(["ledger", "verify"]);
  assert.deepEqual([whole, problems], [true, []]);
});

test("row 12: the rail is unavailable: it stays approved with its funds set aside and is tried again", async () => {
  const at = await shop("12");
  const { id } = await requested(at);
  assert.equal((await ok(["withdrawal", "approve", id])).status, "approved");
  assert.deepEqual(await books(at), [FUNDED - AMOUNT, AMOUNT, 0]);
});

test("row 05: refused by the rail at first: approved, then paid by the house's own retry", async () => {
  const at = await shop("05");
  const { id } = await requested(at);
  assert.equal((await ok(["withdrawal", "approve", id])).status, "approved");
  await advanceClock(at.account_id, "1m");
  await becomes(at, id, "paid");
  assert.deepEqual(await books(at), [FUNDED - AMOUNT, 0, 0]);
});
