// The vault: raw details of payers and destinations under an operation's id, sealed. Nothing of them is stored anywhere else.

import assert from "node:assert/strict";
import type { Mode } from "@cauri/money/mode";
import { pgBytesArray, pgTextArray } from "@cauri/store/arrays";
import type { Cipher } from "@cauri/store/cipher";
import { coalescePer } from "@cauri/store/coalescer";
import { type Pool, type Queryable, single, type Tx, transact } from "@cauri/store/pool";
import { rowsOf } from "@cauri/store/rows";
import { TOGETHER } from "./together.ts";

/** What no attempt came to need is erased after this time; real time, since it is a promise about people's data. */
const TRANSIENT_HOURS = 24;
export const LOOKED_AT_ONCE = 2_000;

type Owner = { readonly operation_id: string; readonly account: string; readonly mode: Mode };
/** `transient`: erased after a day unless an attempt names it. `lasting`: kept until its owner lets it go. */
export type Retention = "transient" | "lasting";
type Details = { readonly plain: Buffer; readonly retention: Retention };
type Sealed = Owner & { readonly retention: Retention; readonly key_id: string; readonly sealed: Buffer };

/** Keeps details under an operation; those of the same moment share a statement. */
export async function keepDetails(pool: Pool, cipher: Cipher, owner: Owner, details: Details): Promise<void> {
  const { plain, retention } = details;
  const sealed = cipher.seal(plain, place(owner.operation_id));
  const { operation_id, account, mode } = owner;
  if (await insertSealed(pool, { operation_id, account, mode, retention, key_id: cipher.keyId, sealed })) return;
  await transact(pool, (tx) => keepInVault(tx, cipher, owner, details));
}

const insertSealed = coalescePer<Pool, Sealed, boolean>((pool) => ({
  run: (batch) => insertAll(pool, batch),
  ...TOGETHER,
}));

/** Whether each was new. */
async function insertAll(pool: Pool, batch: readonly Sealed[]): Promise<boolean[]> {
  const { rows } = await single<{ operation_id: string }>(
    pool,
    `insert into vault (operation_id, account, mode, retention, key_id, sealed)
     select v.operation_id, v.account, v.mode, v.retention, v.key_id, v.sealed
       from ${rowsOf("operation_id text, account text, mode text, retention text, key_id text, sealed bytea")} as v
      order by v.operation_id
     on conflict (operation_id) do nothing returning operation_id`,
    [
      pgTextArray(batch.map(({ operation_id }) => operation_id)),
      pgTextArray(batch.map(({ account }) => account)),
      pgTextArray(batch.map(({ mode }) => mode)),
      pgTextArray(batch.map(({ retention }) => retention)),
      pgTextArray(batch.map(({ key_id }) => key_id)),
      pgBytesArray(batch.map(({ sealed }) => sealed)),
    ],
  );
  const inserted = new Set(rows.map(({ operation_id }) => operation_id));
  // Of two for one operation the first is the one that was inserted; the other is compared with it.
  return batch.map(({ operation_id }) => inserted.delete(operation_id));
}

/** Keeps details under an operation. The same again changes nothing; others under the same id are a bug. */
export async function keepInVault(tx: Tx, cipher: Cipher, owner: Owner, details: Details): Promise<void> {
  const { plain, retention } = details;
  const { rowCount } = await tx.query(
    `insert into vault (operation_id, account, mode, retention, key_id, sealed)
     values ($1, $2, $3, $4, $5, $6) on conflict (operation_id) do nothing`,
    [
      owner.operation_id,
      owner.account,
      owner.mode,
      retention,
      cipher.keyId,
      cipher.seal(plain, place(owner.operation_id)),
    ],
  );
  if (rowCount === 1) return;
  const { rows } = await tx.query<{ account: string; mode: Mode; sealed: Buffer }>(
    "select account, mode, sealed from vault where operation_id = $1",
    [owner.operation_id],
  );
  const kept = rows[0];
  // Gone between the two statements: erased for its age. The caller's repetition keeps it anew.
  if (kept === undefined) throw Object.assign(new Error("a vault entry was erased meanwhile"), { unavailable: true });
  const same = cipher.open(kept.sealed, place(owner.operation_id)).equals(plain);
  assert(same && kept.account === owner.account && kept.mode === owner.mode, "one operation has one party");
}

/**
 * Copies what is kept under one id to an operation of the same account that is about to be sent, sealed anew for its place,
 * and answers it; null: nothing of this account is kept under that id. Copied again it is the same, and kept anew: the copy
 * of an approval that was refused must not be erased under the next one.
 */
export function copyInVault(pool: Pool, cipher: Cipher, kept_as: string, owner: Owner): Promise<Buffer | null> {
  const { operation_id, account, mode } = owner;
  return transact(pool, async (tx) => {
    const { rows } = await tx.query<{ sealed: Buffer }>(
      "select sealed from vault where operation_id = $1 and account = $2",
      [kept_as, account],
    );
    const kept = rows[0];
    if (kept === undefined) return null;
    const plain = cipher.open(kept.sealed, place(kept_as));
    const { rowCount } = await tx.query(
      `insert into vault as v (operation_id, account, mode, retention, key_id, sealed)
       values ($1, $2, $3, 'transient', $4, $5)
       on conflict (operation_id) do update
          set key_id = excluded.key_id, sealed = excluded.sealed, kept_at = clock_timestamp()
        where v.account = excluded.account and v.mode = excluded.mode
          and not exists (select from attempts a where a.operation_id = v.operation_id)`,
      [operation_id, account, mode, cipher.keyId, cipher.seal(plain, place(operation_id))],
    );
    assert(rowCount === 1, "one operation has one destination once it is sent");
    return plain;
  });
}

/** The details of an operation; undefined where none were given. */
export async function openVault(db: Queryable, cipher: Cipher, operation_id: string): Promise<Buffer | undefined> {
  return openSealed(cipher, operation_id, (await readSealed(db, [operation_id])).get(operation_id));
}

/** What the vault has under many ids, sealed; one without is missing. */
export async function readSealed(db: Queryable, operation_ids: readonly string[]): Promise<Map<string, Buffer>> {
  if (operation_ids.length === 0) return new Map();
  const { rows } = await db.query<{ operation_id: string; sealed: Buffer }>(
    "select operation_id, sealed from vault where operation_id = any($1::text[])",
    [pgTextArray(operation_ids)],
  );
  return new Map(rows.map(({ operation_id, sealed }) => [operation_id, sealed]));
}

/** Opens what stands in the vault under this id, if anything does. */
export function openSealed(
  cipher: Cipher,
  operation_id: string,
  sealed: Buffer | null | undefined,
): Buffer | undefined {
  return sealed == null ? undefined : cipher.open(sealed, place(operation_id));
}

/**
 * Erases what was kept for an operation that never came, looking through what has come of age since it last looked: an
 * attempt is never deleted, so what one names then is needed for good. One process looks at a time.
 */
export async function eraseTransient(
  pool: Pool,
  limit = LOOKED_AT_ONCE,
): Promise<{ readonly erased: number; readonly looked_at: number }> {
  const { rows } = await pool.query<{ erased: number; looked_at: number }>(
    `with looked as materialized (select until from vault_looked for update skip locked),
          due as materialized (
            select v.operation_id, v.kept_at from vault v
             where v.retention = 'transient' and v.kept_at > (select until from looked)
               and v.kept_at <= statement_timestamp() - $1 * interval '1 hour'
             order by v.kept_at limit $2),
          -- Of those kept in the very same microsecond the limit may have cut some off.
          gone as (
            delete from vault v
             where v.retention = 'transient' and v.kept_at >= (select min(kept_at) from due)
               and v.kept_at <= (select max(kept_at) from due)
               and not exists (select from attempts a where a.operation_id = v.operation_id)
            returning v.operation_id),
          moved as (update vault_looked set until = (select max(kept_at) from due) where exists (select from due))
     select (select count(operation_id)::integer from gone) as erased,
            (select count(operation_id)::integer from due) as looked_at`,
    [TRANSIENT_HOURS, limit],
  );
  return rows[0] ?? { erased: 0, looked_at: 0 };
}

/** Binds a sealed value to its row, so that a row copied over another one does not open. */
function place(operation_id: string): string {
  return `vault:${operation_id}`;
}
