// The one way this room finds what is due on an account's clock without reading what isn't.

import { nowBy } from "@cauri/store/clock";

/**
 * A subquery for the keys of rows whose due time has come; parameter $1 is an account (its test mode alone) or null for
 * all. A test clock is never behind real time, so what is due by real time is due for everyone; only accounts whose
 * clock was moved on are looked at one by one, each by its own index.
 */
export function dueRows(table: string, key: string, due: string, open: string): string {
  return `select r.${key} from ${table} r
           where r.${open} and r.${due} <= statement_timestamp()
             and ($1::text is null or (r.account = $1 and r.mode = 'test'))
          union all
          select r.${key} from clocks c join ${table} r on r.account = c.account and r.mode = 'test'
           where c.offset_ms > 0 and r.${open} and r.${due} <= ${nowBy("c")}
             and ($1::text is null or c.account = $1)`;
}
