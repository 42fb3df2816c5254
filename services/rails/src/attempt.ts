// What an attempt is, pure: the one try of an operation at the outside, its states, and what a repeat of the call may do.
// The word "certainly" carries this file: only where certainly nothing reached the customer may anything be sent again.

import type { FailureCode } from "@cauri/money/failure";
import type { Moves, StateOf } from "@cauri/money/moves";

/**
 * `ready`: written down, certainly nothing is out. `sending`: the call may be out. `unknown`: it was out, and nobody knows
 * what became of it. What arrives after `success`, or contradicts it, is history and changes nothing; money that comes
 * after a failure or a cancellation counts, whatever the failure.
 */
export const attemptMoves = {
  ready: {
    send: { to: "sending", ledger: "none", event: null },
    // A call that was believed lost comes back with its answer: the rail has it after all.
    accept: { to: "pending", ledger: "none", event: "collection.pending" },
    // The rail had said no and takes the money nevertheless: money that came is never turned away.
    settle: { to: "success", ledger: "none", event: "collection.success" },
  },
  sending: {
    accept: { to: "pending", ledger: "none", event: "collection.pending" },
    settle: { to: "success", ledger: "none", event: "collection.success" },
    reject: { to: "failed", ledger: "none", event: "collection.failed" },
    cancel: { to: "cancelled", ledger: "none", event: "collection.cancelled" },
    refuse: { to: "ready", ledger: "none", event: null },
    lose: { to: "unknown", ledger: "none", event: null },
  },
  unknown: {
    accept: { to: "pending", ledger: "none", event: "collection.pending" },
    settle: { to: "success", ledger: "none", event: "collection.success" },
    reject: { to: "failed", ledger: "none", event: "collection.failed" },
    cancel: { to: "cancelled", ledger: "none", event: "collection.cancelled" },
    refuse: { to: "ready", ledger: "none", event: null },
  },
  pending: {
    settle: { to: "success", ledger: "none", event: "collection.success" },
    reject: { to: "failed", ledger: "none", event: "collection.failed" },
    cancel: { to: "cancelled", ledger: "none", event: "collection.cancelled" },
  },
  success: {},
  failed: { settle: { to: "success", ledger: "none", event: "collection.success" } },
  cancelled: { settle: { to: "success", ledger: "none", event: "collection.success" } },
} as const satisfies Moves;

/**
 * What goes out instead of coming in. `withheld`: certainly not sent, and never to be. `returned`: the rail sent it back
 * after a success. Events are told under the kind's name: `payout.success`.
 */
export const outgoingMoves = {
  ready: {
    send: { to: "sending", ledger: "none", event: null },
    withhold: { to: "withheld", ledger: "none", event: null },
    accept: { to: "pending", ledger: "none", event: "pending" },
    settle: { to: "success", ledger: "none", event: "success" },
  },
  sending: {
    accept: { to: "pending", ledger: "none", event: "pending" },
    settle: { to: "success", ledger: "none", event: "success" },
    reject: { to: "failed", ledger: "none", event: "failed" },
    refuse: { to: "ready", ledger: "none", event: null },
    lose: { to: "unknown", ledger: "none", event: null },
  },
  unknown: {
    accept: { to: "pending", ledger: "none", event: "pending" },
    settle: { to: "success", ledger: "none", event: "success" },
    reject: { to: "failed", ledger: "none", event: "failed" },
    refuse: { to: "ready", ledger: "none", event: null },
  },
  pending: {
    settle: { to: "success", ledger: "none", event: "success" },
    reject: { to: "failed", ledger: "none", event: "failed" },
  },
  // A "failed" after a success is the money coming back.
  success: {
    return: { to: "returned", ledger: "none", event: "returned" },
    reject: { to: "returned", ledger: "none", event: "returned" },
  },
  failed: { settle: { to: "success", ledger: "none", event: "success" } },
  // Money that left although it was withheld is told, so that it is booked: the operator had it from a call believed lost.
  withheld: { settle: { to: "success", ledger: "none", event: "success" } },
  returned: {},
} as const satisfies Moves;

/** What an attempt brings in, sends out or gives back; each kind but collections goes out. */
export type AttemptKind = "collection" | "payout" | "refund";

export type AttemptState = StateOf<typeof attemptMoves> | StateOf<typeof outgoingMoves>;

export function isOutgoing(kind: AttemptKind): boolean {
  return kind !== "collection";
}

/** What a rail gives a payer to pay with. */
export type Handoff = {
  readonly payment_url?: string;
  readonly deep_link?: string;
  readonly qr?: string;
};

/** What a rail said, whoever asked: the answer to the call, a callback, or the answer to a question. */
export type RailAnswer =
  | { readonly outcome: "pending"; readonly handoff?: Handoff }
  | {
      readonly outcome: "success";
      readonly amount_minor: bigint;
      /** ISO 4217, as the rail reports it. */
      readonly currency: string;
      readonly handoff?: Handoff;
    }
  | { readonly outcome: "failed"; readonly failure_code: FailureCode }
  | { readonly outcome: "cancelled" }
  /** It had succeeded, and the money is back. */
  | { readonly outcome: "returned"; readonly amount_minor: bigint; readonly currency: string }
  /** A time-out, a 5xx, an answer that makes no sense: it may have happened. */
  | { readonly outcome: "unknown" }
  /** The rail answered the call with a no: certainly nothing happened there. */
  | { readonly outcome: "refused" }
  /** The rail could not be reached: certainly nothing happened there. */
  | { readonly outcome: "unavailable" }
  /** Asked by our reference, the rail knows nothing of it. */
  | { readonly outcome: "not_found" };

/** Who brought the news; kept in the history beside them. */
export type NewsSource = "call" | "callback" | "ask";

type NewsWord = "accept" | "settle" | "reject" | "cancel" | "return" | "refuse" | "lose";

/** What an answer means to the table; null: it says nothing about the state. */
function newsOf(answer: RailAnswer, source: NewsSource): NewsWord | null {
  switch (answer.outcome) {
    case "pending":
      return "accept";
    case "success":
      return "settle";
    case "failed":
      return "reject";
    case "cancelled":
      return "cancel";
    case "returned":
      return "return";
    case "unknown":
      return source === "call" ? "lose" : null;
    case "refused":
    case "unavailable":
      // That a question was refused or nobody could be asked says nothing about the call that went before.
      return source === "call" ? "refuse" : null;
    case "not_found":
      return null;
  }
}

/** What must be known of an attempt to place news in it. */
export type Placed = {
  readonly kind: AttemptKind;
  readonly state: AttemptState;
  readonly amount_minor: bigint;
  readonly currency: string;
  /** The odd success that was told already. */
  readonly odd_amount_minor: bigint | null;
  readonly odd_currency: string | null;
};

export type Step = { readonly to: AttemptState; readonly event: string | null; readonly odd: boolean };

/** Where an answer moves an attempt, or null where it changes nothing. */
export function stepOf(attempt: Placed, answer: RailAnswer, source: NewsSource): Step | null {
  if (answer.outcome === "success" && !isOurs(attempt, answer)) {
    // Money over another amount is not this operation's success: it is told, so that it is booked, and moves nothing.
    const known = attempt.odd_amount_minor === answer.amount_minor && attempt.odd_currency === answer.currency;
    return known ? null : { to: attempt.state, event: `${attempt.kind}.success`, odd: true };
  }
  const news = newsOf(answer, source);
  return news === null ? null : stepFor(attempt, news, source);
}

function stepFor(attempt: Placed, news: NewsWord, source: NewsSource): Step | null {
  if (!isOutgoing(attempt.kind)) {
    const next = drawn(attemptMoves, attempt.state, news);
    return next === null ? null : { to: next.to as AttemptState, event: next.event, odd: false };
  }
  // Whoever was told "no" by mistake would send the money a second time: the rail is asked, and says so too.
  const word = news === "cancel" ? "reject" : news;
  if (source !== "ask" && (word === "reject" || word === "return")) return null;
  const next = drawn(outgoingMoves, attempt.state, word);
  if (next === null) return null;
  return {
    to: next.to as AttemptState,
    event: next.event === null ? null : `${attempt.kind}.${next.event}`,
    odd: false,
  };
}

/** The arrow of one of the two tables; a state or news that the table doesn't have has none. */
function drawn(table: Moves, state: string, news: string) {
  const row = table[state];
  return row !== undefined && Object.hasOwn(row, news) ? (row[news] ?? null) : null;
}

/** Whether an answer counts only once the rail, asked by our reference, has said so too. */
export function needsAsking(kind: AttemptKind, answer: RailAnswer): boolean {
  return isOutgoing(kind) && ["failed", "cancelled", "returned"].includes(answer.outcome);
}

function isOurs(attempt: Placed, answer: { readonly amount_minor: bigint; readonly currency: string }): boolean {
  return attempt.amount_minor === answer.amount_minor && attempt.currency === answer.currency;
}

/** Whether an answer belongs into the history: a question that only hears "still pending" again does not. */
export function isWorthKeeping(step: Step | null, answer: RailAnswer, source: NewsSource): boolean {
  return step !== null || source !== "ask" || answer.outcome === "success" || answer.outcome === "failed";
}

/** Whether nothing more is expected: such an attempt is asked for no longer, yet listens. */
export function isFinal(state: AttemptState): boolean {
  return ["success", "failed", "cancelled", "returned", "withheld"].includes(state);
}

/** What a repeat of the sending may do with the attempt it finds. */
export type CollectPlan = "send" | "wait" | "ask" | "answer";

export function planCollect(attempt: { readonly state: AttemptState; readonly leased: boolean }): CollectPlan {
  switch (attempt.state) {
    case "ready":
      return "send";
    case "sending":
    case "unknown":
      // A lease that ran out is a process that died, perhaps between the row and the call, perhaps after it: ask first.
      return attempt.leased ? "wait" : "ask";
    default:
      return "answer";
  }
}

const POLL_STEPS_S = [5, 15, 30, 60, 120, 300] as const;
/** An unknown outcome holds a merchant's answer back, so the rail is asked sooner than for a payer who takes his time. */
const UNKNOWN_STEPS_S = [1, 2, 5, 10, 30, 60, 120, 300] as const;

/** Seconds until the rail is asked (again), after `polls` questions. */
export function pollDelay_s(state: AttemptState, polls: number): number {
  const steps = state === "unknown" || state === "sending" ? UNKNOWN_STEPS_S : POLL_STEPS_S;
  return steps[Math.min(polls, steps.length - 1)] ?? 300;
}

/** A rail is asked until a day after the payer's time ran out; then only a callback brings late money. */
export const POLL_PAST_EXPIRY_S = 86_400;
