// A payment: its states as a table, what a rail's word means for it, and what follows from the ledger's answer.
// Pure: every rule of the lifecycle is decided here, `create.ts`, `apply.ts` and `news.ts` only carry it out.

import type { FailureCode } from "@cauri/money/failure";
import type { Mode } from "@cauri/money/mode";
import type { Moves, NewsOf } from "@cauri/money/moves";
import type { Verdict } from "@cauri/money/posting";

/** How long a silent rail is asked after a payment's expiry before it counts as unpaid, and how often. */
export const SILENCE_LIMIT_MS = 3_600_000;
export const ASK_AGAIN_MS = 30_000;
/** An interrupted payment is brought to its rail by us only so long after its creation: a later prompt would surprise the payer. */
const GO_ON_MS = 600_000;

/**
 * `mispay` is a success that is not this payment's: another amount or currency. The money is booked to suspense for an
 * operator, the payment stays where it is. From `initiated` the hold of the gross is posted first, under its id, whatever
 * follows, so that nothing is released or captured unseen.
 */
export const paymentMoves = {
  initiated: {
    accept: { to: "pending", ledger: "hold", event: "payment.pending" },
    settle: { to: "success", ledger: "hold_capture", event: "payment.success" },
    reject: { to: "failed", ledger: "hold_release", event: "payment.failed" },
    cancel: { to: "cancelled", ledger: "hold_release", event: "payment.failed" },
    mispay: { to: "initiated", ledger: "post_suspense", event: null },
  },
  pending: {
    settle: { to: "success", ledger: "capture", event: "payment.success" },
    reject: { to: "failed", ledger: "release", event: "payment.failed" },
    cancel: { to: "cancelled", ledger: "release", event: "payment.failed" },
    mispay: { to: "pending", ledger: "post_suspense", event: null },
  },
  success: {
    // All of it was given back, by refunds that have moved the money; it is written with the last of them.
    refund: { to: "refunded", ledger: "none", event: "payment.refunded" },
    mispay: { to: "success", ledger: "post_suspense", event: null },
  },
  failed: {
    settle: { to: "success", ledger: "post_late", event: "payment.success" },
    mispay: { to: "failed", ledger: "post_suspense", event: null },
  },
  cancelled: {
    settle: { to: "success", ledger: "post_late", event: "payment.success" },
    mispay: { to: "cancelled", ledger: "post_suspense", event: null },
  },
  refunded: { mispay: { to: "refunded", ledger: "post_suspense", event: null } },
} as const satisfies Moves;

export type PaymentStatus = keyof typeof paymentMoves;
export type PaymentNews = NewsOf<typeof paymentMoves>;
export type LedgerStep =
  | "hold"
  | "hold_capture"
  | "hold_release"
  | "capture"
  | "release"
  | "post_late"
  | "none"
  | "post_suspense";

/** States in which nobody waits for anything: no sweeper looks at them. */
export const RESTING: readonly PaymentStatus[] = ["success", "failed", "cancelled", "refunded"];

/** The sentence a merchant reads for each failure code; fixed, so that no payer detail can slip into one. */
export const FAILURE_MESSAGES = {
  insufficient_funds: "The payer's balance is too low.",
  payer_rejected: "The payer declined the payment.",
  expired: "The payment expired before it was paid.",
  payer_not_found: "The operator does not know this payer.",
  payee_not_found: "The operator does not know this recipient.",
  limit_exceeded: "The amount exceeds a limit of the payer's account.",
  account_blocked: "The payer's account is blocked.",
  name_mismatch: "The name does not match the account.",
  operator_unavailable: "The operator could not be reached.",
  fraud_suspected: "The operator refused the payment on suspicion of fraud.",
  duplicate: "The operator took the payment for a duplicate.",
  unknown: "The operator gave no reason.",
} as const satisfies Record<FailureCode, string>;

/** A payment as it is stored; amounts in minor units. Of the payer there are masks only. */
export type Payment = {
  readonly id: string;
  readonly account: string;
  readonly mode: Mode;
  readonly reference: string;
  readonly client_ref: string | null;
  readonly status: PaymentStatus;
  readonly amount_minor: bigint;
  readonly fee_minor: bigint;
  readonly asset_id: string;
  readonly currency: string;
  readonly scale: number;
  readonly platform_id: string;
  readonly rail: string | null;
  readonly rails: readonly string[];
  readonly forced: boolean;
  readonly merchant_name: string;
  readonly description: string | null;
  readonly return_url: string | null;
  readonly cancel_url: string | null;
  readonly metadata: Readonly<Record<string, string>> | null;
  readonly payer: MaskedPayer | null;
  readonly payment_url: string | null;
  readonly deep_link: string | null;
  readonly qr: string | null;
  readonly failure_code: FailureCode | null;
  /** What refunds have given back. */
  readonly refunded_minor: bigint;
  /** What open refunds have reserved. */
  readonly refunding_minor: bigint;
  readonly payment_link_id: string | null;
  readonly subscription_id: string | null;
  /** Number of the last event that told the world of this payment; the first, `payment.initiated`, is 1. */
  readonly version: number;
  /** Version of the last word of the rail that was taken into account: what is not newer is stale. */
  readonly rail_version: bigint;
  readonly expires_at: Date;
  readonly created_at: Date;
  readonly updated_at: Date;
  readonly completed_at: Date | null;
};

export type MaskedPayer = {
  readonly phone: string | null;
  readonly name: string | null;
  readonly email: string | null;
};

/** What a rail gives to charge the payer with; a null says nothing. */
export type Offer = {
  readonly rail: string | null;
  readonly payment_url: string | null;
  readonly deep_link: string | null;
  readonly qr: string | null;
};

export const NO_OFFER: Offer = { rail: null, payment_url: null, deep_link: null, qr: null };

/** What a rail said of a payment, in its answer to a call, by news or when asked. */
export type RailWord = {
  readonly source: "answer" | "news" | "asked" | "expiry" | "give_up";
  readonly says: Exclude<PaymentNews, "mispay" | "refund">;
  readonly failure_code: FailureCode | null;
  /** Amount and currency that the rail reports for a success; null where it names none. */
  readonly paid_minor: bigint | null;
  readonly paid_currency: string | null;
  /** Counts what the rail said from 1; 0 for a decision of ours, which is never stale. */
  readonly version: bigint;
  readonly offer: Offer;
};

/** What an attempt's answer asks of the payment. Refused, unavailable and not found: the rail certainly has nothing. */
export type Answer =
  | { readonly kind: "word"; readonly word: RailWord }
  | { readonly kind: "refused" }
  | { readonly kind: "unavailable" }
  | { readonly kind: "not_found" }
  | { readonly kind: "unknown"; readonly word: RailWord };

/**
 * A word that is older than what is known changes nothing; news that are not newer were there before. That a rail has
 * accepted an initiated payment is never stale, whatever else it said meanwhile.
 */
export function isStale(payment: Payment, word: RailWord): boolean {
  if (word.version === 0n || (payment.status === "initiated" && word.says === "accept")) return false;
  return word.source === "news" ? word.version <= payment.rail_version : word.version < payment.rail_version;
}

/** The news that a word is for this payment: a success with another amount or currency is not its success. */
export function newsOf(payment: Payment, word: RailWord): PaymentNews {
  if (word.says !== "settle") return word.says;
  const other_amount = word.paid_minor !== null && word.paid_minor !== payment.amount_minor;
  const other_currency = word.paid_currency !== null && word.paid_currency !== payment.currency;
  return other_amount || other_currency ? "mispay" : "settle";
}

/**
 * What to do with news once the ledger has answered; the ledger is the judge, the message only asked.
 * `write`: the state moves as the table says. `post_late`: the hold had been given back, the success still counts.
 * `settle`: the hold had been captured, so the payment is a success whatever the message said.
 * `ask`: someone released the hold and is about to say why; the rail knows it too.
 */
export function follow(news: PaymentNews, verdict: Verdict): "write" | "post_late" | "settle" | "ask" {
  if (verdict === "stands" || news === "mispay") return "write";
  if (verdict === "hold_captured") return news === "settle" ? "write" : "settle";
  if (news === "settle") return "post_late";
  return news === "accept" ? "ask" : "write";
}

/** Whether a payment may still be brought to its rail without its merchant having asked again. */
export function mayGoOn({ created_at, expires_at }: Payment, now: Date): boolean {
  return now < expires_at && now.getTime() < created_at.getTime() + GO_ON_MS;
}

/** What becomes of a payment at its expiry, or at a later asking, by the rail's answer. */
export function decideExpiry(payment: Payment, answer: Answer, now: Date): RailWord | "ask_again" {
  if (answer.kind === "word" && answer.word.says !== "accept") {
    if (newsOf(payment, answer.word) !== "mispay") return answer.word;
  }
  const silent = answer.kind === "unknown" || answer.kind === "unavailable";
  const limit_ms = payment.expires_at.getTime() + SILENCE_LIMIT_MS;
  if (silent && now.getTime() < limit_ms) return "ask_again";
  return ownWord("expiry", "expired");
}

/** The asset in which a currency is kept: the payment's own, or the one named after the currency. */
export function assetOf(payment: Payment, currency: string | null): string {
  return currency === null || currency === payment.currency ? payment.asset_id : `ast_${currency.toLowerCase()}`;
}

/** After a success that was not this payment's, the rail has at least accepted it. */
export function acceptedBy(word: RailWord): RailWord {
  return { ...word, says: "accept", failure_code: null, paid_minor: null, paid_currency: null };
}

/** Our own decision that a payment has failed; late money still counts afterwards. */
export function ownWord(source: "expiry" | "give_up", failure_code: FailureCode): RailWord {
  return {
    source,
    says: "reject",
    failure_code,
    paid_minor: null,
    paid_currency: null,
    version: 0n,
    offer: NO_OFFER,
  };
}

export function isPaymentStatus(text: string): text is PaymentStatus {
  return Object.hasOwn(paymentMoves, text);
}
