// Over all accounts: the trial balance of each lane, and the clearing accounts that should be empty and are not.

import type { Queryable } from "@cauri/store/pool";
import type { Balances, Book } from "./books.ts";
import type { NormalSide } from "./chart.ts";
import { type Before, boundOf, eachSum, pastSql, presentSql } from "./past-store.ts";

/** Null: all of them. */
export type LaneFilter = { readonly asset_id: string | null; readonly book: Book | null };

export type TrialLine = Balances & {
  readonly kind: string;
  readonly platform_id: string | null;
  readonly normal_side: NormalSide;
  readonly accounts: number;
};

export type TrialLane = { readonly asset_id: string; readonly book: Book; readonly lines: readonly TrialLine[] };

export async function readTrialBalance(
  tx: Queryable,
  filter: LaneFilter,
  when: Before | null,
): Promise<readonly TrialLane[]> {
  const lanes: TrialLane[] = [];
  for (const { lane_id, asset_id, book } of await readLanes(tx, filter)) {
    const source = "(select account_id from accounts where lane_id = $1)";
    const { rows } = await tx.query<TrialLine>(
      `select split_part(a.code, ':', 1) as kind, a.platform_id, a.normal_side, count(a.account_id)::integer as accounts,
         ${eachSum("sum(b.%)::bigint as %")}
       from (${when === null ? presentSql("balances_of($1)") : pastSql(when.basis, source)}) b join accounts a using (account_id)
       group by 1, 2, 3 order by 1, 2`,
      [lane_id, ...(when === null ? [] : boundOf(when, lane_id))],
    );
    lanes.push({ asset_id, book, lines: rows });
  }
  return lanes;
}

export type ClearingRow = Balances & {
  readonly code: string;
  readonly asset_id: string;
  readonly book: Book;
  readonly normal_side: NormalSide;
  readonly oldest_transfer_id: string;
  readonly oldest_operation_id: string;
  readonly oldest_recorded_at: Date;
};

/**
 * First in, first out: what was settled settled the oldest, so the oldest open item is the first movement of the larger
 * side that the whole of the smaller side doesn't cover. These accounts move seldom; theirs is read from the beginning.
 */
export async function readClearing(tx: Queryable, filter: LaneFilter, limit: number): Promise<ClearingRow[]> {
  const { rows } = await tx.query<ClearingRow>(
    `select a.code, l.asset_id, l.book, a.normal_side, ${eachSum("a.%")}, o.transfer_id as oldest_transfer_id,
       o.operation_id as oldest_operation_id, o.recorded_at as oldest_recorded_at
     from lanes l cross join lateral balances_of(l.lane_id) a
     cross join lateral (select m.transfer_id, m.operation_id, m.recorded_at from movements m
       where m.account_id = a.account_id and case
         when a.credits_posted > a.debits_posted then m.after_credits_posted > a.debits_posted
         else m.after_debits_posted > a.credits_posted end
       order by m.recorded_at, m.position limit 1) o
     where (a.code like 'suspense:%' or a.code like 'interplatform:%' or a.code like 'receivable:%')
       and a.credits_posted <> a.debits_posted
       and ($1::text is null or l.asset_id = $1) and ($2::book is null or l.book = $2)
     order by o.recorded_at, a.account_id limit $3`,
    [filter.asset_id, filter.book, limit],
  );
  return rows;
}

export async function readLanes(tx: Queryable, { asset_id, book }: LaneFilter) {
  const { rows } = await tx.query<{ lane_id: number; asset_id: string; book: Book }>(
    `select lane_id, asset_id, book from lanes
     where ($1::text is null or asset_id = $1) and ($2::book is null or book = $2) order by asset_id collate "C", book`,
    [asset_id, book],
  );
  return rows;
}
