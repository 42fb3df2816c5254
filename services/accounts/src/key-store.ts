// API keys in SQL. The end of a key is real time and the database's: the overlap of a rotation never follows a test clock.

import type { Mode } from "@cauri/money/mode";
import type { Queryable, Tx } from "@cauri/store/pool";
import type { AccountStatus } from "./account.ts";
import type { Key } from "./key.ts";

const COLUMNS = "key_id, account_id, mode, scopes, name, created_at, revoked_at, expires_at, replaced_by";

export type NewKey = Pick<Key, "key_id" | "account_id" | "mode" | "scopes" | "name"> & { readonly hmac: Buffer };

/** What the edge needs to decide on a request; see `resolveKey`. */
export type Resolved = {
  readonly key_id: string;
  readonly account_id: string;
  readonly mode: Mode;
  readonly scopes: string[];
  readonly expires_at: Date | null;
  readonly status: AccountStatus;
  readonly closing_since: Date | null;
  readonly is_live: boolean;
  readonly products: string[];
  readonly options: string[];
};

export async function insertKey(tx: Tx, key: NewKey): Promise<Key> {
  const { rows } = await tx.query<Key>(
    `insert into keys (key_id, account_id, mode, scopes, name, hmac)
     values ($1, $2, $3, $4, $5, $6) returning ${COLUMNS}`,
    [key.key_id, key.account_id, key.mode, key.scopes, key.name, key.hmac],
  );
  const [row] = rows;
  if (row === undefined) throw new Error("an insert answered no row");
  return row;
}

/** The account of a key, without a lock: accounts are locked before their keys, so this is asked first. */
export async function accountOfKey(db: Queryable, key_id: string): Promise<string | null> {
  const { rows } = await db.query<{ account_id: string }>("select account_id from keys where key_id = $1", [key_id]);
  return rows[0]?.account_id ?? null;
}

/** The key with its row locked, and the database's clock read after the lock was had. */
export async function lockKey(tx: Tx, key_id: string): Promise<{ key: Key; now: Date } | null> {
  const { rows } = await tx.query<Key>(`select ${COLUMNS} from keys where key_id = $1 for update`, [key_id]);
  const [key] = rows;
  if (key === undefined) return null;
  const clock = await tx.query<{ now: Date }>("select clock_timestamp() as now");
  const now = clock.rows[0]?.now;
  if (now === undefined) throw new Error("the database told no time");
  return { key, now };
}

/** Ends a key in favour of its successor: at once, or after an overlap that never outlasts an end set before. */
export async function replaceKey(tx: Tx, key_id: string, replaced_by: string, overlap_s: number): Promise<void> {
  await tx.query(
    `update keys set replaced_by = $2,
       revoked_at = case when $3::int = 0 then clock_timestamp() end,
       expires_at = case when $3::int = 0 then expires_at
         else least(expires_at, clock_timestamp() + $3::int * interval '1 second') end
     where key_id = $1 and revoked_at is null`,
    [key_id, replaced_by, overlap_s],
  );
}

/** Ends a key now; one that was revoked before keeps its first instant. */
export async function revokeKey(tx: Tx, key_id: string): Promise<Key | null> {
  const { rows } = await tx.query<Key>(
    `update keys set revoked_at = coalesce(revoked_at, clock_timestamp()) where key_id = $1 returning ${COLUMNS}`,
    [key_id],
  );
  return rows[0] ?? null;
}

/** The keys of an account, newest first. */
export async function listKeys(db: Queryable, account_id: string): Promise<Key[]> {
  const { rows } = await db.query<Key>(
    `select ${COLUMNS} from keys where account_id = $1 order by created_at desc, key_id desc`,
    [account_id],
  );
  return rows;
}

/** Who presents a key: null when it is unknown, revoked, past its end, or its account is closed; these are not told apart. */
export async function resolveKey(db: Queryable, hmac: Uint8Array): Promise<Resolved | null> {
  const { rows } = await db.query<Resolved>(
    `select k.key_id, k.account_id, k.mode, k.scopes, k.expires_at,
            a.status, a.closing_since, a.is_live, a.products, a.options
     from keys k join accounts a using (account_id)
     where k.hmac = $1 and k.revoked_at is null
       and (k.expires_at is null or k.expires_at > clock_timestamp()) and a.status <> 'closed'`,
    [Buffer.from(hmac)],
  );
  return rows[0] ?? null;
}
