// A person decides about a withdrawal request. An approval is an operation of its own: a claim, the holds, `approved`, then
// the rail; whoever interrupts it leaves it to the sweeper. A refusal for want of funds leaves the request as it was.

import { setTimeout as sleep } from "node:timers/promises";
import { type ApplyWord, applyingWords, type OutgoingKind, reread } from "@cauri/events/outgoing";
import { sendAgain } from "@cauri/events/outgoing-follow";
import { OUTGOING_LEASE_MS } from "@cauri/events/outgoing-run";
import { acceptedBy, newsFor, type OutgoingAnswer, type OutgoingWord, ownWord } from "@cauri/money/outgoing";
import { parseOperationRef } from "@cauri/money/reference";
import { isRefusal, type Refusal, refuse } from "@cauri/money/refusal";
import { houseCaller } from "@cauri/rpc/caller";
import { Counter } from "@cauri/rpc/metrics";
import { claim, type DueClaim } from "@cauri/store/claims";
import { LeaseLost, underClaim, whenOvertaken } from "@cauri/store/lease";
import { type Lease, underLease } from "@cauri/store/operation";
import { transact } from "@cauri/store/pool";
import {
  approvalId,
  checkActive,
  checkUndecided,
  isServed,
  sentMoves,
  type Withdrawal,
  type WithdrawalStatus,
  withdrawalOfApproval,
} from "./withdrawal.ts";
import type { Withdrawing } from "./withdrawal-create.ts";
import {
  beginApproval,
  endApproval,
  isUnderWay,
  lockWithdrawal,
  withdrawals,
  writeApproved,
  writeRejected,
} from "./withdrawal-store.ts";

/** What a rail certainly did not take is sent again so soon, until it is given up after ten minutes. */
export const TRY_AGAIN_MS = 5_000;
const ROUTE = "ApproveWithdrawal";
/** A driven withdrawal moves within a callback, a question and a message; its route has 15 s. */
const DRIVE_WAIT_MS = 10_000;
const DRIVE_LOOK_MS = 50;
/** What an operator of the sandbox asks for, as a state of a withdrawal. */
const DRIVEN: { readonly [to: string]: WithdrawalStatus } = { success: "paid", failed: "failed" };

const kind: OutgoingKind<Withdrawal> = { room: "payouts", noun: "withdrawal", moves: sentMoves, table: withdrawals };

/** Withdrawals from their approval on, by the road of everything that goes out. */
export const withdrawalKind: OutgoingKind<Withdrawal> & { readonly applyWord: ApplyWord<Withdrawal> } = {
  ...kind,
  applyWord: applyingWords(kind),
};

const decided = new Counter({
  name: "cauri_withdrawals_decided_total",
  help: "Withdrawal requests that were approved or rejected.",
  labelNames: ["decision"],
});

export type Decision = { readonly id: string; readonly note?: string | undefined };

/** Approving what is approved already answers how it stands. */
export async function approveWithdrawal(
  rooms: Withdrawing,
  { id, note }: Decision,
  request_id: string,
): Promise<Withdrawal | Refusal> {
  const found = await withdrawals.findBy(rooms.pool, parseOperationRef(id), null);
  if (found === null) return noSuch();
  if (isApproved(found)) return found;
  const rails = await railsFor(rooms, found, request_id);
  if (isRefusal(rails)) return rails;
  const begun = await begin(rooms, found.id, { rails, note: note ?? null });
  if (isRefusal(begun)) return begun;
  if ("stands" in begun) return begun.stands;
  return await underLease(rooms.pool, begun.lease, () =>
    approve(rooms, begun.withdrawal, begun.lease, request_id),
  ).catch(whenOvertaken);
}

function isApproved({ status }: Withdrawal): boolean {
  return status !== "requested" && status !== "rejected";
}

/** Rejecting what is rejected already answers how it stands. */
export async function rejectWithdrawal(rooms: Withdrawing, { id, note }: Decision): Promise<Withdrawal | Refusal> {
  const found = await withdrawals.findBy(rooms.pool, parseOperationRef(id), null);
  if (found === null) return noSuch();
  return await transact(rooms.pool, async (tx) => {
    const locked = await lockWithdrawal(tx, found.id);
    if (locked.status === "rejected") return locked;
    const made = checkUndecided(locked, "rejected");
    if (made !== null) return made;
    if (await isUnderWay(tx, approvalId(locked))) return underWay();
    const rejected = await writeRejected(tx, locked.id, note ?? null);
    decided.inc({ decision: rejected.status });
    return rejected;
  });
}

/** The sweeper's part: goes on with an approval that was interrupted, or ends what no rail would take for ten minutes. */
export async function sweepApproval(rooms: Withdrawing, due: DueClaim): Promise<void> {
  const lease = { operation_id: due.operation_id, lease_no: due.lease_no };
  const withdrawal = await reread(kind, rooms.pool, withdrawalOfApproval(due.operation_id));
  const request_id = `sweep-${withdrawal.id}`;
  try {
    if (withdrawal.status === "requested") await approve(rooms, withdrawal, lease, request_id);
    else if (withdrawal.status === "approved") await send(rooms, withdrawal, lease, request_id, due.give_up);
    else await transact(rooms.pool, (tx) => underClaim(tx, lease, "finish"));
  } catch (error) {
    if (!(error instanceof LeaseLost)) throw error;
  }
}

/** An approved one whose rail did not take it, or a processing one whose end did not come. */
export async function lookAfterWithdrawal(rooms: Withdrawing, withdrawal: Withdrawal): Promise<void> {
  const request_id = `follow-up-${withdrawal.id}`;
  if (withdrawal.amount_minor === 0n) {
    await send(rooms, withdrawal, null, request_id, false);
    return;
  }
  const answer = await sendAgain(kind, rooms, withdrawal, request_id);
  const is_new = "word" in answer && (withdrawal.status === "approved" || answer.word.says !== "accept");
  if (is_new) await take(rooms, withdrawal, answer, null);
}

/** Drives a withdrawal of the sandbox and answers it once it has moved, or whatever stands after the wait. */
export async function advanceWithdrawal(
  rooms: Withdrawing,
  { id, to }: { readonly id: string; readonly to: string },
  request_id: string,
): Promise<Withdrawal | Refusal> {
  const withdrawal = await withdrawals.findBy(rooms.pool, parseOperationRef(id), null);
  if (withdrawal === null) return noSuch();
  const wanted = DRIVEN[to];
  const is_sent = withdrawal.status === "approved" || withdrawal.status === "processing";
  const driven = is_sent && wanted !== undefined && (await rooms.rails.advance(withdrawal, to, request_id));
  if (isRefusal(driven)) return driven;
  if (!driven) {
    return refuse("precondition_failed", `the withdrawal request is ${withdrawal.status} and cannot become ${to}`);
  }
  const until = performance.now() + DRIVE_WAIT_MS;
  let now = await reread(kind, rooms.pool, withdrawal.id);
  // The news travel by callback and JetStream.
  while (now.status !== wanted && performance.now() < until) {
    await sleep(DRIVE_LOOK_MS);
    now = await reread(kind, rooms.pool, withdrawal.id);
  }
  return now;
}

/** The rooms of the shared road, with the ledger asked under this kind's postings. */
export function withdrawalRooms(rooms: Withdrawing): Withdrawing {
  return { ...rooms, ledger: rooms.withdrawal_ledger };
}

/** The rails that may serve it now; the account must be active and the way to its settlement account open. */
async function railsFor(rooms: Withdrawing, asked: Withdrawal, request_id: string): Promise<string[] | Refusal> {
  const caller = houseCaller(asked.account, asked.mode, request_id, asked.id);
  const settlement = await rooms.settlements.of(caller);
  if (isRefusal(settlement)) return settlement;
  const inactive = checkActive(asked, settlement);
  if (inactive !== null) return inactive;
  if (asked.amount_minor === 0n) return [];
  const terms = await rooms.withdrawal_terms.get(caller, asked.platform_id, asked.asset_id);
  if (isRefusal(terms)) return terms;
  if (!isServed(terms)) return refuse("precondition_failed", "the corridor to the settlement account is closed");
  return terms.rails.map(({ rail }) => rail);
}

/** The intent of an approval: its number, its rails and its claim, before anything is set aside. */
async function begin(
  rooms: Withdrawing,
  id: string,
  given: { readonly rails: readonly string[]; readonly note: string | null },
): Promise<{ readonly withdrawal: Withdrawal; readonly lease: Lease } | { readonly stands: Withdrawal } | Refusal> {
  return await transact(rooms.pool, async (tx) => {
    const locked = await lockWithdrawal(tx, id);
    // Another approval may have come to its end since this one looked.
    if (isApproved(locked)) return { stands: locked };
    const made = checkUndecided(locked, "approved");
    if (made !== null) return made;
    if (await isUnderWay(tx, approvalId(locked))) return underWay();
    const withdrawal = await beginApproval(tx, id, given);
    const operation_id = approvalId(withdrawal);
    const claimed = await claim(tx, {
      operation_id,
      account: withdrawal.account,
      mode: withdrawal.mode,
      route: ROUTE,
      kind: "approval",
      key: null,
      client_ref: null,
      // Nobody repeats an approval by a key: its number names it.
      fingerprint: Buffer.alloc(0),
      lease_ms: OUTGOING_LEASE_MS,
      takeover: false,
      decided: true,
    });
    if (!("claimed" in claimed)) throw new Error(`approval ${operation_id} was begun before`);
    return { withdrawal, lease: { operation_id, lease_no: claimed.lease_no } };
  });
}

/** From the intent on: the destination, the funds, the decision, the rail. */
async function approve(
  rooms: Withdrawing,
  withdrawal: Withdrawal,
  lease: Lease,
  request_id: string,
): Promise<Withdrawal | Refusal> {
  const caller = houseCaller(withdrawal.account, withdrawal.mode, request_id, withdrawal.id);
  const copied = await rooms.rails.copyDestination(caller, withdrawal.kept_as, withdrawal.id);
  if (isRefusal(copied)) throw new Error(`the settlement account of withdrawal ${withdrawal.id} is not kept`);
  const held = await rooms.withdrawal_ledger.reserve(withdrawal);
  if (held === "insufficient_funds") {
    await transact(rooms.pool, async (tx) => {
      await underClaim(tx, lease, "erase");
      await endApproval(tx, withdrawal.id);
    });
    return refuse("insufficient_funds", "the available balance does not cover the amount; it stays requested");
  }
  const approved = await transact(rooms.pool, async (tx) => {
    await underClaim(tx, lease, "decide");
    return await writeApproved(tx, withdrawal.id, TRY_AGAIN_MS);
  });
  if (approved === null) throw new Error(`withdrawal ${withdrawal.id} was decided under an approval's lease`);
  decided.inc({ decision: approved.status });
  return await send(rooms, approved, lease, request_id, false);
}

async function send(
  rooms: Withdrawing,
  withdrawal: Withdrawal,
  lease: Lease | null,
  request_id: string,
  give_up: boolean,
): Promise<Withdrawal> {
  // The fee took all of it: there is nothing to send.
  if (withdrawal.amount_minor === 0n) return await apply(rooms, withdrawal, ownWord("books", "settle"), lease);
  const answer = give_up
    ? await rooms.rails.withhold(withdrawal, request_id, "operator_unavailable")
    : await rooms.rails.send(withdrawal, request_id);
  return await take(rooms, withdrawal, answer, lease);
}

async function take(
  rooms: Withdrawing,
  withdrawal: Withdrawal,
  answer: OutgoingAnswer,
  lease: Lease | null,
): Promise<Withdrawal> {
  if (!("word" in answer)) {
    // Certainly nothing is at the rail: it stays `approved`, is tried again, and given up after ten minutes.
    await transact(rooms.pool, (tx) => underClaim(tx, lease, "tell"));
    return withdrawal;
  }
  const { word } = answer;
  if (newsFor(withdrawal, word) !== "mispay") return await apply(rooms, withdrawal, word, lease);
  // The money is noted first; it ends no run, for the withdrawal itself is still to be accepted.
  const noted = await apply(rooms, withdrawal, word, null);
  return await apply(rooms, noted, acceptedBy(word), lease);
}

function apply(
  rooms: Withdrawing,
  withdrawal: Withdrawal,
  word: OutgoingWord,
  lease: Lease | null,
): Promise<Withdrawal> {
  return withdrawalKind.applyWord(withdrawalRooms(rooms), withdrawal, word, lease);
}

function noSuch(): Refusal {
  return refuse("not_found", "no such withdrawal request");
}

function underWay(): Refusal {
  return refuse("concurrent_request", "an approval of this withdrawal request is under way", { retry_after_s: 1 });
}
