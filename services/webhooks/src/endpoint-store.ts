// SQL of endpoints. Every write of an account takes the account's row of endpoint_counts first, so that ten endpoints
// and one per URL hold however many registrations run at once.

import type { Queryable, Tx } from "@cauri/store/pool";
import { MAX_ENDPOINTS } from "./endpoint.ts";

export type Endpoint = {
  readonly id: bigint;
  readonly operation_id: string;
  readonly account: string;
  readonly url: string;
  readonly description: string | null;
  readonly subscribed_events: readonly string[];
  readonly is_active: boolean;
  readonly standard_headers: boolean;
  readonly secret_sealed: Buffer;
  /** The secret before the current one; null when no rotation is under way, also when its time has just run out. */
  readonly previous_sealed: Buffer | null;
  readonly previous_until: Date | null;
  readonly rotation_id: string | null;
  readonly consecutive_failures: number;
  readonly suspended_until: Date | null;
  readonly last_delivery_at: Date | null;
  readonly last_success_at: Date | null;
  readonly last_failure_at: Date | null;
  readonly created_at: Date;
  readonly updated_at: Date;
};

const COLUMNS = `id, operation_id, account, url, description, subscribed_events, is_active, standard_headers, secret_sealed,
  case when previous_until > statement_timestamp() then previous_sealed end as previous_sealed,
  case when previous_until > statement_timestamp() then previous_until end as previous_until, rotation_id,
  consecutive_failures, suspended_until, last_delivery_at, last_success_at, last_failure_at, created_at, updated_at`;

export type NewEndpoint = Pick<
  Endpoint,
  "operation_id" | "account" | "url" | "description" | "subscribed_events" | "standard_headers" | "secret_sealed"
>;

export async function lockAccount(tx: Tx, account: string): Promise<void> {
  await tx.query("insert into endpoint_counts (account) values ($1) on conflict (account) do nothing", [account]);
  await tx.query("select 1 from endpoint_counts where account = $1 for update", [account]);
}

/** Inserts one, or answers null when the account has its ten. The account must be locked. */
export async function insertEndpoint(tx: Tx, made: NewEndpoint): Promise<Endpoint | null> {
  const { rows } = await tx.query<Endpoint>(
    `insert into endpoints (operation_id, account, url, description, subscribed_events, standard_headers, secret_sealed)
     select $1, $2, $3, $4, $5, $6, $7
      where (select count(id) from endpoints where account = $2) < $8
     returning ${COLUMNS}`,
    [
      made.operation_id,
      made.account,
      made.url,
      made.description,
      made.subscribed_events,
      made.standard_headers,
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

/** The numbers of an account's endpoints, of which there are ten at most. */
export async function endpointIds(db: Queryable, account: string): Promise<bigint[]> {
  const { rows } = await db.query<{ id: bigint }>("select id from endpoints where account = $1", [account]);
  return rows.map(({ id }) => id);
}

/** Writes what a merchant may change; the row must be locked. */
export async function updateEndpoint(
  tx: Tx,
  changed: Pick<Endpoint, "id" | "url" | "description" | "subscribed_events" | "is_active" | "standard_headers">,
): Promise<Endpoint | null> {
  const { rows } = await tx.query<Endpoint>(
    `update endpoints set url = $2, description = $3, subscribed_events = $4, is_active = $5,
            standard_headers = $6, updated_at = now()
      where id = $1 returning ${COLUMNS}`,
    [
      changed.id,
      changed.url,
      changed.description,
      changed.subscribed_events,
      changed.is_active,
      changed.standard_headers,
    ],
  );
  return rows[0] ?? null;
}

/** Deletes it; nothing of what waits for it is sent any more, and `forgetRemoved` clears that away. Tells whether it was there. */
export async function deleteEndpoint(db: Queryable, account: string, id: bigint): Promise<boolean> {
  const { rowCount } = await db.query(
    `with gone as (delete from endpoints where account = $1 and id = $2 returning id)
     insert into removals (endpoint_id) select id from gone`,
    [account, id],
  );
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

/** The current secret becomes the previous one for the overlap (none at 0); the row must be locked. */
export async function replaceSecret(
  tx: Tx,
  id: bigint,
  by: { readonly secret_sealed: Buffer; readonly overlap_s: number; readonly rotation_id: string },
): Promise<Endpoint | null> {
  const { rows } = await tx.query<Endpoint>(
    `update endpoints
        set secret_sealed = $2, rotation_id = $4, updated_at = now(),
            previous_sealed = case when $3::int > 0 then secret_sealed end,
            previous_until = case when $3::int > 0 then statement_timestamp() + $3::int * interval '1 second' end
      where id = $1 returning ${COLUMNS}`,
    [id, by.secret_sealed, by.overlap_s, by.rotation_id],
  );
  return rows[0] ?? null;
}

/** Erases previous secrets whose time has run out; answers how many. */
export async function erasePreviousSecrets(db: Queryable): Promise<number> {
  const { rowCount } = await db.query(
    `update endpoints set previous_sealed = null, previous_until = null where previous_until <= statement_timestamp()`,
  );
  return rowCount ?? 0;
}

/** Locks some endpoints that hold a value sealed by another key than this one; those that are locked are left for later. */
export async function lockSealedByOthers(
  tx: Tx,
  key_id: string,
  limit: number,
): Promise<Pick<Endpoint, "id" | "operation_id" | "secret_sealed" | "previous_sealed">[]> {
  const { rows } = await tx.query<Endpoint>(
    `select id, operation_id, secret_sealed, previous_sealed from endpoints
      where sealed_by(secret_sealed) <> $1 or sealed_by(previous_sealed) <> $1
      order by id limit $2 for no key update skip locked`,
    [key_id, limit],
  );
  return rows;
}

/** Writes values that were sealed again; the row must be locked. */
export async function writeSealed(
  tx: Tx,
  { id, secret_sealed, previous_sealed }: Pick<Endpoint, "id" | "secret_sealed" | "previous_sealed">,
): Promise<void> {
  await tx.query("update endpoints set secret_sealed = $2, previous_sealed = $3 where id = $1", [
    id,
    secret_sealed,
    previous_sealed,
  ]);
}
