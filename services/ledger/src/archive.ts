// Archiving a month that is over: write it to a file, prove the file, and only then take away what need not stay at hand.
// Answers are sentences for the operator: what was done, or why it was not.

import { createWriteStream } from "node:fs";
import { mkdir, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { isDeepStrictEqual } from "node:util";
import { createGzip } from "node:zlib";
import { type Pool, type Queryable, snapshot, transact } from "@cauri/store/pool";
import {
  accountLine,
  batchLine,
  type Checked,
  checkFile,
  endLine,
  headLine,
  holdLine,
  NoArchive,
} from "./archive-file.ts";
import {
  countEntries,
  insertArchive,
  type LaneMonth,
  readEarlierHolds,
  readLaneMonths,
  readMonth,
  readOpening,
  readReadersBehind,
  removeMonth,
} from "./archive-store.ts";
import type { BatchContent } from "./verify-batch.ts";
import { readContents } from "./verify-lane.ts";
import { type BatchRow, patiently, preferIndexes, readBatches, readRefusals, readTransfers } from "./verify-store.ts";

const BATCHES_AT_A_TIME = 500;
/** For reads of all accounts and of whole months, by an operator who waits. */
const NO_LIMIT_S = 0;

/** What became of it: a refusal changes nothing. */
export type Told = { readonly done: boolean; readonly sentence: string; readonly file?: string };

/** Writes the month to a file in `dir`, reads it again as `checkFile` does, and remembers its hash and anchors. */
export async function writeArchive(pool: Pool, month: string, dir: string): Promise<Told> {
  const state = await patiently(pool, NO_LIMIT_S, (tx) => readMonth(tx, month));
  if (!state.over) return refused(`${named(month)} is not over for a day yet`);
  if (state.removed) return refused(`${named(month)} was taken away: its file is all there is`);
  if (state.archived === null && state.first_open !== month) {
    return refused(
      state.first_open === null || state.first_open > month
        ? `nothing was recorded in ${named(month)}`
        : `${named(state.first_open)} is to be archived first`,
    );
  }
  await mkdir(dir, { recursive: true });
  const file = join(dir, `cauri-ledger-${named(month)}.jsonl.gz`);
  const part = `${file}.part`;
  try {
    const lanes = await patiently(pool, NO_LIMIT_S, (tx) => readLaneMonths(tx, month));
    await pipeline(linesOf(pool, month, lanes), createGzip(), createWriteStream(part, { mode: 0o600 }));
    const checked = await checkFile(part);
    const wrong = [...checked.problems.map(({ sentence }) => sentence), ...endsOf(checked, lanes)];
    wrong.push(...(await patiently(pool, NO_LIMIT_S, (tx) => surplusOf(tx, month, checked))));
    const before = state.closed_before;
    if (before !== null && !before.equals(checked.opening)) {
      wrong.push("the balances it begins with are not those with which the archive before it ended");
    }
    if (wrong.length > 0) return refused(`${named(month)} does not hold:\n${wrong.join("\n")}`);
    const known = state.archived;
    if (known !== null && !known.closing.equals(checked.closing)) {
      return refused(`${named(month)} was archived with other balances at its end`);
    }
    // A lost file may be written again: the same rows make the same file.
    if (known !== null && !known.sha256.equals(checked.sha256)) {
      return refused(`${named(month)} was archived as another file, ${known.sha256.toString("hex")}`);
    }
    await rename(part, file);
    if (known === null) await transact(pool, (tx) => insertArchive(tx, month, file, checked));
    return { done: true, sentence: `${file}: ${said(checked)}`, file };
  } finally {
    await rm(part, { force: true });
  }
}

/** Proves a file by itself and, with a pool, that the books still say the same about what they keep of its month. */
export async function checkArchive(file: string, pool: Pool | null): Promise<Told> {
  const checked = await checkFile(file, pool === null ? undefined : (...read) => compare(pool, ...read)).catch(
    asSentence,
  );
  if (typeof checked === "string") return refused(checked);
  const wrong = checked.problems.map(({ sentence }) => sentence);
  if (pool !== null) {
    const { archived } = await patiently(pool, NO_LIMIT_S, (tx) => readMonth(tx, `${checked.month}-01`));
    if (archived === null) wrong.push(`${checked.month} was never archived from these books`);
    else if (!archived.sha256.equals(checked.sha256)) {
      wrong.push(`it is not the file that was written: that one's SHA-256 is ${archived.sha256.toString("hex")}`);
    }
  }
  if (wrong.length > 0) return refused(`${file} does not hold:\n${wrong.join("\n")}`);
  return { done: true, sentence: `${file}: ${said(checked)}` };
}

async function compare(pool: Pool, lane: number, { sequence, recorded_at }: BatchRow, of: BatchContent) {
  const differ = (kind: string) => [`batch ${sequence}: its ${kind} in the books are not those of the file`];
  return await snapshot(pool, async (tx) => {
    await preferIndexes(tx);
    const stretch = { lane_id: lane, from: recorded_at, to: recorded_at };
    return [
      ...(isDeepStrictEqual(await readTransfers(tx, stretch), of.transfers) ? [] : differ("transfers")),
      ...(isDeepStrictEqual(await readRefusals(tx, stretch), of.refusals) ? [] : differ("refusals")),
    ];
  });
}

/** A file that is none is the operator's matter, anything else a fault. */
function asSentence(error: unknown): string {
  if (error instanceof NoArchive) return error.message;
  throw error;
}

/** Takes the month's entries, batches and movements away, after its file has been proved once more. Oldest month first. */
export async function removeArchived(pool: Pool, month: string, file: string): Promise<Told> {
  const state = await patiently(pool, NO_LIMIT_S, (tx) => readMonth(tx, month));
  if (state.archived === null) return refused(`${named(month)} is not archived: write it first`);
  if (state.removed) return refused(`${named(month)} was taken away before`);
  if (state.first_kept !== null && state.first_kept < month) {
    return refused(`${named(state.first_kept)} is to be taken away first`);
  }
  const behind = await readReadersBehind(pool, month);
  if (behind.length > 0) return refused(`${behind.join(", ")}: not through with ${named(month)} yet`);
  const checked = await checkArchive(file, pool);
  if (!checked.done) return checked;
  const { entries, batches } = await transact(pool, (tx) => removeMonth(tx, month));
  return {
    done: true,
    sentence: `${named(month)}: ${entries} entries and ${batches} batches are in ${file} alone now`,
  };
}

async function* linesOf(pool: Pool, month: string, lanes: readonly LaneMonth[]): AsyncGenerator<string> {
  yield headLine({ month: named(month), lanes: lanes.map(({ last: _, ...lane }) => lane) });
  for (const { lane_id } of lanes) {
    for (const account of await patiently(pool, NO_LIMIT_S, (tx) => readOpening(tx, lane_id, month)))
      yield accountLine(account);
  }
  let count = 0;
  for (const lane of lanes) {
    for (let sequence = BigInt(lane.sequence); sequence < lane.last; ) {
      const { batches, lines } = await stretchOf(pool, lane, sequence);
      for (const line of lines) yield line;
      count += batches;
      sequence += BigInt(batches);
    }
  }
  yield endLine(count);
}

/** A snapshot for each stretch and not for the month: the past is the same in all of them, and no vacuum waits for an export. */
async function stretchOf(pool: Pool, { lane_id, sequence: before, last }: LaneMonth, after: bigint) {
  return await patiently(pool, NO_LIMIT_S, async (tx) => {
    await preferIndexes(tx);
    const read = await readBatches(tx, lane_id, after, BATCHES_AT_A_TIME);
    const batches = read.filter(({ sequence }) => sequence <= last);
    const [first, end] = [batches[0], batches.at(-1)];
    if (first === undefined || end === undefined || end.sequence !== after + BigInt(batches.length)) {
      throw new Error(`batches of lane ${lane_id} are missing after ${after}: run ledger verify`);
    }
    const contents = await readContents(tx, { lane_id, from: first.recorded_at, to: end.recorded_at });
    const posted = new Set(contents.transfers.map(({ id }) => id));
    const named = contents.transfers.flatMap(({ fields }) => fields.hold_id ?? []).filter((id) => !posted.has(id));
    const holds = await readEarlierHolds(tx, lane_id, BigInt(before), named);
    const lines = [...holds.map(holdLine), ...batches.map((batch) => batchLine(lane_id, batch, contents.of(batch)))];
    return { batches: batches.length, lines };
  });
}

/** The file must end where the month ends in the books. */
function endsOf(checked: Checked, lanes: readonly LaneMonth[]): string[] {
  return lanes.flatMap(({ lane_id, last, asset_id, book }) => {
    const reading = checked.lanes.find(({ lane }) => lane.lane_id === lane_id);
    return reading?.sequence === last
      ? []
      : [`lane ${asset_id}/${book} ends at batch ${reading?.sequence}, not at ${last}`];
  });
}

/** An entry that belongs to no transfer is in no file, and would be gone with the month. */
async function surplusOf(tx: Queryable, month: string, { lanes }: Checked): Promise<string[]> {
  const entries = await countEntries(tx, month);
  const wanted = lanes.reduce((sum, { counts }) => sum + counts.entries, 0n);
  return entries === wanted ? [] : [`the books have ${entries} entries of ${named(month)}, its transfers ${wanted}`];
}

function said({ lanes, sha256, bytes }: Checked): string {
  const sum = (name: "transfers" | "entries" | "batches") =>
    lanes.reduce((total, { counts }) => total + counts[name], 0n);
  const heads = lanes.map(
    ({ where, sequence, previous }) => `  ${where}: batch ${sequence}, ${previous.toString("hex")}`,
  );
  return [
    `${sum("transfers")} transfers, ${sum("entries")} entries and ${sum("batches")} batches hold; ${bytes} bytes`,
    `  sha256 ${sha256.toString("hex")}`,
    ...heads,
  ].join("\n");
}

function named(month: string): string {
  return month.slice(0, 7);
}

function refused(sentence: string): Told {
  return { done: false, sentence };
}
