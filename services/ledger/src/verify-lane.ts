// One lane, read batch by batch: chain, entries, holds, and at its head the accounts. From the beginning everything is
// computed from the transfers alone; from a mark the sums that were proved up to it are where the replay goes on.

import { isDeepStrictEqual } from "node:util";
import type { Queryable } from "@cauri/store/pool";
import { availableOf, type Balances, ZERO } from "./books.ts";
import { GENESIS } from "./chain.ts";
import { chartOf } from "./chart.ts";
import { differenceOf, type ReplayHold, startReplay } from "./replay.ts";
import { type BatchContent, type LaneReading, type Report, say, sayOfBatch, verifyBatch } from "./verify-batch.ts";
import { type Mark, readAnchors, readBalancesAtMark, readHoldsAtMark, readWrongPending } from "./verify-mark-store.ts";
import {
  type AccountRow,
  type BatchRow,
  type HoldRow,
  type LaneRow,
  type Recorded,
  readBatches,
  readEntries,
  readExpiring,
  readHolds,
  readLaneAccounts,
  readRefusals,
  readTransfers,
  type Stretch,
} from "./verify-store.ts";

/** Rows of a stretch: a few megabytes at a time, and at most some tens of milliseconds before other work gets its turn. */
const STRETCH_ROWS = 5_000;
const STRETCH_BATCHES = 1_000;

export async function startLane(tx: Queryable, lane: LaneRow, from: Mark | null, report: Report): Promise<LaneReading> {
  const accounts = new Map<number, AccountRow>();
  const reading: LaneReading = {
    ...{ lane, accounts, from, where: `${lane.asset_id}/${lane.book}` },
    ...{ replay: startReplay(accounts), moved: new Map() },
    anchors: await readAnchors(tx, lane.lane_id),
    counts: { ...(from?.counts ?? { transfers: 0n, entries: 0n, refusals: 0n, holds: 0n, batches: 0n }) },
    previous: from?.hash ?? GENESIS,
    sequence: from?.sequence ?? 0n,
    recorded_at: from?.recorded_at ?? "-infinity",
  };
  if (from !== null && from.sequence > 0n) {
    const [batch] = await readBatches(tx, lane.lane_id, from.sequence - 1n, 1);
    if (batch?.sequence !== from.sequence || !batch.hash.equals(from.hash)) {
      sayOfBatch(report, reading, from.sequence, "chain", "it is no longer the batch that was verified before");
    }
  }
  return reading;
}

export function markOf({ sequence, previous, recorded_at, counts }: LaneReading): Mark {
  return { sequence, hash: previous, recorded_at, counts: { ...counts } };
}

/** Reads on, at most so many rows more or less; true when the head of the lane was reached. */
export async function advanceLane(
  tx: Queryable,
  reading: LaneReading,
  report: Report,
  { most_rows, stretch_rows = STRETCH_ROWS }: { readonly most_rows: number; readonly stretch_rows?: number },
): Promise<boolean> {
  // Accounts are opened at any time, also between two transactions of one verification.
  for (const account of await readLaneAccounts(tx, reading.lane.lane_id)) {
    reading.accounts.set(Number(account.account_id), account);
  }
  for (let rows = 0; rows < most_rows; ) {
    const read = await readBatches(tx, reading.lane.lane_id, reading.sequence, STRETCH_BATCHES);
    const batches = stretchOf(read, Math.min(stretch_rows, most_rows));
    if (batches.length === 0) return true;
    await verifyStretch(tx, batches, reading, report);
    rows += batches.reduce((sum, batch) => sum + batch.transfers + batch.refusals, batches.length);
  }
  return false;
}

/** At the head, in the same transaction that reached it. `whole`: all accounts and holds, not only those met on the way. */
export async function closeLane(
  tx: Queryable,
  reading: LaneReading,
  head: LaneRow,
  report: Report,
  whole: boolean,
): Promise<void> {
  const { where, sequence, previous } = reading;
  if (head.sequence !== sequence) {
    say(report, "chain", `lane ${where}: it counts ${head.sequence} batches, ${sequence} are there`);
  }
  if (!head.head.equals(previous)) {
    say(report, "chain", `lane ${where}: its head is not the hash of its last batch`);
  }
  if (whole) await loadBalances(tx, reading, [...reading.accounts.keys()]);
  verifyAccounts(reading, report, whole);
  if (reading.from === null) await verifyOpenHolds(tx, reading, report);
  else if (whole) {
    for (const code of await readWrongPending(tx, reading.lane.lane_id)) {
      say(report, "holds", `account ${code} of ${where}: what is set aside is not the sum of the holds that stand`);
    }
  }
}

/** As many of the batches as a stretch may hold, at least one. */
function stretchOf(batches: readonly BatchRow[], most_rows: number): BatchRow[] {
  let rows = 0;
  const end = batches.findIndex((batch) => {
    rows += batch.transfers + batch.refusals;
    return rows > most_rows;
  });
  return batches.slice(0, end < 0 ? batches.length : Math.max(end, 1));
}

async function verifyStretch(
  tx: Queryable,
  batches: readonly BatchRow[],
  reading: LaneReading,
  report: Report,
): Promise<void> {
  const { lane } = reading;
  const stretch = { lane_id: lane.lane_id, from: batches[0]?.recorded_at ?? "", to: batches.at(-1)?.recorded_at ?? "" };
  const contents = await readContents(tx, stretch);
  await loadMissing(tx, reading, contents.transfers);
  const ended = batches.flatMap((batch) => verifyBatch(reading, batch, contents.of(batch), report));
  await verifyHolds(tx, ended, reading, report);
}

/** All that a stretch of batches recorded. */
export async function readContents(tx: Queryable, stretch: Stretch) {
  const [transfers, refusals, entries] = await Promise.all([
    readTransfers(tx, stretch),
    readRefusals(tx, stretch),
    readEntries(tx, stretch),
  ]);
  const transfersOf = Map.groupBy(transfers, (row) => row.sequence);
  const refusalsOf = Map.groupBy(refusals, (row) => row.sequence);
  const entriesAt = Map.groupBy(entries, (row) => row.recorded_us);
  const of = ({ sequence, recorded_us }: BatchRow): BatchContent => ({
    transfers: transfersOf.get(sequence) ?? [],
    refusals: refusalsOf.get(sequence) ?? [],
    entries: Map.groupBy(entriesAt.get(recorded_us) ?? [], (row) => row.position),
  });
  return { transfers, of };
}

/** From a mark: the balances and holds that the transfers of a stretch meet first, as they were proved up to the mark. */
async function loadMissing(tx: Queryable, reading: LaneReading, transfers: readonly Recorded[]): Promise<void> {
  const { from, replay, lane } = reading;
  if (from === null) return;
  const touched = transfers.flatMap(({ fields }) => [fields.debit_id, fields.credit_id]);
  await loadBalances(tx, reading, touched);
  const ended = transfers.flatMap(({ fields }) => fields.hold_id ?? []).filter((id) => !replay.open.has(id));
  if (ended.length === 0) return;
  for (const hold of await readHoldsAtMark(tx, lane.lane_id, from, ended)) replay.open.set(hold.id, hold);
}

async function loadBalances(tx: Queryable, { from, replay }: LaneReading, ids: readonly number[]): Promise<void> {
  const missing = [...new Set(ids)].filter((id) => !replay.balances.has(id));
  if (from === null || missing.length === 0) return;
  for (const [id, balances] of await readBalancesAtMark(tx, from, missing)) replay.balances.set(id, balances);
}

/** The accounts' balances as they are read against the sums, and the invariants of the lane. */
function verifyAccounts({ accounts, replay, where, moved }: LaneReading, report: Report, whole: boolean): void {
  let [posted, pending, interplatform] = [0n, 0n, 0n];
  for (const account of accounts.values()) {
    const computed: Balances | undefined = replay.balances.get(Number(account.account_id));
    const difference = computed === undefined && !whole ? null : differenceOf(account, computed ?? ZERO);
    const name = `account ${account.code} of ${where}`;
    if (difference !== null) {
      const last = moved.get(Number(account.account_id));
      const batch = last === undefined ? null : `batch ${last} of ${where}`;
      report.first_bad_batch ??= batch;
      say(report, "balances", `${name}: it says ${difference}${batch === null ? "" : `; ${batch} moved it last`}`);
    }
    if (!isOfChart(account)) say(report, "balances", `${name}: its row is not what its code says`);
    if (account.no_overdraft && availableOf(account.normal_side, account) < 0n) {
      say(report, "no_overdraft", `${name}: it is below zero`);
    }
    posted += account.debits_posted - account.credits_posted;
    pending += account.debits_pending - account.credits_pending;
    if (account.code.startsWith("interplatform:")) interplatform += account.credits_posted - account.debits_posted;
  }
  if (posted !== 0n) {
    say(report, "debits_equal_credits", `lane ${where}: posted debits exceed credits by ${posted}`);
  }
  if (pending !== 0n) {
    say(report, "debits_equal_credits", `lane ${where}: pending debits exceed credits by ${pending}`);
  }
  if (interplatform !== 0n) {
    const sentence = `lane ${where}: the interplatform accounts add up to ${interplatform}, not zero`;
    say(report, "interplatform_zero", sentence);
  }
}

/** Whose money it is, and whether it may be overdrawn, is said by the code, which alone is in the chain. */
function isOfChart({ code, owner, platform_id, normal_side, no_overdraft }: AccountRow): boolean {
  return isDeepStrictEqual(chartOf(code), { normal_side, no_overdraft, owner, platform_id });
}

async function verifyOpenHolds(tx: Queryable, reading: LaneReading, report: Report): Promise<void> {
  const { lane, replay, where } = reading;
  const open = [...replay.open.values()];
  for (let start = 0; start < open.length; start += STRETCH_ROWS) {
    await verifyHolds(tx, open.slice(start, start + STRETCH_ROWS), reading, report);
  }
  const expiring = await readExpiring(tx, lane.lane_id);
  const wanted = open.filter((hold) => hold.fields.expires_ms !== null).length;
  const right = expiring.filter((row) => replay.open.get(row.hold_id)?.fields.expires_ms === Number(row.expires_ms));
  if (expiring.length === wanted && right.length === wanted) return;
  const kept = `${right.length} of the ${expiring.length} kept for it are these`;
  say(report, "holds", `lane ${where}: ${wanted} open holds expire, ${kept}`);
}

/** A hold's row may be ahead of the stretch: it tells what became of the hold up to the head, so only ends are compared. */
async function verifyHolds(
  tx: Queryable,
  holds: readonly ReplayHold[],
  { lane }: LaneReading,
  report: Report,
): Promise<void> {
  if (holds.length === 0) return;
  const ids = holds.map((hold) => hold.id);
  const rows = new Map((await readHolds(tx, lane.lane_id, ids)).map((row) => [row.hold_id, row]));
  for (const hold of holds) {
    const row = rows.get(hold.id);
    if (row === undefined) say(report, "holds", `hold ${hold.id}: its row is missing`);
    else if (!isSameHold(hold, row)) {
      say(report, "holds", `hold ${hold.id}: it says ${row.state}, the transfers say ${hold.state}`);
    }
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
