// What a batch writes, as one call of the database's function: its effects become arrays, integers in PostgreSQL's binary
// format, the others as its text literals. The function checks the lane's head; decided ahead, it checks all that the
// decision took for granted.

import { pgBigints, pgNumArray, pgTextArray } from "@cauri/store/arrays";
import type { Prepared } from "@cauri/store/pool";
import type { Balances, Hold, TransferFields } from "./books.ts";
import type { Effects } from "./decide.ts";

/** The batch before ours in the lane, as read under its lock or as we left it. */
export type LaneHead = { readonly sequence: bigint; readonly head: Buffer };

/** A decided batch, ready to be written. */
export type Append = {
  readonly lane_id: number;
  readonly previous: LaneHead;
  readonly after: LaneHead;
  readonly recorded_us: number;
  readonly effects: Effects;
  /** Of the accounts touched those that may not be overdrawn: a hold of theirs that is due comes first. */
  readonly guarded: readonly number[];
  /** Ids that the batch names and doesn't book: one that is known would change the answer. */
  readonly unbooked: readonly string[];
  /** Decided before the lane was locked. */
  readonly ahead: boolean;
};

export type Appended = { readonly clock_us: bigint };

/** A parameter: an array as text or binary, or none. */
type Value = string | Buffer | null;

const PARAMETERS = 45;
const places = Array.from({ length: PARAMETERS }, (_, index) => `$${index + 1}`).join(", ");

export const APPEND: Prepared = { name: "ledger_append", text: `select record_batch(${places}) as clock_us` };

export function appendValues(append: Append): unknown[] {
  const { lane_id, previous, after, recorded_us, effects, guarded, unbooked, ahead } = append;
  const { transfers, entries, refusals, new_holds, ended_holds, last_entries } = effects;
  return [
    ...[lane_id, previous.head, after.sequence, after.head, timeOf(recorded_us), ahead],
    ...fieldArrays(transfers),
    transfers.every(({ id, group_id }) => id === group_id) ? null : pgTextArray(transfers.map((one) => one.group_id)),
    pgBigints(entries.map((entry) => entry.account_id)),
    ...balanceArrays(entries.map((entry) => entry.after)),
    pgBigints(guarded),
    pgNumArray(placesOf(guarded, last_entries)),
    unbooked.length === 0 ? null : pgTextArray(unbooked),
    ...(refusals.length === 0
      ? absent(10)
      : [...fieldArrays(refusals), pgTextArray(refusals.map((refusal) => refusal.result))]),
    ...newHoldArrays(new_holds),
    ...endedHoldArrays(ended_holds),
  ];
}

/** Of those of the accounts that the batch moves; PostgreSQL counts places from 1. */
function placesOf(accounts: readonly number[], last_entries: ReadonlyMap<number, number>): number[] {
  const places: number[] = [];
  for (const account_id of accounts) {
    const place = last_entries.get(account_id);
    if (place !== undefined) places.push(place + 1);
  }
  return places;
}

function fieldArrays(rows: readonly { readonly id: string; readonly fields: TransferFields }[]): Value[] {
  return [
    pgTextArray(rows.map((row) => row.id)),
    rows.every((row) => row.fields.kind === "post") ? null : pgTextArray(rows.map((row) => row.fields.kind)),
    pgBigints(rows.map((row) => row.fields.debit_id)),
    pgBigints(rows.map((row) => row.fields.credit_id)),
    pgBigints(rows.map((row) => row.fields.amount)),
    sparse(rows, (row) => row.fields.hold_id),
    timeArray(rows, (row) => row.fields.expires_ms),
    timeArray(rows, (row) => row.fields.effective_ms),
    pgTextArray(rows.map((row) => row.fields.operation_id)),
  ];
}

function newHoldArrays(holds: readonly Hold[]): Value[] {
  if (holds.length === 0) return absent(8);
  return [
    pgTextArray(holds.map((hold) => hold.hold_id)),
    pgBigints(holds.map((hold) => hold.debit_id)),
    pgBigints(holds.map((hold) => hold.credit_id)),
    pgBigints(holds.map((hold) => hold.amount)),
    timeArray(holds, (hold) => hold.expires_ms),
    ...stateArrays(holds),
    pgTextArray(holds.map((hold) => hold.operation_id)),
  ];
}

function endedHoldArrays(holds: readonly Hold[]): Value[] {
  if (holds.length === 0) return absent(3);
  return [pgTextArray(holds.map((hold) => hold.hold_id)), ...stateArrays(holds)];
}

function stateArrays(holds: readonly Hold[]): Value[] {
  return [pgTextArray(holds.map((hold) => hold.state)), pgBigints(holds.map((hold) => hold.captured))];
}

function balanceArrays(balances: readonly Balances[]): Value[] {
  return [
    pgBigints(balances.map((one) => one.debits_pending)),
    pgBigints(balances.map((one) => one.debits_posted)),
    pgBigints(balances.map((one) => one.credits_pending)),
    pgBigints(balances.map((one) => one.credits_posted)),
  ];
}

function absent(count: number): null[] {
  return Array.from({ length: count }, () => null);
}

/** Null where no row has a value: then the column costs nothing to write down and to read. */
function sparse<T>(rows: readonly T[], value: (row: T) => string | null): string | null {
  return rows.some((row) => value(row) !== null) ? pgTextArray(rows.map(value)) : null;
}

function timeArray<T>(rows: readonly T[], value: (row: T) => number | null): string | null {
  return sparse(rows, (row) => {
    const ms = value(row);
    return ms === null ? null : new Date(ms).toISOString();
  });
}

/** Microseconds since 1970 as PostgreSQL reads them, exact to the last. */
function timeOf(us: number): string {
  const micros = String(us % 1_000_000).padStart(6, "0");
  return `${new Date(Math.floor(us / 1000)).toISOString().slice(0, 19)}.${micros}Z`;
}
