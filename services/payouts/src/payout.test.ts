import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import type { Terms } from "@cauri/money/corridor";
import { pathsOf } from "@cauri/money/moves";
import {
  acceptedBy,
  followVerdict,
  isStaleFor,
  newsFor,
  type OutgoingMoves,
  type OutgoingWord,
} from "@cauri/money/outgoing";
import { groupFor, reserveGroup, suspenseGroup } from "@cauri/money/outgoing-postings";
import { isRefusal } from "@cauri/money/refusal";
import { PayoutStatus } from "@cauri/proto/ts/cauri/payouts/v1/payouts";
import { decidePayout, payoutMoves } from "./payout.ts";
import { movementGroup } from "./postings.ts";
import { statusOf } from "./view.ts";

const STATES = Object.keys(payoutMoves);

test("payout: the states of the table are those of the CHECK, which adds draft, and of the contract", () => {
  const sql = readFileSync(join(import.meta.dirname, "../migrations/0001_payouts.sql"), "utf8");
  const check = /payouts_status check \(status in \(([^)]*)\)\)/.exec(sql)?.[1] ?? "";
  assert.deepEqual(check.match(/\w+/g), ["draft", ...STATES]);
  const shown = Object.values(PayoutStatus).map((status) => statusOf(status as PayoutStatus));
  assert.deepEqual(new Set(shown.filter((status) => status !== null)), new Set(STATES));
});

test("payout: on every path the holds end once, none is open in a resting state, a return follows a capture", () => {
  let paths = 0;
  for (const path of pathsOf(payoutMoves, "initiated")) {
    paths += 1;
    const ends = path.filter(({ ledger }) => ledger === "capture" || ledger === "release");
    assert.ok(ends.length <= 1);
    const last = path.at(-1)?.to ?? "initiated";
    const is_open = last === "initiated" || last === "pending";
    assert.equal(ends.length, is_open ? 0 : 1, path.map(({ news }) => news).join(" "));
    const returned = path.findIndex(({ ledger }) => ledger === "post_return");
    if (returned >= 0) assert.ok(path.slice(0, returned).some(({ ledger }) => ledger === "capture"));
    for (const { ledger, event } of path) {
      if (ledger.startsWith("post_") && ledger !== "post_return") assert.equal(event, null, "suspense tells nobody");
    }
  }
  assert.ok(paths > 10);
});

test("payout: money over another amount is booked in every state, money after the end there and back; the state stays", () => {
  for (const [state, row] of Object.entries<OutgoingMoves[string]>(payoutMoves)) {
    assert.deepEqual(row.mispay, { to: state, ledger: "post_suspense", event: null }, state);
    const is_late = row.settle?.ledger === "post_late";
    if (is_late) assert.deepEqual(row.return, { to: state, ledger: "post_back", event: null }, state);
  }
});

test("payout: the ledger's verdict comes before the message", () => {
  assert.equal(followVerdict("settle", "stands"), "write");
  assert.equal(followVerdict("settle", "hold_released"), "reject_first");
  assert.equal(followVerdict("reject", "hold_captured"), "settle_first");
  assert.equal(followVerdict("cancel", "hold_captured"), "settle_first");
  assert.equal(followVerdict("reject", "hold_released"), "write");
});

const WORD: OutgoingWord = {
  source: "news",
  says: "settle",
  failure_code: null,
  paid_minor: 1500n,
  paid_currency: "XOF",
  version: 2n,
  rail: "mtn_momo",
};
const PENDING = { status: "pending", amount_minor: 1500n, currency: "XOF", rail_version: 1n };

test("words: older ones are stale, an acceptance of an initiated payout and our own never; another amount is no success", () => {
  assert.equal(isStaleFor(PENDING, WORD), false);
  assert.equal(isStaleFor({ ...PENDING, rail_version: 2n }, WORD), true);
  assert.equal(isStaleFor({ ...PENDING, rail_version: 2n }, { ...WORD, source: "asked" }), false);
  assert.equal(isStaleFor({ ...PENDING, status: "initiated", rail_version: 3n }, { ...WORD, says: "accept" }), false);
  assert.equal(isStaleFor({ ...PENDING, rail_version: 9n }, { ...WORD, version: 0n }), false);
  assert.equal(newsFor(PENDING, WORD), "settle");
  assert.equal(newsFor(PENDING, { ...WORD, paid_minor: 1n }), "mispay");
  assert.equal(newsFor(PENDING, { ...WORD, paid_currency: "GHS" }), "mispay");
  assert.deepEqual(acceptedBy(WORD), { ...WORD, says: "accept", paid_minor: null, paid_currency: null });
});

const TERMS: Terms = {
  asset_known: true,
  platform_known: true,
  corridor_known: true,
  is_open: true,
  min_amount_minor: 100n,
  max_amount_minor: 2_000_000n,
  rails: [
    { rail: "first", needs_phone: false },
    { rail: "second", needs_phone: false },
  ],
  fee: { percent_bps: 100, fixed_minor: 25n, min_minor: null, max_minor: null },
  country: "CI",
  currency: "XOF",
  scale: 0,
  merchant_name: "Shop",
  destination_types: ["mobile_wallet"],
};
const WANTED = {
  amount_minor: 1500n,
  asset_id: "ast_xof",
  platform_id: "plt_a",
  rail: undefined,
  destination_type: "mobile_wallet",
};

test("decide_payout: priced on top, rails in their order; each mistake is told with its field", () => {
  assert.deepEqual(decidePayout(WANTED, TERMS), { fee_minor: 40n, rails: ["first", "second"], forced: false });
  assert.deepEqual(decidePayout({ ...WANTED, rail: "second" }, TERMS), {
    fee_minor: 40n,
    rails: ["second"],
    forced: true,
  });
  const refusalOf = (wanted: object, terms: object = {}) => {
    const decided = decidePayout({ ...WANTED, ...wanted }, { ...TERMS, ...terms });
    assert.ok(isRefusal(decided));
    return `${decided.field}: ${decided.message}`;
  };
  assert.equal(refusalOf({}, { corridor_known: false }), "platform_id: takes no payouts in ast_xof");
  assert.equal(refusalOf({}, { is_open: false }), "platform_id: the corridor for payouts in ast_xof is closed");
  assert.equal(refusalOf({ rail: "other" }), "rail: not a payout rail of plt_a");
  assert.equal(refusalOf({ amount_minor: 99n }), "amount_minor: must be between 100 and 2000000");
  assert.equal(refusalOf({ destination_type: "bank_account" }), "destination.type: plt_a pays out to mobile_wallet");
});

const PAYOUT = {
  id: "po_1",
  account: "acct_x",
  platform_id: "plt_a",
  asset_id: "ast_xof",
  amount_minor: 1500n,
  fee_minor: 15n,
};
const MOVE = {
  id: "tr_1",
  kind: "transfer",
  account: "acct_x",
  mode: "test",
  reference: "",
  client_ref: null,
  amount_minor: 7n,
  asset_id: "ast_xof",
  platform_id: "plt_a",
  receiver: "acct_y",
  to_platform_id: "plt_a",
  description: null,
  metadata: null,
} as const;

test("postings: each step is what the table of the ledger's page says; a fee of zero has no leg", () => {
  const written = ({ postings }: ReturnType<typeof reserveGroup>) =>
    postings.map(({ kind, debit, credit, amount_minor }) => `${kind} ${debit}>${credit} ${amount_minor}`).join(" + ");
  const merchant = "merchant:acct_x:plt_a";
  assert.equal(written(reserveGroup(PAYOUT)), `hold ${merchant}>float:plt_a 1500 + hold ${merchant}>fees 15`);
  assert.equal(written(reserveGroup({ ...PAYOUT, fee_minor: 0n })), `hold ${merchant}>float:plt_a 1500`);
  assert.equal(written(groupFor(PAYOUT, "capture")), "capture > 0 + capture > 0");
  assert.equal(written(groupFor({ ...PAYOUT, fee_minor: 0n }, "release")), "release > 0");
  assert.equal(written(groupFor(PAYOUT, "post_return")), `post float:plt_a>${merchant} 1500`);
  assert.equal(written(groupFor(PAYOUT, "post_late")), "post suspense:plt_a>float:plt_a 1500");
  assert.equal(written(groupFor(PAYOUT, "post_back")), "post float:plt_a>suspense:plt_a 1500");
  const odd = { amount_minor: 3n, asset_id: "ast_ghs" };
  assert.equal(written(suspenseGroup(PAYOUT, odd)), "post suspense:plt_a>float:plt_a 3");
  assert.equal(written(movementGroup(MOVE)), `post ${merchant}>merchant:acct_y:plt_a 7`);
  const rebalance = { ...MOVE, kind: "rebalance", receiver: "acct_x", to_platform_id: "plt_b" } as const;
  assert.equal(
    written(movementGroup(rebalance)),
    `post ${merchant}>interplatform:plt_a 7 + post interplatform:plt_b>merchant:acct_x:plt_b 7`,
  );
});
