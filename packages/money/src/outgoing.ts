// Money that leaves through a rail (payouts, and whatever else is sent out): what a rail's word means for it. Pure.

import type { FailureCode } from "./failure.ts";
import type { OutgoingStep } from "./outgoing-postings.ts";
import type { Verdict } from "./posting.ts";

/** What was said of an operation that goes out. `source` and `version` place it among what was said before. */
export type OutgoingWord = {
  /** answer: of the call. asked: of an asking. news: of a rail by itself. The others are decisions of our own. */
  readonly source: "answer" | "asked" | "news" | "withheld" | "books";
  readonly says: "accept" | "settle" | "reject" | "return" | "cancel";
  readonly failure_code: FailureCode | null;
  readonly paid_minor: bigint | null;
  readonly paid_currency: string | null;
  /** The rail's own count; 0 for our own decisions. */
  readonly version: bigint;
  readonly rail: string | null;
};

/** What came of an attempt to send, or of a question. */
export type OutgoingAnswer =
  | { readonly kind: "word"; readonly word: OutgoingWord }
  /** It may have left: taken for accepted, and asked for. */
  | { readonly kind: "unknown"; readonly word: OutgoingWord }
  | { readonly kind: "refused" | "unavailable" | "not_found" };

/** What a word is for one operation: `mispay` is a success with another amount or currency, which is not its success. */
export type OutgoingNews = OutgoingWord["says"] | "mispay";

/** Where news lead, what the ledger does before, and what the world hears. */
export type OutgoingArrow = {
  readonly to: string;
  readonly ledger: OutgoingStep | "none" | "post_suspense";
  readonly event: string | null;
};

/** A table of moves by state and news, written `as const satisfies OutgoingMoves`. */
export type OutgoingMoves = { readonly [state: string]: { readonly [N in OutgoingNews]?: OutgoingArrow } };

export type Outgoing = {
  readonly status: string;
  readonly amount_minor: bigint;
  readonly currency: string;
  /** Version of the rail's last word that was taken into account. */
  readonly rail_version: bigint;
};

/**
 * A word that is older than what is known changes nothing; news that are not newer were there before. That a rail has
 * accepted an initiated operation is never stale, whatever else it said meanwhile; nor is our own decision.
 */
export function isStaleFor(operation: Outgoing, word: OutgoingWord): boolean {
  if (word.version === 0n || (operation.status === "initiated" && word.says === "accept")) return false;
  return word.source === "news" ? word.version <= operation.rail_version : word.version < operation.rail_version;
}

/** The news that a word is for this operation: a success with another amount or currency is not its success. */
export function newsFor(operation: Outgoing, word: OutgoingWord): OutgoingNews {
  if (word.says !== "settle") return word.says;
  const other_amount = word.paid_minor !== null && word.paid_minor !== operation.amount_minor;
  const other_currency = word.paid_currency !== null && word.paid_currency !== operation.currency;
  return other_amount || other_currency ? "mispay" : "settle";
}

/**
 * What to do with news once the ledger has answered; the ledger is the judge, the message only asked.
 * `write`: the state moves as the table says. `settle_first`: the holds had been captured, so it is a success, and what was
 * said comes after it. `reject_first`: they had been released, so it has failed, and a success comes after that.
 */
export function followVerdict(news: OutgoingNews, verdict: Verdict): "write" | "settle_first" | "reject_first" {
  if (verdict === "hold_captured" && (news === "reject" || news === "cancel")) return "settle_first";
  if (verdict === "hold_released" && news === "settle") return "reject_first";
  return "write";
}

/** Our own decision, or what the books say; it is never stale. */
export function ownWord(
  source: "withheld" | "books",
  says: OutgoingWord["says"],
  failure_code: FailureCode | null = null,
): OutgoingWord {
  return { source, says, failure_code, paid_minor: null, paid_currency: null, version: 0n, rail: null };
}

/** After a success that was not this operation's, the rail has at least accepted it. */
export function acceptedBy(word: OutgoingWord): OutgoingWord {
  return { ...word, says: "accept", failure_code: null, paid_minor: null, paid_currency: null };
}
