// Withdrawals, pure: every path of the table against the money rules, the price, the postings.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Terms } from "@cauri/money/corridor";
import { pathsOf } from "@cauri/money/moves";
import { isRefusal } from "@cauri/money/refusal";
import { checkActive, checkNet, priceWithdrawal, type Withdrawal, withdrawalMoves } from "./withdrawal.ts";
import { approvalGroup, withdrawalGroup } from "./withdrawal-postings.ts";

const TERMS: Terms = {
  asset_known: true,
  platform_known: true,
  corridor_known: true,
  is_open: true,
  min_amount_minor: 100n,
  max_amount_minor: 1_000_000n,
  rails: [{ rail: "mtn_momo", needs_phone: true }],
  fee: { percent_bps: 0, fixed_minor: 500n, min_minor: null, max_minor: null },
  country: "CI",
  currency: "XOF",
  scale: 0,
  merchant_name: "Shop",
  destination_types: ["mobile_wallet"],
};

const SUBJECT: Pick<
  Withdrawal,
  "id" | "account" | "from_platform_id" | "platform_id" | "asset_id" | "amount_minor" | "fee_minor" | "approval"
> = {
  id: "wr_01KAE800000000000000000001",
  account: "acct_01KAE800000000000000000001",
  from_platform_id: "plt_mtn_ci",
  platform_id: "plt_mtn_ci",
  asset_id: "ast_xof",
  amount_minor: 9_500n,
  fee_minor: 500n,
  approval: 1,
};

test("withdrawal moves: on every path the money is held before it is approved and its hold ends once, at rest", () => {
  for (const path of pathsOf(withdrawalMoves, "requested")) {
    const steps: string[] = path.map(({ ledger }) => ledger);
    const ends = steps.filter((step) => step === "capture" || step === "release");
    assert.ok(steps.filter((step) => step === "hold").length <= 1);
    const last = path.at(-1)?.to ?? "requested";
    const is_held = steps.includes("hold");
    if (last === "paid" || last === "failed") assert.equal(ends.length, 1, steps.join(" "));
    if (last === "approved" || last === "processing") assert.ok(is_held && ends.length === 0);
    if (last === "requested" || last === "rejected") assert.ok(!is_held && ends.length === 0);
  }
});

test("price: no line is 409, an explicit zero is free", () => {
  const closed = priceWithdrawal(1_000n, "ast_xof", { ...TERMS, fee: null });
  assert.ok(isRefusal(closed) && closed.refused === "precondition_failed");
  const free = { percent_bps: 0, fixed_minor: 0n, min_minor: null, max_minor: null };
  assert.equal(priceWithdrawal(1_000n, "ast_xof", { ...TERMS, fee: free }), 0n);
  assert.equal(priceWithdrawal(1_000n, "ast_xof", TERMS), 500n);
});

test("check_net: below the fee 422, all of it fee passes whatever the corridor, else the corridor's bounds hold the net", () => {
  assert.equal(checkNet(499n, 500n, TERMS)?.field, "amount_minor");
  assert.equal(checkNet(500n, 500n, { ...TERMS, is_open: false }), null);
  assert.equal(checkNet(599n, 500n, TERMS)?.field, "amount_minor");
  assert.equal(checkNet(600n, 500n, TERMS), null);
  assert.equal(checkNet(1_000_500n, 500n, TERMS), null);
  assert.equal(checkNet(1_000_501n, 500n, TERMS)?.field, "amount_minor");
  assert.equal(checkNet(600n, 500n, { ...TERMS, is_open: false })?.field, "asset_id");
});

test("check_active: a suspended account's requests wait, and live ones need live activation", () => {
  const settlement = { is_active: true, is_live: false, to: null };
  assert.equal(checkActive({ mode: "test" }, settlement), null);
  assert.equal(checkActive({ mode: "live" }, settlement)?.refused, "precondition_failed");
  assert.equal(checkActive({ mode: "live" }, { ...settlement, is_live: true }), null);
  assert.equal(checkActive({ mode: "test" }, { ...settlement, is_active: false })?.refused, "precondition_failed");
});

test("postings: each approval holds under ids of its own, a leg of zero is left out", () => {
  const [first, second] = [approvalGroup(SUBJECT), approvalGroup({ ...SUBJECT, approval: 2 })];
  assert.deepEqual(
    first.postings.map(({ kind, credit, amount_minor }) => [kind, credit, amount_minor]),
    [
      ["hold", "float:plt_mtn_ci", 9_500n],
      ["hold", "fees", 500n],
    ],
  );
  assert.equal(new Set([...first.postings, ...second.postings].map(({ id }) => id)).size, 4);
  assert.deepEqual(
    withdrawalGroup(SUBJECT, "capture")?.postings.map(({ hold_id }) => hold_id),
    first.postings.map(({ id }) => id),
  );
  const all_fee = { ...SUBJECT, amount_minor: 0n, fee_minor: 10_000n };
  assert.equal(approvalGroup(all_fee).postings.length, 1);
  assert.equal(withdrawalGroup(all_fee, "capture")?.postings.length, 1);
});

test("postings: to another platform the net waits in the clearing, and what is paid leaves the other float", () => {
  const across = { ...SUBJECT, platform_id: "plt_bank_ci" };
  assert.equal(approvalGroup(across).postings[0]?.credit, "interplatform:plt_mtn_ci");
  const leave = withdrawalGroup(across, "capture")?.postings.at(-1);
  assert.deepEqual(
    [leave?.kind, leave?.debit, leave?.credit, leave?.amount_minor],
    ["post", "interplatform:plt_bank_ci", "float:plt_bank_ci", 9_500n],
  );
  assert.equal(withdrawalGroup(across, "release")?.postings.length, 2);
});
