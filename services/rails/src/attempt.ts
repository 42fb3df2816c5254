// What an attempt is, pure: the one try of an operation at the outside, its states, and what a repeat of the call may do.
// The word "certainly" carries this file: only where certainly nothing reached the customer may anything be sent again.

import type { FailureCode } from "@cauri/money/failure";
import { type Moves, move, type StateOf } from "@cauri/money/moves";

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

export type AttemptState = StateOf<typeof attemptMoves>;

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

type NewsWord = "accept" | "settle" | "reject" | "cancel" | "refuse" | "lose";

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
    return known ? null : { to: attempt.state, event: "collection.success", odd: true };
  }
  const news = newsOf(answer, source);
  const next = news === null ? null : move(attemptMoves, attempt.state, news);
  return next === null ? null : { to: next.to, event: next.event, odd: false };
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
  return state === "success" || state === "failed" || state === "cancelled";
}

/** What a repeat of Collect may do with the attempt it finds. */
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
