// Archived months in SQL: what may be archived, what was, and taking away what a verified file holds. The service only reads
// here; the rest is done by the operator's tool as the owner of the tables.

import assert from "node:assert/strict";
import type { Queryable, Tx } from "@cauri/store/pool";
import type { Checked, FileAccount, FileLane } from "./archive-file.ts";
import type { Book } from "./books.ts";
import { eachSum } from "./past-store.ts";
import type { Mark } from "./verify-mark-store.ts";
import { type Recorded, readHoldTransfers } from "./verify-store.ts";

/** Entries that stay though their month goes: see docs/decisions/0141. */
const CLEARING = "a.code like 'suspense:%' or a.code like 'interplatform:%' or a.code like 'receivable:%'";

/** Where the past begins of which every entry is there; null while nothing was taken away. */
export async function readArchivedBefore(tx: Queryable): Promise<Date | null> {
  const { rows } = await tx.query<{ before: Date | null }>(
    "select (max(month) + interval '1 month') at time zone 'UTC' as before from archive_removals",
  );
  return rows[0]?.before ?? null;
}

/** By lane the last batch of the months that were taken away: the beginning of what `verify` can read. */
export async function readAnchorMarks(tx: Queryable): Promise<Map<number, Mark>> {
  const { rows } = await tx.query<AnchorRow>(
    `select distinct on (lane_id) lane_id, sequence, hash, recorded_at::text, a.transfers, a.entries, a.refusals, a.holds
     from archive_anchors a join archive_removals r using (month) order by lane_id, month desc`,
  );
  return marksOf(rows);
}

/** By lane the end of what was archived before a month, whether or not it was taken away. */
export async function readAnchorsBefore(tx: Queryable, month: string): Promise<Map<number, Mark>> {
  const { rows } = await tx.query<AnchorRow>(
    `select distinct on (lane_id) lane_id, sequence, hash, recorded_at::text, transfers, entries, refusals, holds
     from archive_anchors where month < $1::date order by lane_id, month desc`,
    [month],
  );
  return marksOf(rows);
}

/** What was taken away in all, of the tables that are counted by a verification. */
export async function readRemoved(tx: Queryable): Promise<{ entries: bigint; batches: bigint }> {
  const { rows } = await tx.query<{ entries: bigint; batches: bigint }>(
    `select coalesce(sum(entries), 0)::bigint as entries, coalesce(sum(batches), 0)::bigint as batches
     from archive_removals`,
  );
  return rows[0] ?? { entries: 0n, batches: 0n };
}

export type ArchiveRow = {
  readonly month: string;
  readonly file: string;
  readonly sha256: Buffer;
  readonly bytes: bigint;
  readonly written_at: Date;
  readonly removed_at: Date | null;
  readonly anchors: readonly ArchiveAnchor[];
};
export type ArchiveAnchor = {
  readonly asset_id: string;
  readonly book: Book;
  readonly sequence: bigint;
  readonly hash: Buffer;
  readonly transfers: bigint;
};

export async function readArchives(tx: Queryable): Promise<ArchiveRow[]> {
  const [archives, anchors] = await Promise.all([
    tx.query<Omit<ArchiveRow, "anchors">>(
      `select to_char(month, 'YYYY-MM') as month, file, sha256, bytes, written_at, removed_at
       from archives left join archive_removals using (month) order by archives.month`,
    ),
    tx.query<ArchiveAnchor & { month: string }>(
      `select to_char(month, 'YYYY-MM') as month, asset_id, book, a.sequence, hash, transfers
       from archive_anchors a join lanes using (lane_id) order by asset_id collate "C", book`,
    ),
  ]);
  const byMonth = Map.groupBy(anchors.rows, (anchor) => anchor.month);
  return archives.rows.map((row) => ({ ...row, anchors: byMonth.get(row.month) ?? [] }));
}

export type MonthState = {
  /** A day after its end: no clock of ours is so wrong that a batch may still come. */
  readonly over: boolean;
  /** The first month of the books that has no archive yet, and the first that was not taken away. */
  readonly first_open: string | null;
  readonly first_kept: string | null;
  readonly archived: { readonly sha256: Buffer; readonly closing: Buffer } | null;
  /** The digest with which the archive before it ended. */
  readonly closed_before: Buffer | null;
  readonly removed: boolean;
};

export async function readMonth(tx: Queryable, month: string): Promise<MonthState> {
  const { rows } = await tx.query<Omit<MonthState, "archived"> & { sha256: Buffer | null; closing: Buffer | null }>(
    `with recorded as (select begins from months m where exists (
         select from batches b where b.recorded_at >= begins::timestamp at time zone 'UTC'
           and b.recorded_at < (begins + interval '1 month') at time zone 'UTC'))
     select clock_timestamp() >= ($1::date + interval '1 month 1 day') at time zone 'UTC' as over,
       (select min(begins)::text from recorded where begins not in (select month from archives)) as first_open,
       (select min(begins)::text from recorded where begins not in (select month from archive_removals)) as first_kept,
       (select sha256 from archives where month = $1::date) as sha256,
       (select closing from archives where month = $1::date) as closing,
       (select closing from archives where month < $1::date order by month desc limit 1) as closed_before,
       exists (select from archive_removals where month = $1::date) as removed`,
    [month],
  );
  const [row] = rows;
  if (row === undefined) throw new Error("bug: a select without its row");
  const { sha256, closing, ...state } = row;
  return { ...state, archived: sha256 === null || closing === null ? null : { sha256, closing } };
}

/** All entries of a month, whether or not a transfer has them. */
export async function countEntries(tx: Queryable, month: string): Promise<bigint> {
  const { rows } = await tx.query<{ entries: bigint }>(
    `select count(account_id) as entries from entries
      where recorded_at >= $1::timestamp at time zone 'UTC'
        and recorded_at < ($1::date + interval '1 month') at time zone 'UTC'`,
    [month],
  );
  return rows[0]?.entries ?? 0n;
}

export type LaneMonth = FileLane & { readonly last: bigint };

/** The lanes that recorded something in the month: where they stood before it, and their last batch in it. */
export async function readLaneMonths(tx: Queryable, month: string): Promise<LaneMonth[]> {
  const { rows } = await tx.query<LaneMonth>(
    `select lane_id, asset_id, book, (first - 1)::text as sequence, last,
       coalesce((select encode(p.hash, 'hex') from batches p where p.lane_id = l.lane_id and p.sequence = first - 1),
         repeat('00', 32)) as hash
     from lanes l join lateral (select min(b.sequence) as first, max(b.sequence) as last from batches b
       where b.lane_id = l.lane_id and b.recorded_at >= $1::timestamp at time zone 'UTC'
         and b.recorded_at < ($1::date + interval '1 month') at time zone 'UTC') m on first is not null
     order by lane_id`,
    [month],
  );
  return rows;
}

/** The accounts of a lane with the balances that the month began with. */
export async function readOpening(tx: Queryable, lane_id: number, month: string): Promise<FileAccount[]> {
  const { rows } = await tx.query<FileAccount>(
    `select a.account_id, a.code, a.lane_id, ${eachSum("coalesce(last.%, 0) as %")} from accounts a
     left join lateral (select ${eachSum("e.%")} from entries e where e.account_id = a.account_id
       and e.recorded_at < $2::timestamp at time zone 'UTC' order by e.recorded_at desc, e.position desc limit 1) last on true
     where a.lane_id = $1 and a.opened_at < ($2::date + interval '1 month') at time zone 'UTC' order by a.account_id`,
    [lane_id, month],
  );
  return rows;
}

/** Of the holds named those that were posted before the month. */
export async function readEarlierHolds(
  tx: Queryable,
  lane_id: number,
  before: bigint,
  ids: readonly string[],
): Promise<Recorded[]> {
  if (ids.length === 0) return [];
  return (await readHoldTransfers(tx, lane_id, ids)).filter((row) => row.sequence <= before);
}

/** Remembers a verified file and its anchors. */
export async function insertArchive(tx: Queryable, month: string, file: string, checked: Checked): Promise<void> {
  const { sha256, bytes, opening, closing } = checked;
  await tx.query(
    "insert into archives (month, file, sha256, bytes, opening, closing) values ($1::date, $2, $3, $4, $5, $6)",
    [month, file, sha256, bytes, opening, closing],
  );
  const earlier = await readAnchorsBefore(tx, month);
  for (const { lane, sequence, previous, recorded_at, counts } of checked.lanes) {
    const { transfers = 0n, entries = 0n, refusals = 0n, holds = 0n } = earlier.get(lane.lane_id)?.counts ?? {};
    await tx.query(
      `insert into archive_anchors (month, lane_id, sequence, hash, recorded_at, transfers, entries, refusals, holds)
       values ($1::date, $2, $3, $4, $5::timestamptz, $6, $7, $8, $9)`,
      [
        ...[month, lane.lane_id, sequence, previous, recorded_at],
        ...[transfers + counts.transfers, entries + counts.entries, refusals + counts.refusals, holds + counts.holds],
      ],
    );
  }
}

/** The lanes whose anchor of the month is behind a loop that still has to read it; by the name of the loop. */
export async function readReadersBehind(tx: Queryable, month: string): Promise<string[]> {
  const { rows } = await tx.query<{ reader: string }>(
    `select distinct reader from archive_anchors a cross join lateral (
       select 'the days' as reader, (select sequence from day_marks d where d.lane_id = a.lane_id) as at
       union all select 'the carrying', (select sequence from balance_marks b where b.lane_id = a.lane_id)
       union all select 'the monitor', (select sequence from verify_marks v where v.lane_id = a.lane_id and reader = 'monitor')
     ) readers where month = $1::date and coalesce(at, 0) < a.sequence order by 1`,
    [month],
  );
  return rows.map(({ reader }) => reader);
}

/**
 * Puts small tables in the place of the month's entries, batches and displaced movements and drops the full ones: all in the
 * caller's transaction. Writers, and readers of balances, wait only from the first exchange to the commit.
 */
export async function removeMonth(tx: Tx, month: string): Promise<{ entries: bigint; batches: bigint }> {
  assert.match(month, /^\d{4}-\d\d-01$/);
  const suffix = month.slice(0, 7).replace("-", "_");
  const range = `for values from ('${month} 00:00:00+00') to ('${nextMonth(month)} 00:00:00+00')`;
  await tx.query("set local statement_timeout = 0");
  const kept = (table: string) => `${table}_${suffix}_kept`;
  for (const table of ["entries", "batches", "displaced_movements"]) {
    await tx.query(`create table ${kept(table)} (like ${table} including all)`);
    await tx.query(`revoke all on ${kept(table)} from public, cauri_ledger`);
  }
  // The last entry of each account is what a balance as of the month's end, and the proof of what comes after, go on from.
  await tx.query(
    `insert into ${kept("entries")}
     select e.* from accounts a cross join lateral (select * from entries_${suffix} e where e.account_id = a.account_id
       order by e.recorded_at desc, e.position desc limit 1) e
     union select e.* from accounts a join entries_${suffix} e using (account_id) where ${CLEARING}
     union select e.* from displaced_movements_${suffix} d join entries_${suffix} e using (account_id, recorded_at, position)
       where d.effective_at >= '${nextMonth(month)} 00:00:00+00'`,
  );
  await tx.query(
    `insert into ${kept("batches")} select b.* from archive_anchors a
     join batches_${suffix} b using (lane_id, sequence, recorded_at) where a.month = $1::date`,
    [month],
  );
  await tx.query(
    `insert into ${kept("displaced_movements")} select d.* from displaced_movements_${suffix} d
     join ${kept("entries")} e using (account_id, recorded_at, position)`,
  );
  const removed = { entries: 0n, batches: 0n };
  for (const table of ["entries", "batches", "displaced_movements"] as const) {
    const count = `(select count(recorded_at) from ${table}_${suffix}) - (select count(recorded_at) from ${kept(table)})`;
    const { rows } = await tx.query<{ gone: bigint }>(`select ${count} as gone`);
    if (table !== "displaced_movements") removed[table] = rows[0]?.gone ?? 0n;
  }
  for (const table of ["entries", "batches", "displaced_movements"]) {
    await tx.query(`alter table ${table} detach partition ${table}_${suffix}`);
    await tx.query(`drop table ${table}_${suffix}`);
    await tx.query(`alter table ${kept(table)} rename to ${table}_${suffix}`);
    if (table !== "displaced_movements") {
      await tx.query(`create trigger append_only before update or delete or truncate on ${table}_${suffix}
        execute function refuse_change()`);
    }
    await tx.query(`alter table ${table} attach partition ${table}_${suffix} ${range}`);
  }
  await tx.query("insert into archive_removals (month, entries, batches) values ($1::date, $2, $3)", [
    ...[month, removed.entries, removed.batches],
  ]);
  return removed;
}

export function nextMonth(month: string): string {
  const [year = 0, number = 1] = month.split("-").map(Number);
  return new Date(Date.UTC(year, number, 1)).toISOString().slice(0, 10);
}

type AnchorRow = {
  lane_id: number;
  sequence: bigint;
  hash: Buffer;
  recorded_at: string;
  transfers: bigint;
  entries: bigint;
  refusals: bigint;
  holds: bigint;
};

function marksOf(rows: readonly AnchorRow[]): Map<number, Mark> {
  return new Map(
    rows.map(({ lane_id, sequence, hash, recorded_at, ...counts }) => [
      lane_id,
      { sequence, hash, recorded_at, counts: { ...counts, batches: sequence } },
    ]),
  );
}
