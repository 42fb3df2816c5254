// One batch, checked against what it says of itself and against the sums of all before it. Pure: the rows may come from the
// database or from an archived month's file.

import { type ChainRow, hashBatch } from "./chain.ts";
import { type Replay, type ReplayEntry, type ReplayHold, replayTransfer } from "./replay.ts";
import type { Mark } from "./verify-mark-store.ts";
import type { AccountRow, BatchRow, Counts, EntryRow, LaneRow, Recorded } from "./verify-store.ts";

/** More would tell nobody more; the first of each lane are the ones to look at. */
export const MAX_PROBLEMS = 100;

/** What the monitor watches by name. */
export const INVARIANTS = [
  /** Every batch's hash is that of what it recorded and of the batch before; nothing is missing, added or moved. */
  "chain",
  /** Every id recorded is taken, for the row that it names, and no other id is. */
  "ids",
  /** The balances kept with each transfer are those that the transfers make. */
  "entries",
  /** The balances of accounts as they are read are the sums of their transfers, and their rows say what their codes say. */
  "balances",
  /** Debits equal credits in each asset and book. */
  "debits_equal_credits",
  /** No account that may not be overdrawn is below zero. */
  "no_overdraft",
  /** The interplatform accounts of an asset and book add up to zero. */
  "interplatform_zero",
  /** The state of each hold is what its transfers made of it. */
  "holds",
] as const;
export type Invariant = (typeof INVARIANTS)[number];

export type Problem = { readonly invariant: Invariant; readonly sentence: string };
export type Report = {
  readonly problems: Problem[];
  /** `batch 3 of ast_xof/live`: where to look first. */
  first_bad_batch: string | null;
};

/** Where the reading of a lane stands; it lives on between transactions. */
export type LaneReading = {
  readonly lane: LaneRow;
  readonly where: string;
  readonly accounts: Map<number, AccountRow>;
  readonly replay: Replay;
  /** Null: from the beginning. */
  readonly from: Mark | null;
  readonly anchors: ReadonlyMap<bigint, Buffer>;
  readonly counts: Counts;
  /** The batch that moved each account last, as far as it was read. */
  readonly moved: Map<number, bigint>;
  previous: Buffer;
  sequence: bigint;
  recorded_at: string;
};

/** What a batch recorded; entries by the place of their transfer. */
export type BatchContent = {
  readonly transfers: readonly Recorded[];
  readonly refusals: readonly Recorded[];
  readonly entries: ReadonlyMap<number, readonly EntryRow[]>;
};

/** Checks one batch behind the one before, and returns the holds that it ended. */
export function verifyBatch(
  reading: LaneReading,
  batch: BatchRow,
  content: BatchContent,
  report: Report,
): ReplayHold[] {
  verifyChain(reading, batch, content, report);
  const { replay, counts, moved } = reading;
  const ended: ReplayHold[] = [];
  for (const row of content.transfers) {
    const booked = content.entries.get(row.position) ?? [];
    const replayed = { ...row, group_id: row.word };
    const outcome = replayTransfer(replay, replayed, Number(batch.recorded_us), booked.map(entryOf));
    for (const problem of outcome.problems) sayOfBatch(report, reading, batch.sequence, "entries", problem);
    if (outcome.ended !== null) ended.push(outcome.ended);
    if (row.fields.kind === "hold") counts.holds += 1n;
    counts.entries += BigInt(booked.length);
    for (const account_id of [row.fields.debit_id, row.fields.credit_id]) moved.set(account_id, batch.sequence);
  }
  reading.previous = batch.hash;
  reading.sequence = batch.sequence;
  reading.recorded_at = batch.recorded_at;
  return ended;
}

function verifyChain(reading: LaneReading, batch: BatchRow, rows: BatchContent, report: Report): void {
  const { lane, accounts, anchors, counts } = reading;
  const { transfers, refusals } = rows;
  const bad = (sentence: string) => sayOfBatch(report, reading, batch.sequence, "chain", sentence);
  counts.batches += 1n;
  counts.transfers += BigInt(transfers.length);
  counts.refusals += BigInt(refusals.length);
  if (batch.sequence !== reading.sequence + 1n) bad(`it follows batch ${reading.sequence}`);
  if (transfers.length !== batch.transfers) {
    bad(`it recorded ${batch.transfers} transfers, ${transfers.length} are there`);
  }
  for (const { id, taken } of [...transfers, ...refusals]) {
    if (!taken)
      sayOfBatch(report, reading, batch.sequence, "ids", `${id}: its id is not taken, a repeat would be booked again`);
  }
  if (refusals.length !== batch.refusals) bad(`it recorded ${batch.refusals} refusals, ${refusals.length} are there`);
  const hash = hashBatch(
    {
      ...{ previous: reading.previous, asset_id: lane.asset_id, book: lane.book, sequence: batch.sequence },
      ...{ recorded_us: Number(batch.recorded_us), transfers: transfers.map(lineOf), refusals: refusals.map(lineOf) },
    },
    (account_id) => accounts.get(account_id)?.code ?? `unknown:${account_id}`,
  );
  if (!hash.equals(batch.hash)) bad("its hash is not that of what it recorded");
  const anchor = anchors.get(batch.sequence);
  if (anchor !== undefined && !anchor.equals(batch.hash)) bad("its hash is not the one that was proved before");
}

function lineOf({ id, word, fields }: Recorded): ChainRow {
  return { id, word, fields };
}

function entryOf(row: EntryRow): ReplayEntry {
  return { account_id: Number(row.account_id), balances: row };
}

export function sayOfBatch(
  report: Report,
  { where }: LaneReading,
  sequence: bigint,
  invariant: Invariant,
  sentence: string,
): void {
  const batch = `batch ${sequence} of ${where}`;
  report.first_bad_batch ??= batch;
  say(report, invariant, `${batch}: ${sentence}`);
}

export function say({ problems }: Report, invariant: Invariant, sentence: string): void {
  if (problems.length < MAX_PROBLEMS) problems.push({ invariant, sentence });
}
