// The inbox: an event is delivered at least once and counts once. It is marked in the transaction that applies it,
// so that a crash between the two can't lose it or apply it twice.

import { pgTextArray } from "./arrays.ts";
import type { Queryable, Tx } from "./pool.ts";

/** Marks events as seen by a consumer and returns those that it sees for the first time. */
export async function firstSeen(tx: Tx, consumer: string, event_ids: readonly string[]): Promise<Set<string>> {
  if (event_ids.length === 0) return new Set();
  // Sorted, so that two deliveries of overlapping batches wait for each other instead of deadlocking.
  const { rows } = await tx.query<{ event_id: string }>(
    `insert into inbox (consumer, event_id)
     select $1, e from unnest($2::text[]) as e order by e
     on conflict do nothing returning event_id`,
    [consumer, pgTextArray(event_ids)],
  );
  return new Set(rows.map((row) => row.event_id));
}

/** Forgets what was seen before an instant; it must lie further back than the stream keeps its messages. */
export async function purgeInbox(db: Queryable, seen_before: Date, limit = 5000): Promise<number> {
  const { rowCount } = await db.query(
    `delete from inbox where (consumer, event_id) in
       (select consumer, event_id from inbox where seen_at < $1 order by seen_at limit $2 for update skip locked)`,
    [seen_before, limit],
  );
  return rowCount ?? 0;
}
