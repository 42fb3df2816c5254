// SQL of asking: which attempts are due to be asked for, and when they are asked for next.

import { pgNumArray, pgTextArray } from "@cauri/store/arrays";
import type { Tx } from "@cauri/store/pool";
import { rowsOf } from "@cauri/store/rows";
import { type Attempt, READ_ATTEMPT } from "./attempt-store.ts";
import { dueRows } from "./due.ts";

/** Hints came in: the rails are asked as soon as the poller can. */
export async function pollNow(tx: Tx, operation_ids: readonly string[]): Promise<void> {
  if (operation_ids.length === 0) return;
  await tx.query(
    `update attempts set next_poll_at = now_of(account, mode)
      where operation_id = any($1::text[])
        and (state in ('sending', 'unknown', 'pending') or (kind <> 'collection' and state = 'success'))`,
    [pgTextArray(operation_ids)],
  );
}

const FREE = "r.next_poll_at is not null and coalesce(r.lease_until <= statement_timestamp(), true)";

/** Locks attempts whose rail is due to be asked, of one account's test mode or of all. */
export async function lockDuePolls(tx: Tx, account: string | null, limit: number): Promise<Attempt[]> {
  const { rows } = await tx.query<Attempt>(
    `${READ_ATTEMPT} where a.operation_id = any (array (${dueRows("attempts", "operation_id", "next_poll_at", FREE)}))
        and coalesce(a.lease_until <= statement_timestamp(), true)
      order by a.next_poll_at limit $2 for update of a skip locked`,
    [account, limit],
  );
  return rows;
}

/** Sets when each is asked next (null: never again), before it is asked: a process that dies asks a little later. */
export async function schedulePolls(
  tx: Tx,
  polls: readonly { readonly operation_id: string; readonly in_s: number | null }[],
): Promise<void> {
  if (polls.length === 0) return;
  await tx.query(
    `update attempts a
        set polls = a.polls + 1, next_poll_at = now_of(a.account, a.mode) + p.in_s * interval '1 second'
       from ${rowsOf("operation_id text, in_s bigint")} as p
      where a.operation_id = p.operation_id`,
    [pgTextArray(polls.map((poll) => poll.operation_id)), pgNumArray(polls.map((poll) => poll.in_s))],
  );
}
