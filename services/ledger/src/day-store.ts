// The sums of days by effective time: takes over what the lanes recorded since the mark, a stretch of batches at a time.

import { pgNumArray, pgTextArray } from "@cauri/store/arrays";
import type { Pool, Queryable } from "@cauri/store/pool";
import type { Balances } from "./books.ts";
import { eachSum } from "./past-store.ts";
import { type Most, type Stretch, takeOver } from "./stretch-store.ts";
import { preferIndexes } from "./verify-store.ts";

/** Transfers of a stretch: some tens of milliseconds of work, and a small share of the lane's own rate. */
const STRETCH: Most = { transfers: 5_000, batches: 2_000 };

/**
 * Takes over one stretch of each lane; true when more is there now. The mark's row is the lock: of several replicas one does
 * the work and the others pass by. Everything of a stretch is in one transaction with its mark, so none counts twice.
 */
export async function countDays(pool: Pool): Promise<boolean> {
  return await takeOver(pool, "day_marks", STRETCH, countStretch);
}

async function countStretch(tx: Queryable, lane_id: number, { after, upto }: Stretch): Promise<void> {
  await preferIndexes(tx);
  const moved = await tx.query<Moved>(TAKE_STRETCH, [lane_id, after, upto]);
  const days = [
    pgNumArray(moved.rows.map((row) => row.account_id)),
    pgTextArray(moved.rows.map((row) => row.day)),
    pgNumArray(moved.rows.map((row) => row.debits_pending)),
    pgNumArray(moved.rows.map((row) => row.debits_posted)),
    pgNumArray(moved.rows.map((row) => row.credits_pending)),
    pgNumArray(moved.rows.map((row) => row.credits_posted)),
  ];
  await tx.query(OPEN_DAYS, days.slice(0, 2));
  await tx.query(ADD_TO_DAYS, days);
}

type Moved = Balances & { readonly account_id: bigint; readonly day: string };

/**
 * The movements of the stretch, read once: those with a time of their own are listed, all are summed by account and day.
 * Out of the lane's transfers, by their key: what other lanes wrote since this one's last batch costs nothing.
 */
export const TAKE_STRETCH = `with stretch as materialized (
    select side.account_id, coalesce(effective_at, recorded_at) as at, effective_at, recorded_at, position,
      case when is_debit then pending else 0 end as debits_pending, case when is_debit then posted else 0 end as debits_posted,
      case when is_debit then 0 else pending end as credits_pending, case when is_debit then 0 else posted end as credits_posted
    from changes cross join lateral (values (debit_id, true), (credit_id, false)) as side (account_id, is_debit)
    where lane_id = $1 and recorded_at > $2::timestamptz and recorded_at <= $3::timestamptz),
  displaced as (insert into displaced_movements (account_id, effective_at, recorded_at, position)
    select account_id, effective_at, recorded_at, position from stretch where effective_at is not null)
  select account_id, (at at time zone 'UTC')::date::text as day, ${eachSum("sum(%)::bigint as %")}
  from stretch group by 1, 2`;

/** A day begins with what the last day before it has. */
const OPEN_DAYS = `insert into day_balances (account_id, day, ${eachSum("%")})
  select n.account_id, n.day, ${eachSum("coalesce(last.%, 0)")}
  from unnest($1::bigint[], $2::date[]) as n (account_id, day)
  left join lateral (select ${eachSum("b.%")} from day_balances b
    where b.account_id = n.account_id and b.day < n.day order by b.day desc limit 1) last on true
  on conflict do nothing`;

/** A movement counts in its day and in every later one: a late one finds the days after its own already there. */
const ADD_TO_DAYS = `update day_balances b set ${eachSum("% = b.% + moved.%")}
  from (select d.account_id, d.day, ${eachSum("sum(n.%)::bigint as %")}
    from unnest($1::bigint[], $2::date[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[])
      as n (account_id, day, ${eachSum("%")})
    join day_balances d on d.account_id = n.account_id and d.day >= n.day group by 1, 2) moved
  where b.account_id = moved.account_id and b.day = moved.day`;
