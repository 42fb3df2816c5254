import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";
import { newId } from "@cauri/money/ids";
import { move, pathsOf } from "@cauri/money/moves";
import { PaymentStatus as ProtoStatus } from "@cauri/proto/ts/cauri/collections/v1/payments";
import {
  decideExpiry,
  FAILURE_MESSAGES,
  follow,
  isStale,
  type LedgerStep,
  NO_OFFER,
  newsOf,
  ownWord,
  type Payment,
  paymentMoves,
  type RailWord,
  RESTING,
  SILENCE_LIMIT_MS,
} from "./payment.ts";

const EXPIRES_AT = new Date("2026-11-21T11:00:00Z");
const PAYMENT: Payment = {
  id: newId("pay", 1_790_000_000_000),
  account: "acct_x",
  mode: "test",
  reference: "PAY-TEST00000001",
  client_ref: null,
  status: "pending",
  amount_minor: 1500n,
  fee_minor: 23n,
  asset_id: "ast_xof",
  currency: "XOF",
  scale: 0,
  platform_id: "plt_a",
  rail: "page",
  rails: ["page"],
  forced: false,
  merchant_name: "Shop",
  description: null,
  return_url: null,
  cancel_url: null,
  metadata: null,
  payer: null,
  payment_url: null,
  deep_link: null,
  qr: null,
  failure_code: null,
  refunded_minor: 0n,
  refunding_minor: 0n,
  payment_link_id: null,
  subscription_id: null,
  version: 2,
  rail_version: 1n,
  expires_at: EXPIRES_AT,
  created_at: new Date("2026-11-21T10:00:00Z"),
  updated_at: new Date("2026-11-21T10:00:00Z"),
  completed_at: null,
};
const SUCCESS: RailWord = {
  source: "news",
  says: "settle",
  failure_code: null,
  paid_minor: 1500n,
  paid_currency: "XOF",
  version: 2n,
  offer: NO_OFFER,
};

/** What each step does to the number of holds ever posted and to those that stand open. */
const HOLDS: Record<LedgerStep, { posts: number; ends: number }> = {
  hold: { posts: 1, ends: 0 },
  hold_capture: { posts: 1, ends: 1 },
  hold_release: { posts: 1, ends: 1 },
  capture: { posts: 0, ends: 1 },
  release: { posts: 0, ends: 1 },
  post_late: { posts: 0, ends: 0 },
  none: { posts: 0, ends: 0 },
  post_suspense: { posts: 0, ends: 0 },
};

test("payment_moves: on every path at most one hold, none open in a resting state, none ended unposted", () => {
  let paths = 0;
  for (const path of pathsOf(paymentMoves, "initiated")) {
    paths += 1;
    let posted = 0;
    let open = 0;
    for (const step of path) {
      const { posts, ends } = HOLDS[step.ledger as LedgerStep];
      posted += posts;
      open += posts - ends;
      assert.ok(posted <= 1 && open >= 0, `a second hold, or an end without one: ${told(path)}`);
      if ((RESTING as readonly string[]).includes(step.to)) assert.equal(open, 0, `left open: ${told(path)}`);
      if (step.to === "pending") assert.equal(open, 1, `pending without its hold: ${told(path)}`);
    }
  }
  assert.ok(paths > 10);
});

test("payment_moves: every change of state is told to the world, nothing else is", () => {
  for (const [from, row] of Object.entries(paymentMoves)) {
    for (const [news, next] of Object.entries(row)) {
      assert.equal(next.event !== null, next.to !== from, `${from} ${news}`);
    }
  }
});

test("payment_moves: states are those of the proto and of the table's CHECK", () => {
  const states = Object.keys(paymentMoves).sort();
  const proto = Object.keys(ProtoStatus)
    .filter((word) => word !== "UNSPECIFIED")
    .map((word) => word.toLowerCase());
  assert.deepEqual(proto.sort(), states);
  const sql = readFileSync(new URL("../migrations/0001_payments.sql", import.meta.url), "utf8");
  const listed = /constraint payments_status check \(status in \(([^)]*)\)\)/.exec(sql)?.[1] ?? "";
  assert.deepEqual(words(listed), states);
  const codes = /constraint payments_failure_code check \(failure_code in \(([^)]*)\)\)/s.exec(sql)?.[1] ?? "";
  assert.deepEqual(words(codes), Object.keys(FAILURE_MESSAGES).sort());
});

test("payment_moves: an arrow that is not drawn moves nothing", () => {
  assert.equal(move(paymentMoves, "success", "reject"), null);
  assert.equal(move(paymentMoves, "failed", "accept"), null);
  assert.equal(move(paymentMoves, "pending", "accept"), null);
});

test("news_of: a success with another amount or currency is not this payment's", () => {
  assert.equal(newsOf(PAYMENT, SUCCESS), "settle");
  assert.equal(newsOf(PAYMENT, { ...SUCCESS, paid_minor: null, paid_currency: null }), "settle");
  assert.equal(newsOf(PAYMENT, { ...SUCCESS, paid_minor: 1499n }), "mispay");
  assert.equal(newsOf(PAYMENT, { ...SUCCESS, paid_currency: "GHS" }), "mispay");
  assert.equal(newsOf(PAYMENT, { ...SUCCESS, says: "reject", paid_minor: 1n }), "reject");
});

test("is_stale: what is not newer is stale, a decision of ours never is", () => {
  assert.equal(isStale(PAYMENT, { ...SUCCESS, version: 1n }), true);
  assert.equal(isStale(PAYMENT, SUCCESS), false);
  assert.equal(isStale(PAYMENT, ownWord("expiry", "expired")), false);
  assert.equal(isStale({ ...PAYMENT, rail_version: 2n }, { ...SUCCESS, source: "answer" }), false);
  assert.equal(isStale({ ...PAYMENT, rail_version: 3n }, { ...SUCCESS, source: "answer" }), true);
  const accept: RailWord = { ...SUCCESS, source: "answer", says: "accept", version: 1n };
  assert.equal(isStale({ ...PAYMENT, status: "initiated", rail_version: 3n }, accept), false);
});

test("follow: the ledger's answer decides, not the message", () => {
  assert.equal(follow("settle", "stands"), "write");
  assert.equal(follow("settle", "hold_released"), "post_late");
  assert.equal(follow("settle", "hold_captured"), "write");
  assert.equal(follow("reject", "hold_captured"), "settle");
  assert.equal(follow("cancel", "hold_captured"), "settle");
  assert.equal(follow("reject", "hold_released"), "write");
  assert.equal(follow("accept", "hold_captured"), "settle");
  assert.equal(follow("accept", "hold_released"), "ask");
});

test("decide_expiry: paid is a success, unpaid or unknown to the rail is expired, a refusal keeps its code", () => {
  const accept: RailWord = { ...SUCCESS, says: "accept", version: 1n };
  const reject: RailWord = { ...SUCCESS, says: "reject", failure_code: "payer_rejected" };
  assert.equal(decideExpiry(PAYMENT, { kind: "word", word: SUCCESS }, EXPIRES_AT), SUCCESS);
  assert.equal(decideExpiry(PAYMENT, { kind: "word", word: reject }, EXPIRES_AT), reject);
  for (const kind of ["refused", "not_found"] as const) {
    assert.deepEqual(decideExpiry(PAYMENT, { kind }, EXPIRES_AT), ownWord("expiry", "expired"));
  }
  const expired = ownWord("expiry", "expired");
  assert.deepEqual(decideExpiry(PAYMENT, { kind: "word", word: accept }, EXPIRES_AT), expired);
  const other = { ...SUCCESS, paid_minor: 1n };
  assert.deepEqual(decideExpiry(PAYMENT, { kind: "word", word: other }, EXPIRES_AT), expired);
});

test("decide_expiry: a silent rail is asked again, for an hour at most", () => {
  const end = new Date(EXPIRES_AT.getTime() + SILENCE_LIMIT_MS);
  assert.equal(decideExpiry(PAYMENT, { kind: "unavailable" }, EXPIRES_AT), "ask_again");
  assert.equal(decideExpiry(PAYMENT, { kind: "unavailable" }, new Date(end.getTime() - 1)), "ask_again");
  assert.deepEqual(decideExpiry(PAYMENT, { kind: "unavailable" }, end), ownWord("expiry", "expired"));
});

function told(path: readonly { news: string }[]): string {
  return path.map(({ news }) => news).join(" > ");
}

function words(list: string): string[] {
  return [...list.matchAll(/'([a-z_]+)'/g)].map(([, word]) => word ?? "").sort();
}
