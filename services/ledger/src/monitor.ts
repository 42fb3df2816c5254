// The monitor: checks the invariants on what is new all the time and in full once a day, tells Prometheus and the log what
// it finds, and never stops the ledger by itself (docs/decisions/0046).

import { setTimeout as sleep } from "node:timers/promises";
import type { Log } from "@cauri/rpc/log";
import { type Pool, transact } from "@cauri/store/pool";
import { type Loop, startLoop } from "@cauri/store/sweeper";
import { tellBooks, tellFloats, tellLags, tellMonths } from "./monitor-numbers.ts";
import {
  beginVerification,
  endVerification,
  readBrokenSums,
  readLags,
  readLastSound,
  readShortFloats,
  type ShortFloat,
} from "./monitor-store.ts";
import { readMonthsAhead } from "./month-store.ts";
import { readClearing } from "./trial-store.ts";
import { verify } from "./verify.ts";
import { INVARIANTS, type Invariant, type Report } from "./verify-batch.ts";
import { advanceLane, closeLane, markOf, startLane } from "./verify-lane.ts";
import { appendFindings, type Finding, readFindings, readMarks, saveMark } from "./verify-mark-store.ts";
import { type LaneRow, patiently, preferIndexes, readLane, readLanes, summarizePast } from "./verify-store.ts";

/** New batches are checked within this time while the ledger is not under its heaviest load. */
const NEW_EVERY_MS = 10_000;
/** A round that catches up may take hours: how far behind it is, is told on the way. No usual round takes so long. */
const TELL_EVERY_MS = 20_000;
/** A float that is short is looked after within hours; to know it takes another look at all accounts. */
const FLOATS_EVERY_MS = 60_000;
/** For sums over all accounts: books in which nothing was carried for hours are checked as well. */
const SUMS_S = 60;
/** Asks whether the full check is due; one of all replicas does it. */
const FULL_EVERY_MS = 300_000;
/** Rows read at a time: at most some milliseconds between two chances of a caller's batch. */
const STRETCH_ROWS = 200;
const CHUNK_ROWS = 10_000;
/** Each loop rests this many times as long as it worked: it takes a quarter of a processor, however far behind it is. */
const REST = 3;
/** Listed and counted; far more than a house that looks at them ever has. */
const MOST_CLEARING = 200;
/** Three are made ahead, so one month without a new one is a service that may not, or can't, make them. */
const FEWEST_MONTHS_AHEAD = 2;

export type Monitor = {
  /** Sentences about what is broken now, for the detail of readiness. */
  notices(): readonly string[];
  stop(): Promise<void>;
};

export function startMonitor({ pool, log }: { pool: Pool; log: Log }): Monitor {
  let broken: readonly Finding[] = [];
  let late: readonly string[] = [];
  let short: readonly ShortFloat[] = [];
  let told_ms = performance.now();
  let floats_ms = Number.NEGATIVE_INFINITY;
  const stopped = new AbortController();
  const tellAll = async () => {
    told_ms = performance.now();
    tellLags(await readLags(pool));
    broken = await readFindings(pool);
    await tell(pool, broken);
    if (performance.now() - floats_ms < FLOATS_EVERY_MS) return;
    const floats = await patiently(pool, SUMS_S, readShortFloats);
    floats_ms = performance.now();
    tellFloats(floats);
    alarm(log, short, floats);
    short = floats;
  };
  const onChunk = async (found: readonly Finding[]) => {
    shout(log, found);
    if (found.length > 0 || performance.now() - told_ms > TELL_EVERY_MS) await tellAll();
  };
  const newBatches = async () => {
    // First, because it may be why the rest fails: what has not been carried for long makes whole lanes slow to read.
    tellLags(await readLags(pool));
    await checkNew(pool, stopped.signal, onChunk);
    await tellAll();
    const told = late;
    late = await checkMonths(pool);
    for (const sentence of late) if (!told.includes(sentence)) log.error({}, sentence);
  };
  const whole = async () => {
    // Cut off by the drain it is no fault: the next one goes on from the marks.
    await checkWhole(pool, log, stopped.signal).catch((error: unknown) => {
      if (!stopped.signal.aborted) throw error;
    });
  };
  const loops: Loop[] = [
    startLoop({ name: "monitor", every_ms: NEW_EVERY_MS, work: newBatches, log }),
    startLoop({ name: "full verification", every_ms: FULL_EVERY_MS, work: whole, log }),
  ];
  return {
    notices: () => [
      ...broken.map(({ invariant, sentence }) => `ledger invariant ${invariant} is broken: ${sentence}`),
      ...late,
    ],
    async stop() {
      stopped.abort();
      await Promise.all(loops.map((loop) => loop.stop()));
    },
  };
}

/** Keeps what a chunk found, before the mark moves past it: whoever dies in between has it found again. */
type Keep = (report: Pick<Report, "problems">) => Promise<void>;

/**
 * Checks what the lanes recorded since their marks; returns the findings that nobody had yet. `onChunk` hears those of each
 * chunk when they are kept.
 */
export async function checkNew(
  pool: Pool,
  signal?: AbortSignal,
  onChunk?: (found: readonly Finding[]) => Promise<void>,
): Promise<Finding[]> {
  await summarizePast(pool);
  const found: Finding[] = [];
  const keep: Keep = async ({ problems }) => {
    const fresh = await appendFindings(pool, problems);
    found.push(...fresh);
    await onChunk?.(fresh);
  };
  await keep({ problems: await patiently(pool, SUMS_S, readBrokenSums) });
  for (const lane of await readLanes(pool)) {
    while (signal?.aborted !== true) {
      const begun = performance.now();
      if (await checkLane(pool, lane, keep)) break;
      await rest(performance.now() - begun, signal);
    }
  }
  return found;
}

/** True when the head that stood when the round began was reached: what comes later is for the next round. */
async function checkLane(pool: Pool, { lane_id, sequence }: LaneRow, keep: Keep): Promise<boolean> {
  const mark = (await readMarks(pool, "monitor")).get(lane_id) ?? null;
  if (sequence <= (mark?.sequence ?? 0n)) return true;
  const report: Report = { problems: [], first_bad_batch: null };
  const reading = await patiently(pool, SUMS_S, async (tx) => {
    const lane = await readLane(tx, lane_id);
    await preferIndexes(tx);
    const reading = await startLane(tx, lane, mark, report);
    const at_head = await advanceLane(tx, reading, report, { most_rows: CHUNK_ROWS, stretch_rows: STRETCH_ROWS });
    if (at_head) await closeLane(tx, reading, lane, report, false);
    return reading;
  });
  await keep(report);
  // Also past a broken batch: what comes after it is checked as well.
  await transact(pool, (tx) => saveMark(tx, "monitor", lane_id, markOf(reading)));
  return reading.sequence >= sequence;
}

/** Once a day, by one of all replicas; returns false where it is not due. */
export async function checkWhole(pool: Pool, log: Log, signal?: AbortSignal): Promise<boolean> {
  const begun = await beginVerification(pool);
  if (begun === null) return false;
  const { verification_id, resume } = begun;
  const { transfers, problems, heads } = await verify(pool, {
    ...{ resume, chunk_rows: CHUNK_ROWS, stretch_rows: STRETCH_ROWS },
    onChunk: async (spent_ms) => {
      await rest(spent_ms, signal);
      // The row stays open, and the next one goes on from the marks.
      if (signal?.aborted === true) throw new Error("the full verification was cut off by the drain");
    },
  });
  await endVerification(pool, verification_id, transfers, problems.length);
  shout(log, problems);
  if (problems.length === 0) {
    // Outside of the database, where no one who could forge the books can change it.
    log.info(
      { transfers: String(transfers), heads: heads.map((head) => ({ ...head, sequence: String(head.sequence) })) },
      "the books hold",
    );
  }
  return true;
}

/** A sentence where the months ahead grow few: without a table for its month no transfer can be recorded. */
export async function checkMonths(pool: Pool): Promise<readonly string[]> {
  const ahead = await readMonthsAhead(pool);
  tellMonths(ahead);
  if (ahead >= FEWEST_MONTHS_AHEAD) return [];
  return [
    `the ledger has tables for ${ahead} months after this one: see the log of the loop "months", select open_months`,
  ];
}

function shout(log: Log, findings: readonly Finding[]): void {
  for (const { invariant, sentence } of findings) {
    log.error({ invariant, sentence }, `ledger invariant ${invariant} is broken: ${sentence}`);
  }
}

/** Once for each float, and again where it was enough in between. Test money is counted, and moves nobody. */
function alarm(log: Log, before: readonly ShortFloat[], now: readonly ShortFloat[]): void {
  const nameOf = ({ asset_id, platform_id }: ShortFloat) => `float:${platform_id} of ${asset_id}`;
  const live = (floats: readonly ShortFloat[]) => floats.filter(({ book }) => book === "live");
  const known = new Set(live(before).map(nameOf));
  for (const float of live(now)) {
    if (known.has(nameOf(float))) continue;
    const { asset_id, platform_id, held, owed } = float;
    const fields = { asset_id, platform_id, held_minor: String(held), owed_minor: String(owed) };
    log.error(fields, `alarm: ${nameOf(float)} holds ${held}, the merchants of its platform are owed ${owed}`);
  }
}

async function tell(pool: Pool, broken: readonly Finding[]): Promise<void> {
  const names = new Set(broken.map(({ invariant }) => invariant));
  const invariants = new Map<Invariant, boolean>(INVARIANTS.map((invariant) => [invariant, !names.has(invariant)]));
  const every = { asset_id: null, book: null };
  const clearing = await patiently(pool, SUMS_S, (tx) => readClearing(tx, every, MOST_CLEARING));
  tellBooks(invariants, clearing, await readLastSound(pool));
}

async function rest(worked_ms: number, signal: AbortSignal | undefined): Promise<void> {
  if (signal === undefined) return;
  await sleep(worked_ms * REST, undefined, { signal, ref: false }).catch(() => {});
}
