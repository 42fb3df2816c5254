// SQL of callbacks: each is kept once, sealed, and waits 24 h for the attempt that it speaks of.

import { pgBytesArray, pgNumArray, pgTextArray } from "@cauri/store/arrays";
import type { Cipher } from "@cauri/store/cipher";
import type { Tx } from "@cauri/store/pool";
import { rowsOf } from "@cauri/store/rows";

/** How long an unknown callback is matched again; real time. */
const WAIT_HOURS = 24;

export type StoredCallback = {
  readonly connector: string;
  readonly callback_id: string;
  readonly reference: string;
  /** The verdict on the message and its body, in the clear of memory only. */
  readonly raw: Buffer;
};

/** What became of a callback: it came before, its attempt is there, or nobody knows it yet. */
export type Kept = "repeated" | "matched" | "unmatched";

/** Keeps callbacks, each once, and answers in their order; the same message again only counts. */
export async function keepCallbacks(tx: Tx, cipher: Cipher, callbacks: readonly StoredCallback[]): Promise<Kept[]> {
  const times = new Map<string, number>();
  for (const callback of callbacks) times.set(nameOf(callback), (times.get(nameOf(callback)) ?? 0) + 1);
  const once = [...new Map(callbacks.map((callback) => [nameOf(callback), callback])).values()];
  const { rows } = await tx.query<
    Pick<StoredCallback, "connector" | "callback_id"> & { is_new: boolean; known: boolean }
  >(
    `insert into callbacks as c (connector, callback_id, reference, key_id, sealed, times_received, matched_at)
     select k.connector, k.callback_id, k.reference, $6, k.sealed, k.times,
            (select clock_timestamp() from attempts a where a.reference = k.reference and a.connector = k.connector)
       from ${rowsOf("connector text, callback_id text, reference text, sealed bytea, times integer")} as k
      order by k.connector, k.callback_id
     on conflict (connector, callback_id) do update set times_received = c.times_received + excluded.times_received
     returning connector, callback_id, xmax = 0 as is_new, matched_at is not null as known`,
    [
      pgTextArray(once.map(({ connector }) => connector)),
      pgTextArray(once.map(({ callback_id }) => callback_id)),
      pgTextArray(once.map(({ reference }) => reference)),
      pgBytesArray(once.map((callback) => cipher.seal(callback.raw, nameOf(callback)))),
      pgNumArray(once.map((callback) => times.get(nameOf(callback)) ?? 1)),
      cipher.keyId,
    ],
  );
  const kept = new Map<string, Kept>(
    rows.map((row) => [nameOf(row), row.is_new ? (row.known ? "matched" : "unmatched") : "repeated"]),
  );
  return callbacks.map((callback) => {
    const became = kept.get(nameOf(callback)) ?? "repeated";
    // Of two in this very batch the second is a repetition.
    kept.set(nameOf(callback), "repeated");
    return became;
  });
}

export async function markMatched(tx: Tx, callbacks: readonly StoredCallback[]): Promise<void> {
  if (callbacks.length === 0) return;
  await tx.query(
    `update callbacks c set matched_at = clock_timestamp()
       from ${rowsOf("connector text, callback_id text")} as m
      where c.connector = m.connector and c.callback_id = m.callback_id and c.matched_at is null`,
    [pgTextArray(callbacks.map(({ connector }) => connector)), pgTextArray(callbacks.map((one) => one.callback_id))],
  );
}

/** Locks callbacks nobody knew whose attempt exists by now; what is in them is opened only here. */
export async function lockMatchable(tx: Tx, cipher: Cipher, limit: number): Promise<StoredCallback[]> {
  const { rows } = await tx.query<Omit<StoredCallback, "raw"> & { sealed: Buffer }>(
    `select c.connector, c.callback_id, c.reference, c.sealed from callbacks c
      where c.matched_at is null and c.received_at > statement_timestamp() - $1 * interval '1 hour'
        and exists (select from attempts a where a.reference = c.reference and a.connector = c.connector)
      order by c.received_at limit $2 for update of c skip locked`,
    [WAIT_HOURS, limit],
  );
  return rows.map(({ sealed, ...callback }) => ({
    ...callback,
    raw: cipher.open(sealed, nameOf(callback)),
  }));
}

/** Names a callback and binds what is sealed to its row. */
function nameOf({ connector, callback_id }: Pick<StoredCallback, "connector" | "callback_id">): string {
  return `callback:${connector}:${callback_id}`;
}
