// The vault: raw payer details under an operation's id, sealed. Nothing of them is stored anywhere else.

import assert from "node:assert/strict";
import type { Mode } from "@cauri/money/mode";
import type { Cipher } from "@cauri/store/cipher";
import type { Pool, Queryable, Tx } from "@cauri/store/pool";
import { type Payer, readPayer, writePayer } from "./payer.ts";

/** What no attempt came to need is erased after this time; real time, since it is a promise about people's data. */
const TRANSIENT_HOURS = 24;
const ERASE_AT_ONCE = 1_000;

type Owner = { readonly operation_id: string; readonly account: string; readonly mode: Mode };

/** Keeps a payer under an operation. The same again changes nothing; another one under the same id is a bug. */
export async function keepInVault(tx: Tx, cipher: Cipher, owner: Owner, payer: Payer): Promise<void> {
  const plain = writePayer(payer);
  const { rowCount } = await tx.query(
    `insert into vault (operation_id, account, mode, retention, key_id, sealed)
     values ($1, $2, $3, 'transient', $4, $5) on conflict (operation_id) do nothing`,
    [owner.operation_id, owner.account, owner.mode, cipher.keyId, cipher.seal(plain, place(owner.operation_id))],
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
  assert(same && kept.account === owner.account && kept.mode === owner.mode, "one operation has one payer");
}

/** The payer of an operation; empty when none was given. */
export async function openVault(db: Queryable, cipher: Cipher, operation_id: string): Promise<Payer> {
  const { rows } = await db.query<{ sealed: Buffer }>("select sealed from vault where operation_id = $1", [
    operation_id,
  ]);
  const sealed = rows[0]?.sealed;
  return sealed === undefined ? {} : readPayer(cipher.open(sealed, place(operation_id)));
}

/** Erases what was kept for an operation that never came; returns how many. */
export async function eraseTransient(pool: Pool): Promise<number> {
  const { rowCount } = await pool.query(
    `delete from vault where operation_id in
       (select v.operation_id from vault v
         where v.retention = 'transient' and v.kept_at < clock_timestamp() - $1 * interval '1 hour'
           and not exists (select from attempts a where a.operation_id = v.operation_id)
         order by v.kept_at limit $2 for update skip locked)`,
    [TRANSIENT_HOURS, ERASE_AT_ONCE],
  );
  return rowCount ?? 0;
}

/** Binds a sealed value to its row, so that a row copied over another one does not open. */
function place(operation_id: string): string {
  return `vault:${operation_id}`;
}
