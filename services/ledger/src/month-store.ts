// The months that the books are kept in: made ahead of need by whoever runs the ledger, told when that is late.

import type { Queryable } from "@cauri/store/pool";

/** Months beside the present one: a quarter in which somebody hears the alarm before a transfer finds no place. */
const MONTHS_AHEAD = 3;

/** Makes the months that are missing from the present one on; several replicas may do it at once. */
export async function openMonths(tx: Queryable): Promise<void> {
  await tx.query(
    `select open_months(today, (today + make_interval(months => $1))::date)
     from (select (clock_timestamp() at time zone 'UTC')::date as today) clock`,
    [MONTHS_AHEAD],
  );
}

/** How many whole months from the next one on are there, without a gap: what is left until the ledger would stand still. */
export async function readMonthsAhead(tx: Queryable): Promise<number> {
  const { rows } = await tx.query<{ ahead: number }>(
    `select count(m.begins)::integer as ahead from (
       select begins, row_number() over (order by begins) as place, date_trunc('month', clock_timestamp(), 'UTC') as now
       from months where begins > (clock_timestamp() at time zone 'UTC')::date) m
     where m.begins = ((now at time zone 'UTC') + make_interval(months => place::integer))::date`,
  );
  return rows[0]?.ahead ?? 0;
}
