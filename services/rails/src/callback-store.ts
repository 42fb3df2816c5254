// SQL of callbacks: each is kept once, sealed, and waits 24 h for the attempt that it speaks of.

import type { Cipher } from "@cauri/store/cipher";
import type { Tx } from "@cauri/store/pool";

/** How long an unknown callback is matched again; real time. */
const WAIT_HOURS = 24;

export type StoredCallback = {
  readonly connector: string;
  readonly callback_id: string;
  readonly reference: string;
  /** The verdict on the message and its body, in the clear of memory only. */
  readonly raw: Buffer;
};

/** Keeps a callback; `repeated`: this message came before and was counted. */
export async function keepCallback(
  tx: Tx,
  cipher: Cipher,
  callback: StoredCallback,
): Promise<{ readonly repeated: boolean }> {
  const sealed = cipher.seal(callback.raw, place(callback.connector, callback.callback_id));
  const { rows } = await tx.prepared<{ times_received: number }>(
    {
      name: "callback_keep",
      text: `insert into callbacks as c (connector, callback_id, reference, key_id, sealed)
             values ($1, $2, $3, $4, $5)
             on conflict (connector, callback_id) do update set times_received = c.times_received + 1
             returning times_received`,
    },
    [callback.connector, callback.callback_id, callback.reference, cipher.keyId, sealed],
  );
  return { repeated: (rows[0]?.times_received ?? 1) > 1 };
}

export async function markMatched(tx: Tx, connector: string, callback_id: string): Promise<void> {
  await tx.prepared(
    {
      name: "callback_match",
      text: `update callbacks set matched_at = clock_timestamp()
              where connector = $1 and callback_id = $2 and matched_at is null`,
    },
    [connector, callback_id],
  );
}

/** Locks callbacks nobody knew whose attempt exists by now; what is in them is opened only here. */
export async function lockMatchable(tx: Tx, cipher: Cipher, limit: number): Promise<StoredCallback[]> {
  const { rows } = await tx.query<Omit<StoredCallback, "raw"> & { sealed: Buffer }>(
    `select c.connector, c.callback_id, c.reference, c.sealed from callbacks c
      where c.matched_at is null and c.received_at > clock_timestamp() - $1 * interval '1 hour'
        and exists (select from attempts a where a.reference = c.reference and a.connector = c.connector)
      order by c.received_at limit $2 for update of c skip locked`,
    [WAIT_HOURS, limit],
  );
  return rows.map(({ sealed, ...callback }) => ({
    ...callback,
    raw: cipher.open(sealed, place(callback.connector, callback.callback_id)),
  }));
}

function place(connector: string, callback_id: string): string {
  return `callback:${connector}:${callback_id}`;
}
