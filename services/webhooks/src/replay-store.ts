// SQL that begins a delivery anew: what ended is pending again, for another round of the ladder under the same event id.

import { pgNumArray, pgTextArray } from "@cauri/store/arrays";
import type { Tx } from "@cauri/store/pool";
import type { Place } from "./cursor.ts";
import type { Span } from "./log-store.ts";

/**
 * Endpoints of the account under their locks, as whoever claims and ends attempts takes them: so nothing is claimed, ended
 * or deleted there for the rest of the transaction.
 */
export async function lockEndpoints(tx: Tx, account: string, endpoint_id: bigint | undefined): Promise<bigint[]> {
  const { rows } = await tx.query<{ id: bigint }>(
    `select id from endpoints where account = $1 and ($2::bigint is null or id = $2)
      order by id for no key update`,
    [account, endpoint_id ?? null],
  );
  return rows.map(({ id }) => id);
}

/** The oldest ended deliveries after a place that this replay has not begun anew yet. */
export async function findReplayable(
  tx: Tx,
  endpoints: readonly bigint[],
  wanted: Span & {
    readonly include_delivered: boolean;
    readonly replay_id: string;
    readonly after: Place | null;
    readonly limit: number;
  },
): Promise<Place[]> {
  const { rows } = await tx.query<{ id: string; at: Date }>(
    `select d.id, d.occurred_at as at
       from unnest($1::bigint[]) as of (endpoint_id)
      cross join lateral (
        select s.id, s.occurred_at from deliveries s
         where s.endpoint_id = of.endpoint_id and ${wanted.include_delivered ? "s.status <> 'pending'" : "s.status = 'failed'"}
           and s.occurred_at >= $2::timestamptz and s.occurred_at < $3::timestamptz
           and (s.occurred_at, s.id) > ($4::timestamptz, $5::text)
           and s.replay_id is distinct from $6
         order by s.occurred_at, s.id limit $7) d
      order by d.occurred_at, d.id limit $7`,
    [
      pgNumArray(endpoints),
      wanted.from ?? "-infinity",
      wanted.to ?? "infinity",
      wanted.after?.at ?? "-infinity",
      wanted.after?.id ?? "",
      wanted.replay_id,
      wanted.limit,
    ],
  );
  return rows;
}

/**
 * Begins a new round of those that have ended and that this replay has not begun before; answers how many. The endpoints
 * must be locked. A result that still comes from the round before moves nothing: an ended delivery has no flight, and the
 * new round's has another number. A new round's first attempt holds back later events of its operation as a first one does.
 */
export async function beginAnew(tx: Tx, ids: readonly string[], replay_id: string): Promise<number> {
  const { rowCount } = await tx.query(
    `with begun as (
       update deliveries d
          set status = 'pending', attempts = 0, due_at = now_of(d.account, d.mode), ended_at = null, replay_id = $2,
              last_error = null, last_status_code = null
         from (select id from deliveries
                where id = any($1::text[]) and status <> 'pending' and replay_id is distinct from $2
                order by id for update) l
        where d.id = l.id
       returning d.id, d.endpoint_id, d.mode, d.due_at, d.operation_id, d.version)
     insert into queue (endpoint_id, mode, due_at, delivery_id, operation_id, version, attempts)
     select endpoint_id, mode, due_at, id, operation_id, version, 0 from begun`,
    [pgTextArray(ids), replay_id],
  );
  return rowCount ?? 0;
}
