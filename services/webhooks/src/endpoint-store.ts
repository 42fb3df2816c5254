// SQL of endpoints. Every write of an account takes the account's row of endpoint_counts first, so that ten endpoints
// and one per URL hold however many registrations run at once.

import type { Queryable, Tx } from "@cauri/store/pool";
import { type Health, MAX_ENDPOINTS } from "./endpoint.ts";

export type Endpoint = Health & {
  readonly id: bigint;
  readonly operation_id: string;
  readonly account: string;
  readonly url: string;
  readonly description: string | null;
  readonly subscribed_events: readonly string[];
  readonly is_active: boolean;
  readonly secret_sealed: Buffer;
  readonly last_delivery_at: Date | null;
  readonly last_success_at: Date | null;
  readonly last_failure_at: Date | null;
  readonly created_at: Date;
  readonly updated_at: Date;
};

const COLUMNS = `id, operation_id, account, url, description, subscribed_events, is_active, secret_sealed,
  consecutive_failures, suspended_until, last_delivery_at, last_success_at, last_failure_at, created_at, updated_at`;

export type NewEndpoint = Pick<
  Endpoint,
  "operation_id" | "account" | "url" | "description" | "subscribed_events" | "secret_sealed"
>;

export async function lockAccount(tx: Tx, account: string): Promise<void> {
  await tx.query("insert into endpoint_counts (account) values ($1) on conflict (account) do nothing", [account]);
  await tx.query("select 1 from endpoint_counts where account = $1 for update", [account]);
}

/** Inserts one, or answers null when the account has its ten. The account must be locked. */
export async function insertEndpoint(tx: Tx, made: NewEndpoint): Promise<Endpoint | null> {
  const { rows } = await tx.query<Endpoint>(
    `insert into endpoints (operation_id, account, url, description, subscribed_events, secret_sealed)
     select $1, $2, $3, $4, $5, $6
      where (select count(id) from endpoints where account = $2) < $7
     returning ${COLUMNS}`,
    [
      made.operation_id,
      made.account,
      made.url,
      made.description,
      made.subscribed_events,
      made.secret_sealed,
      MAX_ENDPOINTS,
    ],
  );
  return rows[0] ?? null;
}

export async function findByUrl(db: Queryable, account: string, url: string): Promise<Endpoint | null> {
  const { rows } = await db.query<Endpoint>(`select ${COLUMNS} from endpoints where account = $1 and url = $2`, [
    account,
    url,
  ]);
  return rows[0] ?? null;
}

export async function findByOperation(db: Queryable, account: string, operation_id: string): Promise<Endpoint | null> {
  const { rows } = await db.query<Endpoint>(
    `select ${COLUMNS} from endpoints where account = $1 and operation_id = $2`,
    [account, operation_id],
  );
  return rows[0] ?? null;
}

export async function findById(db: Queryable, account: string, id: bigint, lock = false): Promise<Endpoint | null> {
  const { rows } = await db.query<Endpoint>(
    `select ${COLUMNS} from endpoints where account = $1 and id = $2 ${lock ? "for update" : ""}`,
    [account, id],
  );
  return rows[0] ?? null;
}

/** Newest first; an account has at most ten. */
export async function listOf(db: Queryable, account: string): Promise<Endpoint[]> {
  const { rows } = await db.query<Endpoint>(`select ${COLUMNS} from endpoints where account = $1 order by id desc`, [
    account,
  ]);
  return rows;
}

/** Writes what a merchant may change; the row must be locked. */
export async function updateEndpoint(
  tx: Tx,
  changed: Pick<Endpoint, "id" | "url" | "description" | "subscribed_events" | "is_active">,
): Promise<Endpoint | null> {
  const { rows } = await tx.query<Endpoint>(
    `update endpoints set url = $2, description = $3, subscribed_events = $4, is_active = $5, updated_at = now()
      where id = $1 returning ${COLUMNS}`,
    [changed.id, changed.url, changed.description, changed.subscribed_events, changed.is_active],
  );
  return rows[0] ?? null;
}

/** Deletes it with everything that waits for it; tells whether it was there. */
export async function deleteEndpoint(db: Queryable, account: string, id: bigint): Promise<boolean> {
  const { rowCount } = await db.query("delete from endpoints where account = $1 and id = $2", [account, id]);
  return rowCount === 1;
}

/** A success outside the ladder, a test delivery's: counter and suspension end at once, nothing else is kept. */
export async function reinstate(db: Queryable, ids: readonly bigint[]): Promise<void> {
  await db.query(
    `update endpoints set consecutive_failures = 0, suspended_until = null
      where id = any($1::bigint[]) and (consecutive_failures > 0 or suspended_until is not null)`,
    [ids.map(String)],
  );
}
