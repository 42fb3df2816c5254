// `cauri ledger verify`: recomputes the books from the transfers and tells every place where what is written differs. It
// reads lane by lane in transactions of bounded length and leaves marks, so that a verification cut off goes on where it was.

import { type Pool, type Queryable, transact } from "@cauri/store/pool";
import { readAnchorMarks, readRemoved } from "./archive-store.ts";
import { type LaneReading, type Problem, type Report, say } from "./verify-batch.ts";
import { advanceLane, closeLane, markOf, startLane } from "./verify-lane.ts";
import { appendAnchor, appendFindings, clearFindings, type Mark, readMarks, saveMark } from "./verify-mark-store.ts";
import {
  type Counts,
  type LaneRow,
  patiently,
  preferIndexes,
  readClock,
  readLane,
  readLanes,
  readSizes,
  summarizePast,
} from "./verify-store.ts";

/** Rows of one transaction: some seconds, so that no vacuum waits long for it and little is lost when it is cut off. */
const CHUNK_ROWS = 100_000;
/** One statement may read more than any request of a merchant would. */
const STATEMENT_S = 600;
const NOTHING: Counts = { transfers: 0n, entries: 0n, refusals: 0n, holds: 0n, batches: 0n };

export type Verification = {
  /** What was read now; a verification that goes on from a mark reads less than there is. */
  readonly transfers: bigint;
  readonly entries: bigint;
  readonly batches: bigint;
  readonly problems: readonly Problem[];
  readonly first_bad_batch: string | null;
  /** The heads that were proved, by lane: worth keeping outside of this database. */
  readonly heads: readonly { readonly lane: string; readonly sequence: bigint; readonly hash: string }[];
};

export type VerifyOptions = {
  /** Go on from the marks of the last verification, complete or cut off. */
  readonly resume?: boolean;
  /** Rows of one transaction, and rows read at a time. */
  readonly chunk_rows?: number;
  readonly stretch_rows?: number;
  /** Called after each transaction with its duration; what it throws cuts the verification off. */
  readonly onChunk?: (spent_ms: number) => void | Promise<void>;
};

/** Verifies every lane, and leaves marks and, where all is sound, anchors. */
export async function verify(pool: Pool, options: VerifyOptions = {}): Promise<Verification> {
  await summarizePast(pool);
  const begun = await readClock(pool);
  const starts = await readStarts(pool, options.resume === true);
  const report: Report = { problems: [], first_bad_batch: null };
  const readings: LaneReading[] = [];
  for (const lane of await readLanes(pool)) {
    readings.push(await verifyLane(pool, lane, starts.get(lane.lane_id) ?? null, report, options));
  }
  await inSnapshot(pool, (tx) => verifySizes(tx, readings, report));
  const proved = readings.filter(({ sequence }) => sequence > 0n);
  await transact(pool, async (tx) => {
    await appendFindings(tx, report.problems);
    if (report.problems.length > 0) return;
    for (const reading of proved) await appendAnchor(tx, reading.lane.lane_id, markOf(reading));
    // What the monitor shouted about is over only when everything was read anew and is sound.
    if (options.resume !== true) await clearFindings(tx, begun);
  });
  return resultOf(readings, report);
}

/** The same from the beginning and on a snapshot that the caller holds; it leaves nothing behind. */
export async function verifyBooks(tx: Queryable): Promise<Verification> {
  const report: Report = { problems: [], first_bad_batch: null };
  const readings: LaneReading[] = [];
  const starts = await readStarts(tx, false);
  for (const lane of await readLanes(tx)) {
    const reading = await startLane(tx, lane, starts.get(lane.lane_id) ?? null, report);
    await advanceLane(tx, reading, report, { most_rows: Number.POSITIVE_INFINITY });
    await closeLane(tx, reading, lane, report, true);
    readings.push(reading);
  }
  await verifySizes(tx, readings, report);
  return resultOf(readings, report);
}

/** Where each lane is begun: behind the months that were taken away, and where the last verification stopped if that is later. */
async function readStarts(tx: Queryable, resume: boolean): Promise<Map<number, Mark>> {
  const starts = await readAnchorMarks(tx);
  if (!resume) return starts;
  for (const [lane_id, mark] of await readMarks(tx, "full")) {
    if (mark.sequence > (starts.get(lane_id)?.sequence ?? 0n)) starts.set(lane_id, mark);
  }
  return starts;
}

/** One snapshot per chunk: the past is the same in all of them, and the last one compares the head. */
async function verifyLane(
  pool: Pool,
  lane: LaneRow,
  from: Mark | null,
  report: Report,
  { chunk_rows = CHUNK_ROWS, stretch_rows, onChunk }: VerifyOptions,
): Promise<LaneReading> {
  const stretch = stretch_rows === undefined ? {} : { stretch_rows };
  const reading = await inSnapshot(pool, (tx) => startLane(tx, lane, from, report));
  for (;;) {
    const begun = performance.now();
    const reached = await inSnapshot(pool, async (tx) => {
      // Past the head that stood at the beginning one transaction takes the rest, or it would run after new batches for ever.
      const most_rows = reading.sequence >= lane.sequence ? Number.POSITIVE_INFINITY : chunk_rows;
      const end = await advanceLane(tx, reading, report, { most_rows, ...stretch });
      if (end) await closeLane(tx, reading, await readLane(tx, lane.lane_id), report, true);
      return end;
    });
    // Never behind a problem: whoever goes on from a mark finds it again.
    if (report.problems.length === 0) {
      await transact(pool, (tx) => saveMark(tx, "full", lane.lane_id, markOf(reading)));
    }
    await onChunk?.(performance.now() - begun);
    if (reached) return reading;
  }
}

function inSnapshot<T>(pool: Pool, work: (tx: Queryable) => Promise<T>): Promise<T> {
  return patiently(pool, STATEMENT_S, async (tx) => {
    await preferIndexes(tx);
    return await work(tx);
  });
}

/**
 * Rows that no batch speaks of are in none of the stretches: only their number betrays them. Batches that came since a
 * lane's head was reached are taken at their word here; the next verification reads them.
 */
async function verifySizes(tx: Queryable, readings: readonly LaneReading[], report: Report): Promise<void> {
  const since = readings.map(({ lane, sequence, recorded_at }) => ({ lane_id: lane.lane_id, sequence, recorded_at }));
  const { there, later } = await readSizes(tx, since);
  const removed = { transfers: 0n, refusals: 0n, holds: 0n, ...(await readRemoved(tx)) };
  for (const name of ["transfers", "entries", "refusals", "batches", "holds"] as const) {
    const known = readings.reduce((sum, { counts }) => sum + counts[name], later[name] - removed[name]);
    if (there[name] === known) continue;
    say(report, "chain", `${name}: ${there[name]} rows are there, the batches account for ${known}`);
  }
  if (there.ids !== there.transfers + there.refusals) {
    const recorded = there.transfers + there.refusals;
    say(report, "ids", `${there.ids} ids are taken, ${recorded} transfers and refusals are there`);
  }
}

function resultOf(readings: readonly LaneReading[], { problems, first_bad_batch }: Report): Verification {
  const read = (name: keyof Counts) =>
    readings.reduce((sum, { counts, from }) => sum + counts[name] - (from?.counts ?? NOTHING)[name], 0n);
  const heads = readings.map(({ where, sequence, previous }) => ({
    ...{ lane: where, sequence, hash: previous.toString("hex") },
  }));
  return {
    ...{ transfers: read("transfers"), entries: read("entries"), batches: read("batches") },
    ...{ problems, first_bad_batch, heads },
  };
}
