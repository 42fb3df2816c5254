// Takes down what a rail said of an attempt, in one transaction: the move that the table allows, the history, the news.
// Every source comes through here: the answer to a call, a callback, the answer to a question. Answers of the same moment
// share a transaction and its statements.

import assert from "node:assert/strict";
import type { FailureCode } from "@cauri/money/failure";
import { coalescePer } from "@cauri/store/coalescer";
import { type Pool, type Tx, transact } from "@cauri/store/pool";
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
import { type Attempt, lockAttempts } from "./attempt-store.ts";
import { type News, tellNews } from "./events.ts";
import { type Changes, keepHistory, writeAccepted, writeNews } from "./news-store.ts";
import { TOGETHER } from "./together.ts";

export type Said = {
  readonly answer: RailAnswer;
  readonly source: NewsSource;
  /** The lease of whoever heard it, which ends with it; null: nobody's. */
  readonly lease_no: bigint | null;
};

type Told = Said & { readonly operation_id: string };

/** Records an answer for an attempt; the attempt afterwards. One that cannot be recorded fails alone. */
export const recordTold = coalescePer<Pool, Told, Attempt>((pool) => ({
  run: (told) => transact(pool, (tx) => recordAll(tx, told)),
  ...TOGETHER,
}));

type Accepted = { readonly attempt: Attempt; readonly answer: RailAnswer & { readonly outcome: "pending" } };

/**
 * The usual answer to a call that was just sent for the first time: the rail has accepted it, which nobody else needs to be
 * told. The sender knows the attempt as he wrote it, so that one statement writes all, without a lock before it. Null: it is
 * so no longer.
 */
export const recordAccepted = coalescePer<Pool, Accepted, Attempt | null>((pool) => ({
  run: (batch) => recordAllAccepted(pool, batch),
  ...TOGETHER,
}));

async function recordAllAccepted(pool: Pool, batch: readonly Accepted[]): Promise<(Attempt | null)[]> {
  const decided = batch.map(({ attempt, answer }) => {
    const { changes, news } = decide(attempt, { answer, source: "call", lease_no: attempt.lease_no });
    assert(changes !== null && news === null, "whoever sends hears that it was accepted");
    return { attempt, changes };
  });
  const inOrder = decided.toSorted((a, b) => (a.attempt.operation_id < b.attempt.operation_id ? -1 : 1));
  const written = await writeAccepted(pool, inOrder);
  return decided.map(({ attempt, changes }) =>
    written.has(attempt.operation_id) ? afterwards(attempt, changes) : null,
  );
}

/**
 * Records what a rail says now. Money that came back had arrived before, which may not have been heard: each of the two
 * is told by itself.
 */
export async function recordHeard(pool: Pool, told: Told): Promise<Attempt> {
  const { answer } = told;
  if (answer.outcome !== "returned") return await recordTold(pool, told);
  const { amount_minor, currency } = answer;
  await recordTold(pool, { ...told, answer: { outcome: "success", amount_minor, currency } });
  return await recordTold(pool, { ...told, lease_no: null });
}

/** Records answers in their order; the attempts afterwards, one for each. `locked`: those that are locked already. */
export async function recordAll(
  tx: Tx,
  told: readonly Told[],
  locked?: ReadonlyMap<string, Attempt>,
): Promise<Attempt[]> {
  const after = new Map<Told, Attempt>();
  // Two answers of one attempt: the second is placed upon what the first has left.
  for (let rest = told; rest.length > 0; rest = rest.filter((one) => !after.has(one))) {
    const round = [...new Map(rest.toReversed().map((one) => [one.operation_id, one])).values()];
    const ids = round.map(({ operation_id }) => operation_id);
    const standing = rest === told && locked !== undefined ? locked : await lockAttempts(tx, ids);
    const answers = round.map((said) => ({ attempt: lockedOf(standing, said.operation_id), said }));
    for (const [at, attempt] of recordAnswers(tx, answers).entries()) after.set(round[at] as Told, attempt);
  }
  return told.map((one) => after.get(one) as Attempt);
}

function lockedOf(locked: ReadonlyMap<string, Attempt>, operation_id: string): Attempt {
  const attempt = locked.get(operation_id);
  if (attempt === undefined) throw new Error("an attempt is gone: attempts are never deleted");
  return attempt;
}

/** Records one answer for each of these locked attempts; the attempts afterwards. */
export function recordAnswers(
  tx: Tx,
  answers: readonly { readonly attempt: Attempt; readonly said: Said }[],
): Attempt[] {
  const decided = answers.map(({ attempt, said }) => ({ attempt, said, ...decide(attempt, said) }));
  const written = [
    keepHistory(
      tx,
      decided.filter(({ is_kept }) => is_kept),
    ),
    writeNews(
      tx,
      decided.flatMap(({ attempt, changes }) => (changes === null ? [] : [{ attempt, changes }])),
    ),
    tellNews(
      tx,
      decided.flatMap(({ attempt, news }) => (news === null ? [] : [{ attempt, news }])),
    ),
  ];
  // Not awaited: they leave together with the commit, where an error of theirs surfaces.
  for (const sent of written) sent.catch(() => {});
  return decided.map(({ attempt, changes }) => (changes === null ? attempt : afterwards(attempt, changes)));
}

type Decided = {
  readonly is_kept: boolean;
  /** Null: it moved nothing. */
  readonly to_state: AttemptState | null;
  readonly changes: Changes | null;
  readonly news: News | null;
};

function decide(attempt: Attempt, { answer, source, lease_no }: Said): Decided {
  // Someone else has taken over: that nothing happened, or nothing is known, is no longer this caller's to say.
  const is_stale = lease_no !== null && lease_no !== attempt.lease_no && !isFact(answer);
  const step = is_stale ? null : stepOf(attempt, answer, source);
  const to_state = step === null || step.odd ? null : step.to;
  const is_kept = isWorthKeeping(step, answer, source);
  const handoff = "handoff" in answer ? answer.handoff : undefined;
  // Also without a move: the call's own answer may come after its callback and still bring what the payer pays with.
  if (step === null && handoff === undefined && lease_no === null) {
    return { is_kept, to_state, changes: null, news: null };
  }
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
  // Whoever sent hears "accepted" as the answer to his call; one who misses it has not ended his run, and asks again.
  const is_heard = source === "call" && answer.outcome === "pending" && lease_no === attempt.lease_no;
  if (step?.event == null || is_heard) return { is_kept, to_state, changes, news: null };
  const news: News = {
    event: step.event,
    status: step.odd ? "success" : state,
    version,
    failure_code: changes.failure_code,
    rail_amount_minor: paid?.amount_minor ?? null,
    rail_currency: paid?.currency ?? null,
  };
  return { is_kept, to_state, changes, news };
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
  const { expires_at, now } = attempt;
  if (expires_at !== null && now.getTime() - expires_at.getTime() > POLL_PAST_EXPIRY_S * 1000) return null;
  return pollDelay_s(state, state === attempt.state ? attempt.polls : 0);
}

/** What a rail says to have happened counts whoever heard it. */
export function isFact(answer: RailAnswer): boolean {
  return ["pending", "success", "failed", "cancelled", "returned"].includes(answer.outcome);
}

function failureAfter(attempt: Attempt, state: AttemptState, answer: RailAnswer, moved: boolean): FailureCode | null {
  if (!moved) return attempt.failure_code;
  if (state === "failed") return answer.outcome === "failed" ? answer.failure_code : attempt.failure_code;
  return state === "cancelled" ? "payer_rejected" : null;
}
