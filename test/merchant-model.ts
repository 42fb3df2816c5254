// The model of one merchant, written from the contract and not from the rooms: what became of an operation, given what the
// rail has said of it, and what then stands in the books and was told to the merchant.

import assert from "node:assert/strict";
import type { Word } from "./merchant-rails.ts";
import { ODD_MINOR } from "./merchant-rails.ts";

export type Kind = "payment" | "payout" | "refund" | "withdrawal" | "transfer" | "rebalance";

/** What operators may have decided about a withdrawal request; an answer that was not heard leaves more than one. */
export type Decided = "requested" | "rejected" | "approved";

/** An operation as the merchant sees it after everything has come to rest. */
export type Seen = {
  readonly kind: Kind;
  readonly id: string;
  readonly reference: string;
  readonly status: string;
  /** Of a withdrawal: what was asked for, of which the fee is taken. */
  readonly amount_minor: bigint;
  readonly fee_minor: bigint;
  /** Of a withdrawal: where the settlement account is. */
  readonly platform_id: string;
  /** The payment that a refund gives back. */
  readonly payment_id?: string;
  readonly refunded_minor?: bigint;
  /** Of a payment: what refunds under way have taken of the rest. */
  readonly refunding_minor?: bigint;
};

/** What an account has, posted and set aside; an account of the house grows on its debit side. */
export type Books = Map<string, { posted: bigint; debits_pending: bigint; credits_pending: bigint }>;

export const HOME = "plt_mtn_ci";
export const AWAY = "plt_orange_ci";

/** What the rail and the operators of the house have had to say about an operation. */
export type Said = {
  readonly words: readonly Word[];
  /** Rails was told never to send it: by an operator who cancelled, or because nothing took it for ten minutes. */
  readonly withheld: "cancelled" | "given up" | null;
  readonly decided: ReadonlySet<Decided>;
};

/** The states in which an operation may rest once all that was said of it was heard, in any order. */
export function restingStates(one: Seen, { words, withheld, decided }: Said): readonly string[] {
  const said = (word: Word) => words.includes(word);
  const { kind } = one;
  if (kind === "transfer" || kind === "rebalance") return ["success"];
  if (kind === "withdrawal") {
    // A rail hears only of what was approved.
    const others = words.length > 0 ? [] : [...decided].filter((end) => end !== "approved");
    return decided.has("approved") ? [...others, ...sentStates(one, words)] : others;
  }
  if (withheld === "cancelled") return ["cancelled"];
  // No rail ever took it: after ten minutes it was given up.
  if (words.length === 0) return ["failed"];
  if (kind === "payment") {
    if (said("success")) return ["success", "refunded"];
    return [said("failed") ? "failed" : said("cancelled") ? "cancelled" : "pending"];
  }
  if (said("returned")) {
    const end = kind === "payout" ? "refunded" : "success";
    return said("failed") ? [end, "failed"] : [end];
  }
  // A success after a failure leaves it failed; heard before the failure it is a success, and the failure is old news.
  if (said("success")) return said("failed") ? ["success", "failed"] : ["success"];
  return [said("failed") ? "failed" : "pending"];
}

/** The ends of an approved withdrawal; one whose fee takes all of it goes to no rail. */
function sentStates({ amount_minor, fee_minor }: Seen, words: readonly Word[]): readonly string[] {
  const said = (word: Word) => words.includes(word);
  if (amount_minor === fee_minor) return words.length === 0 ? ["paid"] : [];
  if (words.length === 0) return ["failed"];
  if (said("success")) return said("failed") ? ["paid", "failed"] : ["paid"];
  return [said("failed") ? "failed" : "processing"];
}

/** Books what an operation at rest has done; `odd` says whether money over another amount was heard in time. */
export function book(books: Books, account: string, seen: Seen, words: readonly Word[], odd: boolean): void {
  const { kind, status, amount_minor: amount, fee_minor: fee, platform_id: there } = seen;
  const [mine, float, suspense] = [`merchant:${account}:${HOME}`, `float:${there}`, `suspense:${there}`];
  const post = (debit: string, credit: string, sum: bigint) => {
    at(books, debit).posted -= sum;
    at(books, credit).posted += sum;
  };
  const hold = (debit: string, credit: string, sum: bigint) => {
    at(books, debit).debits_pending += sum;
    at(books, credit).credits_pending += sum;
  };
  const is_open = status === "pending";
  switch (kind) {
    case "payment":
      if (odd) post(float, suspense, ODD_MINOR);
      if (is_open) hold(float, mine, amount);
      if (status !== "success" && status !== "refunded") return;
      post(float, mine, amount);
      post(mine, "fees", fee);
      return;
    case "payout":
    case "refund":
      if (odd) post(suspense, float, ODD_MINOR);
      if (is_open) hold(mine, float, amount);
      if (is_open) hold(mine, "fees", fee);
      if (status === "failed" && words.includes("success")) post(suspense, float, amount);
      if (status === "failed" && words.includes("returned")) post(float, suspense, amount);
      if (status === "failed" || status === "cancelled" || is_open) return;
      post(mine, float, amount);
      post(mine, "fees", fee);
      if (status === "refunded") post(float, mine, amount);
      if (kind === "refund" && words.includes("returned")) post(float, suspense, amount);
      return;
    case "withdrawal": {
      const net = amount - fee;
      const crosses = there !== HOME;
      const through = crosses ? `interplatform:${HOME}` : float;
      if (odd) post(suspense, float, ODD_MINOR);
      if (status === "processing") hold(mine, through, net);
      if (status === "processing") hold(mine, "fees", fee);
      if (status === "failed" && words.includes("success")) post(suspense, float, net);
      if (status === "failed" && words.includes("returned")) post(float, suspense, net);
      if (status !== "paid") return;
      post(mine, through, net);
      post(mine, "fees", fee);
      if (crosses) post(`interplatform:${there}`, float, net);
      if (words.includes("returned")) post(float, suspense, net);
      return;
    }
    case "transfer":
      post(mine, `merchant:${receiverOf(account)}:${HOME}`, amount);
      return;
    case "rebalance":
      post(mine, `interplatform:${HOME}`, amount);
      post(`interplatform:${AWAY}`, `merchant:${account}:${AWAY}`, amount);
  }
}

/** Whether the merchant may have been told these events of an operation at rest, in this order. */
export function checkTold({ kind, status, id }: Seen, told: readonly string[]): void {
  const line = told.join(" ");
  const wanted: { readonly [K in Kind]: { readonly [status: string]: RegExp } } = {
    payment: {
      pending: /^payment.initiated payment.pending$/,
      failed: /^payment.initiated( payment.pending)? payment.failed$/,
      cancelled: /^payment.initiated( payment.pending)? payment.failed$/,
      success: /^payment.initiated( payment.pending)?( payment.failed)? payment.success$/,
      refunded: /^payment.initiated( payment.pending)?( payment.failed)? payment.success$/,
    },
    payout: {
      pending: /^$/,
      success: /^payout.success$/,
      failed: /^payout.failed$/,
      cancelled: /^payout.cancelled$/,
      refunded: /^payout.success payout.refunded$/,
    },
    refund: { pending: /^$/, success: /^refund.success$/, failed: /^refund.failed$/ },
    withdrawal: { requested: /^$/, rejected: /^$/, processing: /^$/, paid: /^$/, failed: /^$/ },
    transfer: { success: /^$/ },
    rebalance: { success: /^$/ },
  };
  assert.match(line, wanted[kind][status] ?? assert.fail(`${kind} ${status}`), `${id} is ${status}`);
}

/** What is given back of each payment never exceeds it, and its view says how much that is. */
export function checkRefunds(seen: readonly Seen[]): void {
  for (const payment of seen) {
    if (payment.kind !== "payment") continue;
    const of = seen.filter(({ payment_id }) => payment_id === payment.id);
    const sum = (...statuses: string[]) =>
      of.reduce((total, { status, amount_minor }) => (statuses.includes(status) ? total + amount_minor : total), 0n);
    assert.ok(sum("success", "pending") <= payment.amount_minor, `${payment.id} gives back more than it brought`);
    assert.equal(payment.refunded_minor, sum("success"), payment.id);
    assert.equal(payment.refunding_minor, sum("pending"), payment.id);
    assert.equal(payment.status === "refunded", sum("success") === payment.amount_minor, payment.id);
  }
}

export function at(books: Books, code: string) {
  const known = books.get(code) ?? { posted: 0n, debits_pending: 0n, credits_pending: 0n };
  books.set(code, known);
  return known;
}

/** The other account of a merchant's run, to whom it transfers. */
export function receiverOf(account: string): string {
  return `${account.slice(0, -1)}${account.endsWith("0") ? "1" : "0"}`;
}
