// What `verify` reads: a lane's batches in their order, and what each stretch of them recorded.

import { pgNumArray, pgTextArray } from "@cauri/store/arrays";
import { type Pool, type Queryable, snapshot } from "@cauri/store/pool";
import type { Balances, Book, HoldState, Remembered, TransferFields, TransferKind } from "./books.ts";
import type { NormalSide } from "./chart.ts";

export type LaneRow = { lane_id: number; asset_id: string; book: Book; sequence: bigint; head: Buffer };
export type AccountRow = Balances & {
  account_id: bigint;
  code: string;
  owner: string | null;
  platform_id: string | null;
  normal_side: NormalSide;
  no_overdraft: boolean;
};
export type BatchRow = {
  sequence: bigint;
  /** As PostgreSQL writes it: exact to the microsecond, which a Date is not. */
  recorded_at: string;
  recorded_us: bigint;
  transfers: number;
  refusals: number;
  hash: Buffer;
};
export type Recorded = {
  readonly id: string;
  readonly sequence: bigint;
  readonly position: number;
  readonly recorded_us: number;
  /** The group's id of a transfer, the result of a refusal. */
  readonly word: string;
  /** Its id is taken, for this very row: a repeat is recognised. */
  readonly taken: boolean;
  readonly fields: TransferFields;
};
export type EntryRow = Balances & { account_id: bigint; position: number; recorded_us: bigint };
export type HoldRow = {
  hold_id: string;
  debit_id: bigint;
  credit_id: bigint;
  amount: bigint;
  expires_ms: bigint | null;
  state: HoldState;
  captured: bigint;
};
/** How many rows there are, or were read, of each kind. */
export type Counts = { transfers: bigint; entries: bigint; refusals: bigint; batches: bigint; holds: bigint };

const BALANCES = "debits_pending, debits_posted, credits_pending, credits_posted";
const micros = (column: string) => `(extract(epoch from ${column}) * 1000000)::bigint`;
const millis = (column: string) => `(extract(epoch from ${column}) * 1000)::bigint`;

export async function readLanes(tx: Queryable): Promise<LaneRow[]> {
  const text = "select lane_id, asset_id, book, sequence, head from lanes order by lane_id";
  return (await tx.query<LaneRow>(text)).rows;
}

export async function readLane(tx: Queryable, lane_id: number): Promise<LaneRow> {
  const text = "select lane_id, asset_id, book, sequence, head from lanes where lane_id = $1";
  const [lane] = (await tx.query<LaneRow>(text, [lane_id])).rows;
  if (lane === undefined) throw new Error(`bug: lane ${lane_id} is gone`);
  return lane;
}

/**
 * A snapshot for what may take longer than a merchant's request: whole lanes, above all while nothing is carried and all that
 * moved since is read with them, and whole months. Each statement has so many seconds; 0 is no limit.
 */
export function patiently<T>(pool: Pool, most_s: number, read: (tx: Queryable) => Promise<T>): Promise<T> {
  return snapshot(pool, async (tx) => {
    await tx.query("select set_config('statement_timeout', $1, true)", [`${most_s}s`]);
    return await read(tx);
  });
}

/**
 * A stretch of the past is always a small part of its table; without fresh statistics the planner reads all of it for
 * each stretch, which made a million transfers take twice as long with every doubling.
 */
export async function preferIndexes(tx: Queryable): Promise<void> {
  const joins = { enable_hashjoin: "off", enable_mergejoin: "off" };
  const settings = { enable_seqscan: "off", ...joins, max_parallel_workers_per_gather: "0" };
  for (const [name, value] of Object.entries(settings))
    await tx.query("select set_config($1, $2, true)", [name, value]);
}

export async function readClock(tx: Queryable): Promise<Date> {
  return (await oneRow<{ now: Date }>(tx, "select clock_timestamp() as now", [])).now;
}

/** Lets the indexes by time know the pages that were written since: without it each stretch would read all of them. */
export async function summarizePast(tx: Queryable): Promise<void> {
  await tx.query("select summarize_past()");
}

export async function readLaneAccounts(tx: Queryable, lane_id: number): Promise<AccountRow[]> {
  const text = `select account_id, code, owner, platform_id, normal_side, no_overdraft, ${BALANCES}
    from balances_of($1) order by account_id`;
  return (await tx.query<AccountRow>(text, [lane_id])).rows;
}

export async function readBatches(tx: Queryable, lane_id: number, after: bigint, limit: number): Promise<BatchRow[]> {
  const text = `select sequence, recorded_at::text, ${micros("recorded_at")} as recorded_us, transfers, refusals, hash
    from batches where lane_id = $1 and sequence > $2 order by sequence limit $3`;
  return (await tx.query<BatchRow>(text, [lane_id, after, limit])).rows;
}

/** What others write in it at a house's usual pace is a few thousand rows, as many as a stretch. */
const LONG_S = 60;

/** The instants of the first and the last batch of a stretch. */
export type Stretch = { readonly lane_id: number; readonly from: string; readonly to: string };

export function readTransfers(tx: Queryable, stretch: Stretch): Promise<Recorded[]> {
  return readRecorded(tx, "transfers", "group_id::text", stretch);
}

export function readRefusals(tx: Queryable, stretch: Stretch): Promise<Recorded[]> {
  return readRecorded(tx, "refusals", "result::text", stretch);
}

/**
 * A lane's own: by their time where its batches follow each other, for that is nearly all that was written then. Where they are
 * far apart, what others wrote in between is more, and the entries that the transfers must have are looked up. One too many is
 * then found by the number of all rows alone, as it always is outside the stretches.
 */
export async function readEntries(tx: Queryable, { lane_id, from, to }: Stretch): Promise<EntryRow[]> {
  const is_long = `$3::timestamptz - $2::timestamptz > interval '${LONG_S} seconds'`;
  const columns = `account_id, position, ${BALANCES}, ${micros("recorded_at")} as recorded_us`;
  const text = `select ${columns} from entries
      where not ${is_long} and lane_id = $1 and recorded_at between $2::timestamptz and $3::timestamptz
    union all
    select ${columns} from (
      select e.* from transfers t cross join lateral (values (t.debit_id), (t.credit_id)) as side (account_id)
      cross join lateral (select * from entries w where w.account_id = side.account_id
        and w.recorded_at = t.recorded_at and w.position = t.position limit 1) e
      where ${is_long} and t.lane_id = $1 and t.recorded_at between $2::timestamptz and $3::timestamptz
        and e.lane_id = t.lane_id) found`;
  return (await tx.query<EntryRow>(text, [lane_id, from, to])).rows;
}

export async function readHolds(tx: Queryable, lane_id: number, ids: readonly string[]): Promise<HoldRow[]> {
  const text = `select hold_id, debit_id, credit_id, amount, ${millis("expires_at")} as expires_ms, state, captured
    from holds where hold_id = any($1::uuid[]) and lane_id = $2`;
  return (await tx.query<HoldRow>(text, [pgTextArray(ids), lane_id])).rows;
}

/** The transfers by which holds were posted. */
export async function readHoldTransfers(tx: Queryable, lane_id: number, ids: readonly string[]): Promise<Recorded[]> {
  const { rows } = await tx.query<RecordedRow>(
    `select ${RECORDED}, t.group_id::text as word, true as taken from taken_ids i
     join transfers t on t.lane_id = i.lane_id and t.recorded_at = i.recorded_at and t.position = i.position
     where i.transfer_id = any($1::uuid[]) and i.lane_id = $2 and t.kind = 'hold' and t.transfer_id = i.transfer_id`,
    [pgTextArray(ids), lane_id],
  );
  return rows.map((row) => recordedOf(row, lane_id));
}

export async function readExpiring(tx: Queryable, lane_id: number): Promise<{ hold_id: string; expires_ms: bigint }[]> {
  const text = `select hold_id, ${millis("expires_at")} as expires_ms from expiring_holds where lane_id = $1`;
  return (await tx.query<{ hold_id: string; expires_ms: bigint }>(text, [lane_id])).rows;
}

/** All rows that are there, and what the batches after the ends given say that they recorded. */
export async function readSizes(
  tx: Queryable,
  ends: readonly { readonly lane_id: number; readonly sequence: bigint; readonly recorded_at: string }[],
): Promise<{ there: Counts & { ids: bigint }; later: Counts }> {
  const there = await oneRow<Counts & { ids: bigint }>(
    tx,
    `select (select count(position) from transfers) as transfers, (select count(account_id) from entries) as entries,
       (select count(transfer_id) from refusals) as refusals, (select count(sequence) from batches) as batches,
       (select count(hold_id) from holds) as holds, (select count(transfer_id) from taken_ids) as ids`,
    [],
  );
  const later = await oneRow<Counts>(
    tx,
    `with ends as (select * from unnest($1::integer[], $2::bigint[], $3::timestamptz[]) as e (lane_id, sequence, recorded_at)),
       later as (select b.transfers, b.refusals from lanes l left join ends e using (lane_id)
         join batches b on b.lane_id = l.lane_id and b.sequence > coalesce(e.sequence, 0) and b.sequence <= l.sequence)
     select coalesce(sum(transfers), 0)::bigint as transfers, coalesce(sum(transfers) * 2, 0)::bigint as entries,
       coalesce(sum(refusals), 0)::bigint as refusals, count(transfers) as batches,
       (select count(t.transfer_id) from lanes l left join ends e using (lane_id)
         join transfers t on t.lane_id = l.lane_id and t.recorded_at > coalesce(e.recorded_at, '-infinity')
         join batches b on b.lane_id = t.lane_id and b.sequence = t.sequence and b.recorded_at = t.recorded_at
         where t.kind = 'hold') as holds
     from later`,
    [
      pgNumArray(ends.map((end) => end.lane_id)),
      pgNumArray(ends.map((end) => end.sequence)),
      pgTextArray(ends.map((end) => end.recorded_at)),
    ],
  );
  return { there, later };
}

async function oneRow<T extends Record<string, unknown>>(
  tx: Queryable,
  text: string,
  values: readonly unknown[],
): Promise<T> {
  const [row] = (await tx.query<T>(text, values)).rows;
  if (row === undefined) throw new Error("bug: an aggregate without a row");
  return row;
}

const RECORDED = `t.transfer_id, t.sequence, t.position, t.kind, t.debit_id, t.credit_id, t.amount, t.hold_id, t.operation_id,
  ${millis("t.expires_at")} as expires_ms, ${millis("t.effective_at")} as effective_ms,
  ${micros("t.recorded_at")} as recorded_us`;

async function readRecorded(
  tx: Queryable,
  table: "transfers" | "refusals",
  word: string,
  { lane_id, from, to }: Stretch,
): Promise<Recorded[]> {
  const { rows } = await tx.query<RecordedRow>(
    `select ${RECORDED}, t.${word} as word,
       (i.lane_id, i.recorded_at, i.position) is not distinct from (t.lane_id, t.recorded_at, t.position) as taken
     from ${table} t left join taken_ids i using (transfer_id)
     where t.lane_id = $1 and t.recorded_at between $2::timestamptz and $3::timestamptz
     order by t.sequence, t.position`,
    [lane_id, from, to],
  );
  return rows.map((row) => recordedOf(row, lane_id));
}

type RecordedRow = {
  transfer_id: string;
  sequence: bigint;
  position: number;
  kind: TransferKind;
  debit_id: bigint;
  credit_id: bigint;
  amount: bigint;
  hold_id: string | null;
  operation_id: string;
  word: string | Remembered;
  taken: boolean;
  expires_ms: bigint | null;
  effective_ms: bigint | null;
  recorded_us: bigint;
};

function recordedOf(row: RecordedRow, lane_id: number): Recorded {
  const { kind, amount, hold_id, operation_id } = row;
  const toNumber = (value: bigint | null) => (value === null ? null : Number(value));
  const fields: TransferFields = {
    ...{ lane_id, kind, amount, hold_id, operation_id },
    debit_id: Number(row.debit_id),
    credit_id: Number(row.credit_id),
    expires_ms: toNumber(row.expires_ms),
    effective_ms: toNumber(row.effective_ms),
  };
  const { sequence, position, word, taken } = row;
  return { id: row.transfer_id, sequence, position, recorded_us: Number(row.recorded_us), word, taken, fields };
}
