// SQL of the log of attempts: a ring of daily tables, written with the results, emptied day by day.

import { pgBytesArray, pgNumArray, pgTextArray, pgTimeArray } from "@cauri/store/arrays";
import type { Queryable, Tx } from "@cauri/store/pool";
import type { Ended } from "./delivery-store.ts";

/** The days that there are tables for, as the migration made them. */
const LOG_DAYS = 64;

/** One row each in the day's table; the stamps are in the delivery's own clock, as everything else that a merchant sees. */
export async function logAttempts(tx: Tx, ended: readonly Ended[]): Promise<void> {
  await tx.query(
    `insert into attempts (slot, delivery_id, endpoint_id, at, duration_ms, status_code, error, answer)
     select mod(floor(extract(epoch from r.at) / 86400)::bigint, ${LOG_DAYS}), r.delivery_id, r.endpoint_id,
            r.at + (now_of(r.account, r.mode) - date_trunc('milliseconds', statement_timestamp())),
            r.duration_ms, r.status_code, r.error, r.answer
       from unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::timestamptz[], $6::int[], $7::int[], $8::text[],
                   $9::bytea[])
         as r (delivery_id, endpoint_id, account, mode, at, duration_ms, status_code, error, answer)`,
    [
      pgTextArray(ended.map(({ claimed }) => claimed.id)),
      pgNumArray(ended.map(({ claimed }) => claimed.endpoint_id)),
      pgTextArray(ended.map(({ claimed }) => claimed.account)),
      pgTextArray(ended.map(({ claimed }) => claimed.mode)),
      pgTimeArray(ended.map(({ at }) => at)),
      pgNumArray(ended.map(({ attempt }) => attempt.duration_ms)),
      pgNumArray(ended.map(({ attempt }) => attempt.status_code)),
      pgTextArray(ended.map(({ attempt }) => attempt.error)),
      pgBytesArray(ended.map(({ attempt }) => attempt.answer)),
    ],
  );
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
