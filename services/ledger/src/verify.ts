// `cauri ledger verify`: recomputes the books from the transfers, on one snapshot, and tells every place where what is
// written differs: chain, entries, balances, holds, invariants. It streams batch by batch and never writes.

import { isDeepStrictEqual } from "node:util";
import { type Pool, type Queryable, snapshot } from "@cauri/store/pool";
import { availableOf, type Balances, ZERO } from "./books.ts";
import { type ChainRow, GENESIS, hashBatch } from "./chain.ts";
import { chartOf } from "./chart.ts";
import { differenceOf, type Replay, type ReplayEntry, type ReplayHold, replayTransfer, startReplay } from "./replay.ts";
import {
  type AccountRow,
  type BatchRow,
  type EntryRow,
  type HoldRow,
  type LaneRow,
  type Recorded,
  readBatches,
  readEntries,
  readExpiring,
  readHolds,
  readLaneAccounts,
  readLanes,
  readRefusals,
  readSizes,
  readTransfers,
} from "./verify-store.ts";

/** Rows of a stretch: a few megabytes at a time. */
const STRETCH_ROWS = 10_000;
const STRETCH_BATCHES = 2_000;
/** More would tell nobody more; the first of each lane are the ones to look at. */
const MAX_PROBLEMS = 100;

export type Verification = {
  readonly transfers: bigint;
  readonly entries: bigint;
  readonly batches: bigint;
  readonly problems: string[];
};

type Seen = { transfers: bigint; entries: bigint; refusals: bigint; batches: bigint; holds: bigint };
type Report = { readonly seen: Seen; readonly problems: string[] };

export async function verify(pool: Pool): Promise<Verification> {
  return await snapshot(pool, async (tx) => {
    // One statement may read more than any request of a merchant would.
    await tx.query("set local statement_timeout = '10min'");
    return await verifyBooks(tx);
  });
}

/** The same on a snapshot that the caller holds. */
export async function verifyBooks(tx: Queryable): Promise<Verification> {
  const report: Report = { seen: { transfers: 0n, entries: 0n, refusals: 0n, batches: 0n, holds: 0n }, problems: [] };
  for (const lane of await readLanes(tx)) await verifyLane(tx, lane, report);
  await verifySizes(tx, report);
  const { transfers, entries, batches } = report.seen;
  return { transfers, entries, batches, problems: report.problems };
}

async function verifyLane(tx: Queryable, lane: LaneRow, report: Report): Promise<void> {
  const where = `${lane.asset_id}/${lane.book}`;
  const accounts = await readLaneAccounts(tx, lane.lane_id);
  const replay = startReplay(new Map(accounts.map((account) => [Number(account.account_id), account])));
  let previous: Buffer = GENESIS;
  let sequence = 0n;
  for (;;) {
    const batches = stretchOf(await readBatches(tx, lane.lane_id, sequence, STRETCH_BATCHES));
    const last = batches.at(-1);
    if (last === undefined) break;
    previous = await verifyStretch(tx, lane, batches, { replay, report, previous, sequence });
    sequence = last.sequence;
  }
  if (lane.sequence !== sequence)
    say(report, `lane ${where}: it counts ${lane.sequence} batches, ${sequence} are there`);
  if (!lane.head.equals(previous)) say(report, `lane ${where}: its head is not the hash of its last batch`);
  verifyAccounts(where, accounts, replay, report);
  await verifyOpenHolds(tx, lane, replay, report);
}

/** As many of the batches as a stretch may hold, at least one. */
function stretchOf(batches: readonly BatchRow[]): BatchRow[] {
  let rows = 0;
  const end = batches.findIndex((batch) => {
    rows += batch.transfers + batch.refusals;
    return rows > STRETCH_ROWS;
  });
  return batches.slice(0, end < 0 ? batches.length : Math.max(end, 1));
}

type Progress = {
  readonly replay: Replay;
  readonly report: Report;
  readonly previous: Buffer;
  readonly sequence: bigint;
};

async function verifyStretch(
  tx: Queryable,
  lane: LaneRow,
  batches: readonly BatchRow[],
  progress: Progress,
): Promise<Buffer> {
  const { replay, report } = progress;
  const stretch = { lane_id: lane.lane_id, from: batches[0]?.recorded_at ?? "", to: batches.at(-1)?.recorded_at ?? "" };
  const [transferRows, refusalRows, entryRows] = await Promise.all([
    readTransfers(tx, stretch),
    readRefusals(tx, stretch),
    readEntries(tx, stretch),
  ]);
  const transfers = Map.groupBy(transferRows, (row) => row.sequence);
  const refusals = Map.groupBy(refusalRows, (row) => row.sequence);
  const entries = Map.groupBy(entryRows, (row) => `${row.recorded_us}/${row.position}`);
  const ended: ReplayHold[] = [];
  let { previous, sequence } = progress;
  for (const batch of batches) {
    const name = `batch ${batch.sequence} of ${lane.asset_id}/${lane.book}`;
    if (batch.sequence !== sequence + 1n) say(report, `${name}: it follows batch ${sequence}`);
    sequence = batch.sequence;
    const ours = { transfers: transfers.get(sequence) ?? [], refusals: refusals.get(sequence) ?? [] };
    verifyBatch(lane, batch, ours, { replay, report, previous, name });
    for (const row of ours.transfers) {
      const booked = (entries.get(`${row.recorded_us}/${row.position}`) ?? []).filter((e) => e.transfer_id === row.id);
      const replayed = { ...row, group_id: row.word };
      const outcome = replayTransfer(replay, replayed, Number(batch.recorded_us), booked.map(entryOf));
      for (const problem of outcome.problems) say(report, `${name}: ${problem}`);
      if (outcome.ended !== null) ended.push(outcome.ended);
      if (row.fields.kind === "hold") report.seen.holds += 1n;
      report.seen.entries += BigInt(booked.length);
    }
    previous = batch.hash;
  }
  await verifyHolds(tx, ended, report);
  return previous;
}

function verifyBatch(
  lane: LaneRow,
  batch: BatchRow,
  rows: { readonly transfers: readonly Recorded[]; readonly refusals: readonly Recorded[] },
  context: { readonly replay: Replay; readonly report: Report; readonly previous: Buffer; readonly name: string },
): void {
  const { replay, report, previous, name } = context;
  const { transfers, refusals } = rows;
  report.seen.batches += 1n;
  report.seen.transfers += BigInt(transfers.length);
  report.seen.refusals += BigInt(refusals.length);
  if (transfers.length !== batch.transfers) {
    say(report, `${name}: it recorded ${batch.transfers} transfers, ${transfers.length} are there`);
  }
  if (refusals.length !== batch.refusals) {
    say(report, `${name}: it recorded ${batch.refusals} refusals, ${refusals.length} are there`);
  }
  const hash = hashBatch(
    {
      ...{ previous, asset_id: lane.asset_id, book: lane.book, sequence: batch.sequence },
      ...{ recorded_us: Number(batch.recorded_us), transfers: transfers.map(lineOf), refusals: refusals.map(lineOf) },
    },
    (account_id) => replay.accounts.get(account_id)?.code ?? `unknown:${account_id}`,
  );
  if (!hash.equals(batch.hash)) say(report, `${name}: its hash is not that of what it recorded`);
}

function lineOf({ id, word, fields }: Recorded): ChainRow {
  return { id, word, fields };
}

function entryOf(row: EntryRow): ReplayEntry {
  return { transfer_id: row.transfer_id, account_id: Number(row.account_id), balances: row };
}

/** The accounts' rows against the sums, and the invariants of the lane. */
function verifyAccounts(where: string, accounts: readonly AccountRow[], replay: Replay, report: Report): void {
  let [posted, pending, interplatform] = [0n, 0n, 0n];
  for (const account of accounts) {
    const computed: Balances = replay.balances.get(Number(account.account_id)) ?? ZERO;
    const difference = differenceOf(account, computed);
    if (difference !== null) say(report, `account ${account.code} of ${where}: it says ${difference}`);
    if (!isOfChart(account)) say(report, `account ${account.code} of ${where}: its row is not what its code says`);
    if (account.no_overdraft && availableOf(account.normal_side, account) < 0n) {
      say(report, `account ${account.code} of ${where}: it is below zero`);
    }
    posted += account.debits_posted - account.credits_posted;
    pending += account.debits_pending - account.credits_pending;
    if (account.code.startsWith("interplatform:")) interplatform += account.credits_posted - account.debits_posted;
  }
  if (posted !== 0n) say(report, `lane ${where}: posted debits exceed credits by ${posted}`);
  if (pending !== 0n) say(report, `lane ${where}: pending debits exceed credits by ${pending}`);
  if (interplatform !== 0n)
    say(report, `lane ${where}: the interplatform accounts add up to ${interplatform}, not zero`);
}

/** Whose money it is, and whether it may be overdrawn, is said by the code, which alone is in the chain. */
function isOfChart({ code, owner, platform_id, normal_side, no_overdraft }: AccountRow): boolean {
  return isDeepStrictEqual(chartOf(code), { normal_side, no_overdraft, owner, platform_id });
}

async function verifyOpenHolds(tx: Queryable, lane: LaneRow, replay: Replay, report: Report): Promise<void> {
  const open = [...replay.open.values()];
  for (let start = 0; start < open.length; start += STRETCH_ROWS) {
    await verifyHolds(tx, open.slice(start, start + STRETCH_ROWS), report);
  }
  const expiring = await readExpiring(tx, lane.lane_id);
  const wanted = open.filter((hold) => hold.fields.expires_ms !== null).length;
  const right = expiring.filter((row) => replay.open.get(row.hold_id)?.fields.expires_ms === Number(row.expires_ms));
  if (expiring.length !== wanted || right.length !== wanted) {
    const where = `lane ${lane.asset_id}/${lane.book}`;
    say(
      report,
      `${where}: ${wanted} open holds expire, ${right.length} of the ${expiring.length} kept for it are these`,
    );
  }
}

async function verifyHolds(tx: Queryable, holds: readonly ReplayHold[], report: Report): Promise<void> {
  if (holds.length === 0) return;
  const rows = new Map(
    (
      await readHolds(
        tx,
        holds.map((hold) => hold.id),
      )
    ).map((row) => [row.hold_id, row]),
  );
  for (const hold of holds) {
    const row = rows.get(hold.id);
    if (row === undefined) say(report, `hold ${hold.id}: its row is missing`);
    else if (!isSameHold(hold, row))
      say(report, `hold ${hold.id}: it says ${row.state}, the transfers say ${hold.state}`);
  }
}

function isSameHold({ fields, state, captured }: ReplayHold, row: HoldRow): boolean {
  return (
    row.state === state &&
    row.captured === captured &&
    row.amount === fields.amount &&
    Number(row.debit_id) === fields.debit_id &&
    Number(row.credit_id) === fields.credit_id &&
    (row.expires_ms === null ? null : Number(row.expires_ms)) === fields.expires_ms
  );
}

/** Rows that no batch speaks of are in none of the stretches: only their number betrays them. */
async function verifySizes(tx: Queryable, { seen, problems }: Report): Promise<void> {
  const sizes = await readSizes(tx);
  for (const name of ["transfers", "entries", "refusals", "batches", "holds"] as const) {
    if (sizes[name] === seen[name]) continue;
    say({ seen, problems }, `${name}: ${sizes[name]} rows are there, the batches account for ${seen[name]}`);
  }
}

function say({ problems }: Report, sentence: string): void {
  if (problems.length < MAX_PROBLEMS) problems.push(sentence);
}
