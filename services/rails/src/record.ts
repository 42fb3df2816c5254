// Takes down what a rail said of an attempt, in one transaction: the move that the table allows, the history, the news.
// Every source comes through here: the answer to a call, a callback, the answer to a question.

import type { FailureCode } from "@cauri/money/failure";
import type { Tx } from "@cauri/store/pool";
import {
  type AttemptState,
  isFinal,
  isWorthKeeping,
  type NewsSource,
  POLL_PAST_EXPIRY_S,
  pollDelay_s,
  type RailAnswer,
  stepOf,
} from "./attempt.ts";
import { type Attempt, type Changes, keepHistory, writeNews } from "./attempt-store.ts";
import { tellNews } from "./events.ts";

/** Records an answer for a locked attempt; `lease_no` where it is the lease's holder who heard it. The attempt afterwards. */
export async function recordAnswer(
  tx: Tx,
  attempt: Attempt,
  answer: RailAnswer,
  source: NewsSource,
  lease_no: bigint | null = null,
): Promise<Attempt> {
  // Someone else has taken over: that nothing happened, or nothing is known, is no longer this caller's to say.
  const is_stale = lease_no !== null && lease_no !== attempt.lease_no && !isFact(answer);
  const step = is_stale ? null : stepOf(attempt, answer, source);
  if (isWorthKeeping(step, answer, source)) {
    await keepHistory(tx, attempt, { source, answer, to_state: step === null || step.odd ? null : step.to });
  }
  const handoff = "handoff" in answer ? answer.handoff : undefined;
  // Also without a move: the call's own answer may come after its callback and still bring what the payer pays with.
  if (step === null && handoff === undefined && lease_no === null) return attempt;
  const state = step?.to ?? attempt.state;
  const version = attempt.version + (step?.event == null ? 0n : 1n);
  const paid = answer.outcome === "success" && step !== null ? answer : null;
  const changes: Changes = {
    state,
    version,
    handoff: handoff ?? {},
    failure_code: failureAfter(attempt, state, answer, step !== null),
    rail_amount_minor: paid !== null && !step?.odd ? paid.amount_minor : attempt.rail_amount_minor,
    rail_currency: paid !== null && !step?.odd ? paid.currency : attempt.rail_currency,
    odd_amount_minor: paid !== null && step?.odd ? paid.amount_minor : attempt.odd_amount_minor,
    odd_currency: paid !== null && step?.odd ? paid.currency : attempt.odd_currency,
    poll_in_s: pollIn_s(attempt, state),
    ends_lease: lease_no,
  };
  await writeNews(tx, attempt, changes);
  if (step?.event != null) {
    await tellNews(tx, attempt, {
      event: step.event,
      status: step.odd ? "success" : state,
      version,
      failure_code: changes.failure_code,
      rail_amount_minor: paid?.amount_minor ?? null,
      rail_currency: paid?.currency ?? null,
    });
  }
  return afterwards(attempt, changes);
}

/** The locked row with the changes in it, as a read would now show it. */
function afterwards(attempt: Attempt, changes: Changes): Attempt {
  const { handoff, ends_lease } = changes;
  return {
    ...attempt,
    state: changes.state,
    version: changes.version,
    failure_code: changes.failure_code,
    rail_amount_minor: changes.rail_amount_minor,
    rail_currency: changes.rail_currency,
    odd_amount_minor: changes.odd_amount_minor,
    odd_currency: changes.odd_currency,
    payment_url: handoff.payment_url ?? attempt.payment_url,
    deep_link: handoff.deep_link ?? attempt.deep_link,
    qr: handoff.qr ?? attempt.qr,
    leased: attempt.leased && ends_lease !== attempt.lease_no,
    polls: changes.state === attempt.state ? attempt.polls : 0,
  };
}

/** Seconds until the rail is asked; null where nothing is open, or the payer's time has been over for long. */
export function pollIn_s(attempt: Attempt, state: AttemptState): number | null {
  if (isFinal(state) || state === "ready") return null;
  const past_expiry_ms = attempt.now.getTime() - attempt.expires_at.getTime();
  if (past_expiry_ms > POLL_PAST_EXPIRY_S * 1000) return null;
  return pollDelay_s(state, state === attempt.state ? attempt.polls : 0);
}

/** What a rail says to have happened counts whoever heard it. */
function isFact(answer: RailAnswer): boolean {
  return ["pending", "success", "failed", "cancelled"].includes(answer.outcome);
}

function failureAfter(attempt: Attempt, state: AttemptState, answer: RailAnswer, moved: boolean): FailureCode | null {
  if (!moved) return attempt.failure_code;
  if (state === "failed") return answer.outcome === "failed" ? answer.failure_code : attempt.failure_code;
  return state === "cancelled" ? "payer_rejected" : null;
}
