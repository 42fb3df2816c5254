// SQL of the log of attempts: a ring of daily tables, written with the results, emptied day by day.

import type { Queryable } from "@cauri/store/pool";

/** The days that there are tables for, as the migration made them. */
const LOG_DAYS = 64;
const DAY_MS = 86_400_000;

/** The table of the day of an attempt, in real time. */
export function slotOf(at: Date): number {
  return Math.floor(at.getTime() / DAY_MS) % LOG_DAYS;
}

/** Empties the days of the log that are older than these; answers how many it emptied. */
export async function forgetAttempts(db: Queryable, keep_days: number): Promise<number> {
  // Today, the days before it that are kept, and tomorrow, which another machine's clock may have reached.
  const { rows } = await db.query<{ slot: number }>(
    `select slot from generate_series(0, ${LOG_DAYS - 1}) as slot
      where exists (select 1 from attempts a where a.slot = slot.slot)
        and not exists (select 1 from generate_series(-1, $1::int) as ago
                         where mod(floor(extract(epoch from now()) / 86400)::bigint - ago, ${LOG_DAYS}) = slot.slot)`,
    [keep_days],
  );
  for (const { slot } of rows) await db.query(`truncate attempts_${String(slot).padStart(2, "0")}`);
  return rows.length;
}
