// The engine's judgement, pure: the part of the books that a batch touches goes in, answers and what is to be written
// come out. The caller holds the lane's lock from the reading of the state to the commit of the effects.

import { deriveUuid } from "@cauri/money/ids";
import {
  type Account,
  availableOf,
  type Balances,
  type GroupAnswer,
  type GroupOrder,
  type Hold,
  type HoldState,
  isRemembered,
  type Known,
  type Lane,
  MAX_BALANCE,
  type Remembered,
  type Result,
  type TransferAnswer,
  type TransferFields,
  type TransferOrder,
  type TransferState,
} from "./books.ts";

/** What was read under the lane's lock: everything that the groups name, as far as it exists. */
export type BookState = {
  /** Null when the lane was never opened: then no account is known either. */
  readonly lane: Lane | null;
  /** The time of this batch: strictly later than the batch before it in its lane. */
  readonly now_us: number;
  readonly accounts: readonly Account[];
  /** The holds named, and those of the lane that are due on an account that may not be overdrawn. */
  readonly holds: readonly Hold[];
  readonly known: ReadonlyMap<string, Known>;
};

export type Booked = { readonly id: string; readonly group_id: string; readonly fields: TransferFields };
export type Refused = { readonly id: string; readonly fields: TransferFields; readonly result: Remembered };
/** An account's balances before and after a transfer; `position` is the transfer's place in the batch. */
export type Entry = {
  readonly account_id: number;
  readonly position: number;
  readonly before: Balances;
  readonly after: Balances;
};

/** What the batch writes; nothing in any of the lists: there is nothing to commit. */
export type Effects = {
  readonly transfers: readonly Booked[];
  readonly entries: readonly Entry[];
  readonly refusals: readonly Refused[];
  readonly new_holds: readonly Hold[];
  readonly ended_holds: readonly Hold[];
  /** Of each account touched the place of its last entry: those are its balances after the batch. */
  readonly last_entries: ReadonlyMap<number, number>;
};

export type Decision = { readonly answers: readonly GroupAnswer[]; readonly effects: Effects };

type Working = {
  readonly state: BookState;
  readonly by_code: Map<string, Account>;
  readonly balances: Map<number, Balances>;
  readonly holds: Map<string, Hold>;
  readonly known: Map<string, Known>;
  readonly transfers: Booked[];
  readonly entries: Entry[];
  readonly hold_changes: { readonly hold_id: string; readonly before: Hold | undefined }[];
  readonly refusals: Refused[];
};

/** Judges the groups one after the other; each sees what those before it left. Due holds are expired before the first. */
export function decide(state: BookState, groups: readonly GroupOrder[]): Decision {
  const work = open(state);
  for (const hold of dueHolds(state)) expire(work, hold);
  const answers = groups.map((group) => decideGroup(work, group));
  return { answers, effects: effectsOf(work) };
}

/** Effects that leave the books as they are need no transaction at all. */
export function isEmpty(effects: Effects): boolean {
  return effects.transfers.length === 0 && effects.refusals.length === 0;
}

function open(state: BookState): Working {
  const by_code = new Map<string, Account>();
  const balances = new Map<number, Balances>();
  for (const account of state.accounts) {
    by_code.set(account.code, account);
    balances.set(account.account_id, account.balances);
  }
  return {
    ...{ state, by_code, balances },
    holds: new Map(state.holds.map((hold) => [hold.hold_id, hold])),
    known: new Map(state.known),
    transfers: [],
    entries: [],
    hold_changes: [],
    refusals: [],
  };
}

/** Only holds of this lane: another lane's are not locked, they are read for their names alone. */
function dueHolds(state: BookState): Hold[] {
  return state.holds
    .filter((hold) => hold.state === "held" && hold.lane.lane_id === state.lane?.lane_id && isDue(hold, state.now_us))
    .sort((a, b) => (a.expires_ms ?? 0) - (b.expires_ms ?? 0) || (a.hold_id < b.hold_id ? -1 : 1));
}

/** Funds are free exactly at the instant named, so that instant itself is already past the hold. */
function isDue(hold: Hold, now_us: number): boolean {
  return hold.expires_ms !== null && hold.expires_ms * 1000 <= now_us;
}

function expire(work: Working, hold: Hold): void {
  const id = deriveUuid(hold.hold_id, "expire");
  const fields: TransferFields = {
    lane_id: hold.lane.lane_id,
    kind: "expire",
    debit_id: hold.debit_id,
    credit_id: hold.credit_id,
    amount: hold.amount,
    hold_id: hold.hold_id,
    expires_ms: null,
    effective_ms: hold.expires_ms,
    operation_id: hold.operation_id,
  };
  setHold(work, { ...hold, state: "expired" });
  move(work, { id, group_id: id, fields }, -hold.amount, 0n);
  work.known.set(id, { fields, refused: null, recorded_us: work.state.now_us });
}

/**
 * Two passes. The first asks of every transfer what doesn't depend on a balance or a hold's state: is the id known, are
 * the accounts open. Only when nothing speaks against the group are its transfers applied, in order, up to the first
 * that is refused: what comes after that one would be judged by a sibling that doesn't stand, and must not be remembered.
 */
function decideGroup(work: Working, group: GroupOrder): GroupAnswer {
  const verdicts = group.transfers.map((order) => recognise(work, group, order));
  if (verdicts.every((verdict) => verdict === null || verdict === "exists")) applyAll(work, group, verdicts);
  const results = verdicts.map((verdict) => verdict ?? "group_refused");
  const accepted = results.every((result) => result === "ok" || result === "exists");
  const transfers = group.transfers.map((order, index) => answerOf(work, order.id, results[index] ?? "group_refused"));
  return { accepted, transfers };
}

/** What is certain without a balance; null: nothing speaks against it so far. */
function recognise(work: Working, group: GroupOrder, order: TransferOrder): Result | null {
  const hold = order.hold_id === null ? undefined : work.holds.get(order.hold_id);
  const known = work.known.get(order.id);
  if (known !== undefined) {
    if (!isSame(work, group, order, known.fields, hold)) return "exists_differently";
    return known.refused ?? "exists";
  }
  if (order.debit_code !== null && !work.by_code.has(order.debit_code)) return "account_unknown";
  if (order.credit_code !== null && !work.by_code.has(order.credit_code)) return "account_unknown";
  if (hold !== undefined && hold.lane.asset_id !== group.asset_id) return "asset_mismatch";
  if (hold !== undefined && hold.lane.book !== group.book) return "book_mismatch";
  return null;
}

function isSame(
  work: Working,
  group: GroupOrder,
  order: TransferOrder,
  fields: TransferFields,
  hold: Hold | undefined,
): boolean {
  const isCode = (code: string | null, account_id: number) =>
    code === null || work.by_code.get(code)?.account_id === account_id;
  // 0 stands for the whole hold, so naming the whole amount is the same order; a release names none. A hold that was
  // refused together with it does not stand in this lane: then the whole is what it was to be.
  const stands = hold?.lane.lane_id === fields.lane_id ? hold.amount : fields.amount;
  const amount = order.kind === "release" || order.amount === 0n ? stands : order.amount;
  return (
    fields.lane_id === work.state.lane?.lane_id &&
    fields.kind === order.kind &&
    fields.hold_id === order.hold_id &&
    fields.amount === amount &&
    fields.expires_ms === order.expires_ms &&
    fields.effective_ms === order.effective_ms &&
    fields.operation_id === group.operation_id &&
    isCode(order.debit_code, fields.debit_id) &&
    isCode(order.credit_code, fields.credit_id)
  );
}

/** Applies the new transfers of a group and writes the verdicts; takes everything back at the first refusal. */
function applyAll(work: Working, group: GroupOrder, verdicts: (Result | null)[]): void {
  const mark = { transfers: work.transfers.length, entries: work.entries.length, holds: work.hold_changes.length };
  const group_id = group.transfers.find((_, index) => verdicts[index] === null)?.id ?? "";
  for (const [index, order] of group.transfers.entries()) {
    if (verdicts[index] === "exists") continue;
    const { result, fields } = apply(work, group, order, group_id);
    if (result === "ok") continue;
    undo(work, mark);
    verdicts[index] = result;
    if (isRemembered(result) && fields !== null) remember(work, order.id, fields, result);
    return;
  }
  for (const { id, fields } of work.transfers.slice(mark.transfers)) {
    work.known.set(id, { fields, refused: null, recorded_us: work.state.now_us });
  }
  for (const [index, verdict] of verdicts.entries()) verdicts[index] = verdict ?? "ok";
}

type Applied = { readonly result: Result; readonly fields: TransferFields | null };

function apply(work: Working, group: GroupOrder, order: TransferOrder, group_id: string): Applied {
  return order.kind === "post" || order.kind === "hold"
    ? applyNew(work, group, order, group_id)
    : applyEnd(work, group, order, group_id);
}

function applyNew(work: Working, group: GroupOrder, order: TransferOrder, group_id: string): Applied {
  const lane = work.state.lane;
  const debit = work.by_code.get(order.debit_code ?? "");
  const credit = work.by_code.get(order.credit_code ?? "");
  if (lane === null || debit === undefined || credit === undefined) return { result: "account_unknown", fields: null };
  const fields = fieldsOf(lane, group, order, debit.account_id, credit.account_id, order.amount);
  const pending = order.kind === "hold" ? order.amount : 0n;
  const posted = order.kind === "hold" ? 0n : order.amount;
  const debit_after = debited(balancesOf(work, debit.account_id), pending, posted);
  const credit_after = credited(balancesOf(work, credit.account_id), pending, posted);
  const refused = judge(debit, debit_after, credit, credit_after);
  if (refused !== null) return { result: refused, fields };
  append(work, { id: order.id, group_id, fields }, debit_after, credit_after);
  if (order.kind === "post") return { result: "ok", fields };
  const { operation_id } = group;
  const { debit_id, credit_id, amount, expires_ms } = fields;
  const hold: Hold = {
    ...{ hold_id: order.id, lane, debit_id, credit_id, amount, expires_ms, operation_id },
    ...{ state: "held", captured: 0n },
  };
  setHold(work, hold);
  // A hold whose end has passed when it arrives is taken and freed at once: nobody after it finds funds set aside.
  if (isDue(hold, work.state.now_us)) expire(work, hold);
  return { result: "ok", fields };
}

function applyEnd(work: Working, group: GroupOrder, order: TransferOrder, group_id: string): Applied {
  const hold = work.holds.get(order.hold_id ?? "");
  if (hold === undefined || !namesAccountsOf(work, order, hold)) return { result: "hold_unknown", fields: null };
  const amount = order.amount === 0n ? hold.amount : order.amount;
  const fields = fieldsOf(hold.lane, group, order, hold.debit_id, hold.credit_id, amount);
  if (hold.state !== "held") return { result: `hold_already_${hold.state}`, fields };
  if (amount > hold.amount) return { result: "exceeds_hold", fields };
  const captured = order.kind === "capture" ? amount : 0n;
  setHold(work, { ...hold, state: order.kind === "capture" ? "captured" : "released", captured });
  move(work, { id: order.id, group_id, fields }, -hold.amount, captured);
  return { result: "ok", fields };
}

/** A code in a capture or release is a check of the caller's own: a hold between other accounts isn't the one meant. */
function namesAccountsOf(work: Working, order: TransferOrder, hold: Hold): boolean {
  const isCode = (code: string | null, account_id: number) =>
    code === null || work.by_code.get(code)?.account_id === account_id;
  return isCode(order.debit_code, hold.debit_id) && isCode(order.credit_code, hold.credit_id);
}

function fieldsOf(
  lane: Lane,
  group: GroupOrder,
  order: TransferOrder,
  debit_id: number,
  credit_id: number,
  amount: bigint,
): TransferFields {
  const { kind, hold_id, expires_ms, effective_ms } = order;
  const { operation_id } = group;
  return { lane_id: lane.lane_id, kind, debit_id, credit_id, amount, hold_id, expires_ms, effective_ms, operation_id };
}

/** Whether the two accounts can bear it. Ending a hold needs no such question: its funds and its room were set aside. */
function judge(
  debit: Account,
  debit_after: Balances,
  credit: Account,
  credit_after: Balances,
): "insufficient_funds" | "balance_overflow" | null {
  const overdrawn = isOverdrawn(debit, debit_after) || isOverdrawn(credit, credit_after);
  if (overdrawn) return "insufficient_funds";
  return overflows(debit_after) || overflows(credit_after) ? "balance_overflow" : null;
}

function isOverdrawn(account: Account, after: Balances): boolean {
  return account.no_overdraft && availableOf(account.normal_side, after) < 0n;
}

/** Pending counts too, so that what was once held can always be captured. */
function overflows({ debits_pending, debits_posted, credits_pending, credits_posted }: Balances): boolean {
  return debits_posted + debits_pending > MAX_BALANCE || credits_posted + credits_pending > MAX_BALANCE;
}

// Written out instead of spread: these are most of the objects that a batch makes.
function debited(balances: Balances, pending: bigint, posted: bigint): Balances {
  return {
    debits_pending: balances.debits_pending + pending,
    debits_posted: balances.debits_posted + posted,
    credits_pending: balances.credits_pending,
    credits_posted: balances.credits_posted,
  };
}

function credited(balances: Balances, pending: bigint, posted: bigint): Balances {
  return {
    debits_pending: balances.debits_pending,
    debits_posted: balances.debits_posted,
    credits_pending: balances.credits_pending + pending,
    credits_posted: balances.credits_posted + posted,
  };
}

/** Books a transfer that no balance can refuse: both sides change by the same pending and posted amounts. */
function move(work: Working, booked: Booked, pending: bigint, posted: bigint): void {
  const { debit_id, credit_id } = booked.fields;
  const debit_after = debited(balancesOf(work, debit_id), pending, posted);
  append(work, booked, debit_after, credited(balancesOf(work, credit_id), pending, posted));
}

function append(work: Working, booked: Booked, debit_after: Balances, credit_after: Balances): void {
  const position = work.transfers.push(booked) - 1;
  setBalances(work, booked.fields.debit_id, position, debit_after);
  setBalances(work, booked.fields.credit_id, position, credit_after);
}

function setBalances(work: Working, account_id: number, position: number, after: Balances): void {
  work.entries.push({ account_id, position, before: balancesOf(work, account_id), after });
  work.balances.set(account_id, after);
}

function balancesOf(work: Working, account_id: number): Balances {
  const balances = work.balances.get(account_id);
  if (balances === undefined) throw new Error(`bug: account ${account_id} was not read before its hold was ended`);
  return balances;
}

function setHold(work: Working, hold: Hold): void {
  work.hold_changes.push({ hold_id: hold.hold_id, before: work.holds.get(hold.hold_id) });
  work.holds.set(hold.hold_id, hold);
}

/** Takes back what a refused group had applied, latest first. */
function undo(work: Working, mark: { transfers: number; entries: number; holds: number }): void {
  for (const { id } of work.transfers.splice(mark.transfers)) work.known.delete(id);
  for (const entry of work.entries.splice(mark.entries).reverse()) work.balances.set(entry.account_id, entry.before);
  for (const { hold_id, before } of work.hold_changes.splice(mark.holds).reverse()) {
    if (before === undefined) work.holds.delete(hold_id);
    else work.holds.set(hold_id, before);
  }
}

function remember(work: Working, id: string, fields: TransferFields, result: Remembered): void {
  work.refusals.push({ id, fields, result });
  work.known.set(id, { fields, refused: result, recorded_us: work.state.now_us });
}

function answerOf(work: Working, id: string, result: Result): TransferAnswer {
  const known = result === "ok" || result === "exists" || isRemembered(result) ? work.known.get(id) : undefined;
  if (known === undefined) return { result, state: null, recorded_us: null };
  return { result, state: known.refused === null ? stateOf(work, id, known) : null, recorded_us: known.recorded_us };
}

const STATES: Readonly<Record<Exclude<TransferFields["kind"], "hold">, TransferState>> = {
  post: "posted",
  capture: "captured",
  release: "released",
  expire: "expired",
};

/** The present state: of a hold what became of it, of a capture or release what it made of its hold. */
function stateOf(work: Working, id: string, known: Known): TransferState {
  if (known.fields.kind !== "hold") return STATES[known.fields.kind];
  const hold = work.holds.get(id);
  if (hold === undefined) throw new Error(`bug: the hold ${id} was not read`);
  // Another lane's hold is never expired here, but whoever asks for it hears the truth.
  return isDue(hold, work.state.now_us) && hold.state === "held" ? "expired" : (hold.state satisfies HoldState);
}

function effectsOf(work: Working): Effects {
  const before = new Set(work.state.holds.map((hold) => hold.hold_id));
  const changed = [...new Set(work.hold_changes.map((change) => change.hold_id))].flatMap(
    (hold_id) => work.holds.get(hold_id) ?? [],
  );
  return {
    transfers: work.transfers,
    entries: work.entries,
    refusals: work.refusals,
    new_holds: changed.filter((hold) => !before.has(hold.hold_id)),
    ended_holds: changed.filter((hold) => before.has(hold.hold_id)),
    last_entries: new Map(work.entries.map((entry, place) => [entry.account_id, place])),
  };
}
