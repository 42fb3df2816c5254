// The file of an archived month: gzipped lines of JSON from which everything that the month recorded can be read and proved
// again without any database. First a head, then the balances with which the month began, then each batch with all that it
// recorded, after the holds that it ends and that were posted earlier; at last the counts.

import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { createInterface } from "node:readline";
import { Transform } from "node:stream";
import { createGunzip } from "node:zlib";
import type { Balances, Book, TransferFields } from "./books.ts";
import { chartOf } from "./chart.ts";
import { type ReplayHold, startReplay } from "./replay.ts";
import { type BatchContent, type LaneReading, type Problem, type Report, say, verifyBatch } from "./verify-batch.ts";
import type { BatchRow, Counts, EntryRow, Recorded } from "./verify-store.ts";

const FORMAT = "cauri-ledger-month/1";

/** The file is no archive, or is damaged so that it cannot be read to its end. */
export class NoArchive extends Error {
  override readonly name = "NoArchive";
}

/** Where a lane stood when the month began. */
export type FileLane = {
  readonly lane_id: number;
  readonly asset_id: string;
  readonly book: Book;
  readonly sequence: string;
  readonly hash: string;
};
export type FileHead = { readonly month: string; readonly lanes: readonly FileLane[] };
export type FileAccount = Balances & { readonly account_id: bigint; readonly code: string; readonly lane_id: number };

type Plain = string | number | null;
type Line =
  | { readonly head: FileHead & { readonly format: string } }
  | { readonly account: readonly Plain[] }
  | { readonly hold: readonly Plain[] }
  | {
      readonly batch: readonly Plain[];
      readonly transfers: readonly (readonly Plain[])[];
      readonly refusals: readonly (readonly Plain[])[];
      readonly entries: readonly (readonly Plain[])[];
    }
  | { readonly end: { readonly batches: number } };

export function headLine({ month, lanes }: FileHead): string {
  return lineOf({ head: { format: FORMAT, month, lanes } });
}

export function accountLine({ lane_id, account_id, code, ...balances }: FileAccount): string {
  return lineOf({ account: [lane_id, Number(account_id), code, ...sumsOf(balances)] });
}

export function holdLine({ id, fields }: Pick<ReplayHold, "id" | "fields">): string {
  return lineOf({ hold: [id, ...plainOf(fields)] });
}

export function batchLine(lane_id: number, batch: BatchRow, content: BatchContent): string {
  const { sequence, recorded_at, recorded_us, hash } = batch;
  const entries = [...content.entries.values()]
    .flat()
    .sort((a, b) => a.position - b.position || Number(a.account_id - b.account_id));
  return lineOf({
    batch: [
      lane_id,
      String(sequence),
      recorded_at,
      String(recorded_us),
      batch.transfers,
      batch.refusals,
      hash.toString("hex"),
    ],
    transfers: content.transfers.map(recordedLine),
    refusals: content.refusals.map(recordedLine),
    entries: entries.map((entry) => [entry.position, Number(entry.account_id), ...sumsOf(entry)]),
  });
}

export function endLine(batches: number): string {
  return lineOf({ end: { batches } });
}

/** What a file says, and whether it holds. */
export type Checked = {
  readonly month: string;
  readonly sha256: Buffer;
  readonly bytes: number;
  /** Digests of the balances with which the month began and ended. */
  readonly opening: Buffer;
  readonly closing: Buffer;
  readonly lanes: readonly LaneReading[];
  readonly before: readonly FileLane[];
  readonly problems: readonly Problem[];
  readonly first_bad_batch: string | null;
};

/** What a caller may compare with, batch by batch; sentences about what differs. */
export type Compare = (lane_id: number, batch: BatchRow, content: BatchContent) => Promise<readonly string[]>;

/** Reads the whole file and proves it: hash by hash, entry by entry, from the balances at its head. Throws NoArchive where it is none. */
export async function checkFile(path: string, compare?: Compare): Promise<Checked> {
  const report: Report = { problems: [], first_bad_batch: null };
  const digest = createHash("sha256");
  let bytes = 0;
  const onBytes = (chunk: Buffer) => {
    digest.update(chunk);
    bytes += chunk.length;
  };
  const lanes = new Map<number, LaneReading>();
  let head: FileHead | null = null;
  let opening: Buffer | null = null;
  let batches = 0;
  let ended = false;
  for await (const line of readLines(path, onBytes)) {
    if (ended) throw new NoArchive(`${path} goes on after its end`);
    if ("head" in line) {
      if (line.head.format !== FORMAT)
        throw new NoArchive(`${path} is of the format ${line.head.format}, not ${FORMAT}`);
      head = line.head;
      for (const lane of head.lanes) lanes.set(lane.lane_id, startReading(lane));
    } else if ("account" in line) addAccount(lanes, line.account);
    else if ("hold" in line) addHold(lanes, line.hold);
    else if ("batch" in line) {
      opening ??= digestOf(lanes.values());
      const { lane_id, batch, content } = readBatch(line);
      verifyBatch(laneOf(lanes, lane_id), batch, content, report);
      if (compare !== undefined) for (const told of await compare(lane_id, batch, content)) say(report, "chain", told);
      batches += 1;
    } else {
      ended = true;
      if (line.end.batches !== batches)
        say(report, "chain", `${batches} batches are there, the end counts ${line.end.batches}`);
    }
  }
  if (head === null || !ended) throw new NoArchive(`${path} has no ${head === null ? "head" : "end"}: it is not whole`);
  const readings = [...lanes.values()];
  const closing = digestOf(readings);
  return {
    ...{ month: head.month, before: head.lanes, sha256: digest.digest(), bytes, opening: opening ?? closing, closing },
    ...{ lanes: readings, problems: report.problems, first_bad_batch: report.first_bad_batch },
  };
}

/** The lines of the unpacked file; `onBytes` gets it as it lies there. */
async function* readLines(path: string, onBytes: (chunk: Buffer) => void): AsyncGenerator<Line> {
  const counted = new Transform({
    transform(chunk: Buffer, _, done) {
      onBytes(chunk);
      done(null, chunk);
    },
  });
  const source = createReadStream(path);
  const unpacked = source.pipe(counted).pipe(createGunzip());
  source.on("error", (error) => unpacked.destroy(error));
  try {
    for await (const text of createInterface({ input: unpacked, crlfDelay: Number.POSITIVE_INFINITY })) {
      yield JSON.parse(text) as Line;
    }
  } catch (cause) {
    throw new NoArchive(`${path} cannot be read: ${cause instanceof Error ? cause.message : cause}`, { cause });
  }
}

/** Over the balances of all lanes in the order of accounts; accounts at zero say nothing. */
export function digestOf(lanes: Iterable<Pick<LaneReading, "replay">>): Buffer {
  const lines = [...lanes].flatMap(({ replay }) => [...replay.balances]).sort(([a], [b]) => a - b);
  const digest = createHash("sha256");
  for (const [account_id, balances] of lines) {
    const sums = sumsOf(balances);
    if (sums.some((sum) => sum !== "0")) digest.update(`${account_id} ${sums.join(" ")}\n`);
  }
  return digest.digest();
}

function startReading({ lane_id, asset_id, book, sequence, hash }: FileLane): LaneReading {
  const accounts: LaneReading["accounts"] = new Map();
  const previous = Buffer.from(hash, "hex");
  const counts: Counts = { transfers: 0n, entries: 0n, refusals: 0n, holds: 0n, batches: 0n };
  return {
    lane: { lane_id, asset_id, book, sequence: BigInt(sequence), head: previous },
    ...{ where: `${asset_id}/${book}`, accounts, replay: startReplay(accounts), moved: new Map() },
    ...{ from: null, anchors: new Map(), counts, previous, sequence: BigInt(sequence), recorded_at: "-infinity" },
  };
}

function addAccount(lanes: ReadonlyMap<number, LaneReading>, [lane_id, id, code, ...sums]: readonly Plain[]): void {
  const chart = chartOf(String(code));
  if (chart === null) throw new NoArchive(`${code} is no code of the chart of accounts`);
  const reading = laneOf(lanes, lane_id);
  const balances = balancesOf(sums);
  reading.accounts.set(Number(id), { account_id: BigInt(Number(id)), code: String(code), ...chart, ...balances });
  reading.replay.balances.set(Number(id), balances);
}

function addHold(lanes: ReadonlyMap<number, LaneReading>, [id, ...values]: readonly Plain[]): void {
  const fields = fieldsOf(values);
  laneOf(lanes, fields.lane_id).replay.open.set(String(id), { id: String(id), fields, state: "held", captured: 0n });
}

function laneOf(lanes: ReadonlyMap<number, LaneReading>, lane_id: Plain | undefined): LaneReading {
  const reading = lanes.get(Number(lane_id));
  if (reading === undefined) throw new NoArchive(`lane ${lane_id} is not in the head of the file`);
  return reading;
}

function readBatch({ batch: values, transfers, refusals, entries }: Extract<Line, { batch: unknown }>) {
  const [lane_id, sequence, recorded_at, recorded_us, transferred, refused, hash] = values;
  const batch: BatchRow = {
    ...{ sequence: BigInt(sequence ?? 0), recorded_at: String(recorded_at), recorded_us: BigInt(recorded_us ?? 0) },
    ...{ transfers: Number(transferred), refusals: Number(refused), hash: Buffer.from(String(hash), "hex") },
  };
  const entryRows = entries.map(
    ([position, account_id, ...sums]): EntryRow => ({
      ...{ position: Number(position), account_id: BigInt(account_id ?? 0), recorded_us: batch.recorded_us },
      ...balancesOf(sums),
    }),
  );
  const content: BatchContent = {
    transfers: transfers.map((row) => readRecorded(row, batch)),
    refusals: refusals.map((row) => readRecorded(row, batch)),
    entries: Map.groupBy(entryRows, (entry) => entry.position),
  };
  return { lane_id: Number(lane_id), batch, content };
}

function recordedLine({ id, position, word, fields }: Recorded): readonly Plain[] {
  return [id, position, word, ...plainOf(fields)];
}

function readRecorded([id, position, word, ...values]: readonly Plain[], batch: BatchRow): Recorded {
  const { sequence, recorded_us } = batch;
  return {
    ...{ id: String(id), position: Number(position), word: String(word), sequence, recorded_us: Number(recorded_us) },
    ...{ taken: true, fields: fieldsOf(values) },
  };
}

function plainOf(fields: TransferFields): readonly Plain[] {
  const { lane_id, kind, debit_id, credit_id, amount, hold_id, expires_ms, effective_ms, operation_id } = fields;
  return [lane_id, kind, debit_id, credit_id, String(amount), hold_id, expires_ms, effective_ms, operation_id];
}

function fieldsOf(values: readonly Plain[]): TransferFields {
  const [lane_id, kind, debit_id, credit_id, amount, hold_id, expires_ms, effective_ms, operation_id] = values;
  return {
    ...{ lane_id: Number(lane_id), kind: kind as TransferFields["kind"] },
    ...{ debit_id: Number(debit_id), credit_id: Number(credit_id), amount: BigInt(amount ?? 0) },
    ...{ hold_id: hold_id === null ? null : String(hold_id), operation_id: String(operation_id) },
    ...{ expires_ms: numberOf(expires_ms), effective_ms: numberOf(effective_ms) },
  };
}

function numberOf(value: Plain | undefined): number | null {
  return value === null || value === undefined ? null : Number(value);
}

function sumsOf(balances: Balances): string[] {
  const { debits_pending, debits_posted, credits_pending, credits_posted } = balances;
  return [debits_pending, debits_posted, credits_pending, credits_posted].map(String);
}

function balancesOf(sums: readonly Plain[]): Balances {
  const [debits_pending = 0n, debits_posted = 0n, credits_pending = 0n, credits_posted = 0n] = sums.map((sum) =>
    BigInt(sum ?? 0),
  );
  return { debits_pending, debits_posted, credits_pending, credits_posted };
}

function lineOf(line: Line): string {
  return `${JSON.stringify(line)}\n`;
}
