// The one way this room finds what is due on an account's clock without reading what isn't.

import { nowBy } from "@cauri/store/clock";

/**
 * A subquery for the keys of rows (as `r`) whose due time has come and that are `ready`, the longest due first; parameter $1
 * is an account (its test mode alone) or null for all, $2 how many are wanted. A test clock is never behind real time, so
 * what is due by real time is due for everyone; only accounts whose clock was moved on are looked at one by one, each by
 * its own index. After an outage of a rail millions may be due: more than some of them are never read, and some more than are
 * wanted, since another process may hold the first. To be asked for as an array, which leaves the planner no choice.
 */
export function dueRows(table: string, key: string, due: string, ready: string): string {
  const oldest = (of: string, now: string) => `select r.${key}, r.${due} from ${table} r
             where ${of} and r.${due} <= ${now} and ${ready} order by r.${due} limit 4 * $2::bigint`;
  return `select d.${key} from (
          (${oldest("$1::text is null", "statement_timestamp()")})
          union all (${oldest("r.account = $1 and r.mode = 'test'", "statement_timestamp()")})
          union all
          (select l.${key}, l.${due} from clocks c
            cross join lateral (${oldest("r.account = c.account and r.mode = 'test'", nowBy("c"))}) l
            where c.offset_ms > 0 and ($1::text is null or c.account = $1))) d`;
}
