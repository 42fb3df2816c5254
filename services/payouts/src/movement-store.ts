// Transfers and rebalances in SQL: the intent, and the rows in which each side sees what was done.

import type { Mode } from "@cauri/money/mode";
import type { OperationRef } from "@cauri/money/reference";
import { pgTextArray } from "@cauri/store/arrays";
import { findNamed } from "@cauri/store/find";
import { type ListPage, type ListQuery, listPage } from "@cauri/store/lists";
import { type Pool, type Queryable, snapshot, type Tx } from "@cauri/store/pool";
import type { Movement, MovementKind, Rebalance, Transfer } from "./movement.ts";

type Row<T> = T & { readonly n: bigint; readonly status: string };
type Seen = { readonly transfer: Transfer; readonly rebalance: Rebalance };
const TABLES = { transfer: "transfers", rebalance: "rebalances" } as const;

/** Writes the intents down; they come back in the order in which they were given. */
export async function insertMovements(tx: Tx, movements: readonly Movement[]): Promise<readonly Movement[]> {
  const given = movements.map(({ amount_minor, ...movement }) => ({ ...movement, amount_minor: String(amount_minor) }));
  await tx.query(
    `insert into movements (id, kind, account, mode, reference, client_ref, amount_minor, asset_id, platform_id, receiver,
                            to_platform_id, description, metadata)
     select * from json_to_recordset($1::json) as g (
       id text, kind text, account text, mode text, reference text, client_ref text, amount_minor bigint, asset_id text,
       platform_id text, receiver text, to_platform_id text, description text, metadata json)`,
    [JSON.stringify(given)],
  );
  return movements;
}

export async function findMovement(db: Queryable, id: string): Promise<Movement | null> {
  const { rows } = await db.query<Movement & { is_done: boolean }>("select * from movements where id = $1", [id]);
  return rows[0] ?? null;
}

export async function eraseMovement(tx: Tx, id: string): Promise<void> {
  await tx.query("delete from movements where id = $1 and not is_done", [id]);
}

/** Each transfer becomes visible to its two accounts, each in its own list; the sender's row of each comes back. */
export async function showTransfers(tx: Tx, ids: readonly string[]): Promise<Transfer[]> {
  const { rows } = await tx.query<Row<Transfer>>(
    `with done as (
       update movements set is_done = true where id = any($1::text[]) and kind = 'transfer' and not is_done returning *),
     sides as materialized (
       select s.*, row_number() over (order by s.id, s.direction) as ord from (
         select id, account as owner, 'out' as direction, client_ref as ref, metadata as notes from done
         union all
         select id, receiver, 'in', null, null from done) s),
     taken as (
       select * from number_rows('transfer',
         (select array_agg(s.owner order by s.ord) from sides s),
         (select array_agg(d.mode order by s.ord) from sides s join done d using (id))))
     insert into transfers (id, account, mode, n, reference, client_ref, status, direction, amount_minor, asset_id,
                            platform_id, source_account_id, destination_account_id, description, metadata, created_at)
     select d.id, s.owner, d.mode, t.n, d.reference, s.ref, 'success', s.direction, d.amount_minor, d.asset_id,
            d.platform_id, d.account, d.receiver, d.description, s.notes, t.created_at
       from sides s join done d using (id) join taken t on t.ord = s.ord
     returning *`,
    [pgTextArray(ids)],
  );
  return rows.filter(({ direction }) => direction === "out");
}

export async function showRebalances(tx: Tx, ids: readonly string[]): Promise<Rebalance[]> {
  const { rows } = await tx.query<Row<Rebalance>>(
    `with done as (
       update movements set is_done = true where id = any($1::text[]) and kind = 'rebalance' and not is_done returning *),
     given as materialized (select id, row_number() over (order by id) as ord from done),
     taken as (
       select * from number_rows('rebalance',
         (select array_agg(d.account order by g.ord) from given g join done d using (id)),
         (select array_agg(d.mode order by g.ord) from given g join done d using (id))))
     insert into rebalances (id, account, mode, n, reference, client_ref, status, amount_minor, asset_id,
                             from_platform_id, to_platform_id, metadata, created_at)
     select d.id, d.account, d.mode, t.n, d.reference, d.client_ref, 'success', d.amount_minor, d.asset_id,
            d.platform_id, d.to_platform_id, d.metadata, t.created_at
       from given g join done d using (id) join taken t on t.ord = g.ord
     returning *`,
    [pgTextArray(ids)],
  );
  return rows;
}

/** Within one account and mode; a transfer is found by its receiver too, by id or reference. */
export function findSeen<K extends MovementKind>(
  db: Queryable,
  kind: K,
  named: readonly OperationRef[],
  owner: { readonly account: string; readonly mode: Mode },
): Promise<Seen[K] | null> {
  return findNamed<Row<Seen[K]>>(db, TABLES[kind], named, owner);
}

export function listSeen<K extends MovementKind>(
  pool: Pool,
  kind: K,
  query: Omit<ListQuery, "table" | "kind">,
): Promise<ListPage<Seen[K]>> {
  return snapshot(pool, (tx) => listPage<Row<Seen[K]>>(tx, { ...query, table: TABLES[kind], kind }));
}
