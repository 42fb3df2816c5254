// What a verification leaves behind: how far each lane was read, the heads that were proved, the findings that stand.

import { pgTextArray } from "@cauri/store/arrays";
import type { Queryable } from "@cauri/store/pool";
import { type Balances, ZERO } from "./books.ts";
import { balancesOf, eachSum } from "./past-store.ts";
import type { ReplayHold } from "./replay.ts";
import { type Counts, readHoldTransfers } from "./verify-store.ts";

/** `full`: a verification from the beginning; `monitor`: the monitor on what is new. */
export type Reader = "full" | "monitor";

export type Mark = {
  readonly sequence: bigint;
  readonly hash: Buffer;
  readonly recorded_at: string;
  /** Of all that was read since the beginning of the lane. */
  readonly counts: Counts;
};

type MarkRow = Counts & { lane_id: number; sequence: bigint; hash: Buffer; recorded_at: string };

export async function readMarks(tx: Queryable, reader: Reader): Promise<Map<number, Mark>> {
  const { rows } = await tx.query<MarkRow>(
    `select lane_id, sequence, hash, recorded_at::text, transfers, entries, refusals, holds from verify_marks
     where reader = $1`,
    [reader],
  );
  return new Map(
    rows.map(({ lane_id, sequence, hash, recorded_at, transfers, entries, refusals, holds }) => [
      lane_id,
      { sequence, hash, recorded_at, counts: { transfers, entries, refusals, holds, batches: sequence } },
    ]),
  );
}

/** Several replicas monitor at once: a mark of theirs that is farther stays. A verification from the beginning sets its own back. */
export async function saveMark(tx: Queryable, reader: Reader, lane_id: number, mark: Mark): Promise<void> {
  const { sequence, hash, recorded_at, counts } = mark;
  await tx.query(
    `insert into verify_marks as m (reader, lane_id, sequence, hash, recorded_at, transfers, entries, refusals, holds)
     values ($1, $2, $3, $4, $5::timestamptz, $6, $7, $8, $9)
     on conflict (reader, lane_id) do update set sequence = excluded.sequence, hash = excluded.hash,
       recorded_at = excluded.recorded_at, transfers = excluded.transfers, entries = excluded.entries,
       refusals = excluded.refusals, holds = excluded.holds, verified_at = clock_timestamp()
     where m.reader = 'full' or m.sequence < excluded.sequence`,
    [reader, lane_id, sequence, hash, recorded_at, counts.transfers, counts.entries, counts.refusals, counts.holds],
  );
}

/** The balances that the entries tell up to a mark: verified before, so they are where the replay goes on. */
export async function readBalancesAtMark(
  tx: Queryable,
  mark: Mark,
  account_ids: readonly number[],
): Promise<Map<number, Balances>> {
  const { rows } = await tx.query<Balances & { account_id: bigint }>(
    `select n.account_id, ${eachSum("last.%")} from unnest($1::bigint[]) as n (account_id)
     cross join lateral (select ${eachSum("e.%")} from entries e
       where e.account_id = n.account_id and e.recorded_at <= $2::timestamptz
       order by e.recorded_at desc, e.position desc limit 1) last`,
    [`{${account_ids.join(",")}}`, mark.recorded_at],
  );
  const found = new Map(rows.map((row) => [Number(row.account_id), balancesOf(row)]));
  return new Map(account_ids.map((account_id) => [account_id, found.get(account_id) ?? ZERO]));
}

/** The holds of a lane that stood before a mark, for transfers after it that end them. */
export async function readHoldsAtMark(
  tx: Queryable,
  lane_id: number,
  mark: Mark,
  ids: readonly string[],
): Promise<ReplayHold[]> {
  const rows = await readHoldTransfers(tx, lane_id, ids);
  return rows
    .filter((row) => row.sequence <= mark.sequence)
    .map(({ id, fields }) => ({ id, fields, state: "held", captured: 0n }));
}

/** Whether each account's pending sums are those of the holds that stand; returns the codes where they are not. */
export async function readWrongPending(tx: Queryable, lane_id: number): Promise<string[]> {
  const { rows } = await tx.query<{ code: string }>(
    `with held as (select debit_id, credit_id, amount from holds where lane_id = $1 and state = 'held'),
       sums as (select account_id, sum(debits) as debits, sum(credits) as credits from (
         select debit_id as account_id, amount as debits, 0 as credits from held
         union all select credit_id, 0, amount from held) sides group by account_id)
     select a.code from balances_of($1) a left join sums s using (account_id)
     where a.debits_pending <> coalesce(s.debits, 0) or a.credits_pending <> coalesce(s.credits, 0)
     order by a.account_id limit 100`,
    [lane_id],
  );
  return rows.map(({ code }) => code);
}

export async function readAnchors(tx: Queryable, lane_id: number): Promise<Map<bigint, Buffer>> {
  const text = "select sequence, hash from anchors where lane_id = $1";
  const { rows } = await tx.query<{ sequence: bigint; hash: Buffer }>(text, [lane_id]);
  return new Map(rows.map(({ sequence, hash }) => [sequence, hash]));
}

export async function appendAnchor(tx: Queryable, lane_id: number, mark: Mark): Promise<void> {
  await tx.query("insert into anchors (lane_id, sequence, hash) values ($1, $2, $3) on conflict do nothing", [
    lane_id,
    mark.sequence,
    mark.hash,
  ]);
}

export type Finding = { readonly invariant: string; readonly sentence: string };

/** Returns those that were not known yet. */
export async function appendFindings(tx: Queryable, findings: readonly Finding[]): Promise<Finding[]> {
  if (findings.length === 0) return [];
  const { rows } = await tx.query<Finding>(
    `insert into findings (invariant, sentence) select * from unnest($1::text[], $2::text[])
     on conflict do nothing returning invariant, sentence`,
    [pgTextArray(findings.map((one) => one.invariant)), pgTextArray(findings.map((one) => one.sentence))],
  );
  return rows;
}

export async function readFindings(tx: Queryable): Promise<Finding[]> {
  const text = "select invariant, sentence from findings order by finding_id limit 1000";
  return (await tx.query<Finding>(text)).rows;
}

/** Books that a verification from the beginning found sound have none; what was found after it began stays. */
export async function clearFindings(tx: Queryable, before: Date): Promise<void> {
  await tx.query("delete from findings where found_at < $1", [before]);
}
