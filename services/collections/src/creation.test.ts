import assert from "node:assert/strict";
import test from "node:test";
import { checkClientRef, type Terms } from "@cauri/money/corridor";
import { isRefusal } from "@cauri/money/refusal";
import { decideCreation, type Wanted } from "./creation.ts";

const TERMS: Terms = {
  asset_known: true,
  platform_known: true,
  corridor_known: true,
  is_open: true,
  min_amount_minor: 100n,
  max_amount_minor: 2_000_000n,
  rails: [
    { rail: "prompt", needs_phone: true },
    { rail: "page", needs_phone: false },
  ],
  fee: { percent_bps: 150, fixed_minor: 0n, min_minor: null, max_minor: null },
  country: "CI",
  currency: "XOF",
  scale: 0,
  merchant_name: "Shop",
  destination_types: [],
};
const WANTED: Wanted = {
  amount_minor: 1500n,
  asset_id: "ast_xof",
  platform_id: "plt_a",
  rail: undefined,
  has_phone: true,
};

function refusalOf(wanted: Partial<Wanted>, terms: Partial<Terms> = {}): string {
  const decided = decideCreation({ ...WANTED, ...wanted }, { ...TERMS, ...terms });
  assert.ok(isRefusal(decided), "expected a refusal");
  assert.equal(decided.refused, "invalid_request");
  return `${decided.field}: ${decided.message}`;
}

test("decide_creation: within the terms it is priced and keeps the order of the rails", () => {
  assert.deepEqual(decideCreation(WANTED, TERMS), { fee_minor: 23n, rails: ["prompt", "page"], forced: false });
});

test("decide_creation: without a phone only rails that need none are tried", () => {
  assert.deepEqual(decideCreation({ ...WANTED, has_phone: false }, TERMS), {
    fee_minor: 23n,
    rails: ["page"],
    forced: false,
  });
});

test("decide_creation: a named rail is forced", () => {
  assert.deepEqual(decideCreation({ ...WANTED, rail: "page" }, TERMS), {
    fee_minor: 23n,
    rails: ["page"],
    forced: true,
  });
});

test("decide_creation: each mistake is told with its field", () => {
  assert.equal(refusalOf({}, { asset_known: false }), "asset_id: unknown asset");
  assert.equal(refusalOf({}, { platform_known: false }), "platform_id: unknown platform");
  assert.equal(refusalOf({}, { corridor_known: false }), "platform_id: takes no collections in ast_xof");
  assert.equal(refusalOf({}, { is_open: false }), "platform_id: the corridor for collections in ast_xof is closed");
  assert.equal(refusalOf({ rail: "other" }), "rail: not a collection rail of plt_a");
  assert.equal(refusalOf({ amount_minor: 99n }), "amount_minor: must be between 100 and 2000000");
  assert.equal(refusalOf({ amount_minor: 2_000_001n }), "amount_minor: must be between 100 and 2000000");
  assert.equal(refusalOf({ rail: "prompt", has_phone: false }), "payer.phone: is required by prompt");
});

test("decide_creation: an amount that the fee eats up is refused", () => {
  const fee = { percent_bps: 0, fixed_minor: 150n, min_minor: null, max_minor: null };
  assert.equal(refusalOf({ amount_minor: 150n }, { fee }), "amount_minor: must be more than the fee of 150");
  assert.ok(!isRefusal(decideCreation({ ...WANTED, amount_minor: 151n }, { ...TERMS, fee })));
});

test("decide_creation: of several mistakes the corridor is told before the amount, the amount before the phone", () => {
  assert.match(refusalOf({ amount_minor: 1n, rail: "prompt", has_phone: false }, { is_open: false }), /^platform_id/);
  assert.match(refusalOf({ amount_minor: 1n, rail: "prompt", has_phone: false }), /^amount_minor/);
});

test("check_client_ref: one that looks like ours is refused", () => {
  assert.equal(checkClientRef(undefined), null);
  assert.equal(checkClientRef("order-1042"), null);
  assert.equal(checkClientRef("PAY-7F3K9Q2MBX4T")?.field, "client_ref");
});
