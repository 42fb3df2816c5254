// Writes of a room's runners: those of the same moment share their statements and their commit.

import { holdLeases, type Lease } from "./claims.ts";
import { coalescePer } from "./coalescer.ts";
import { LeaseLost } from "./lease.ts";
import { type Pool, type Tx, transact } from "./pool.ts";

/** Writes of one transaction, how many may wait for the next one, and for how long. */
const MAX_BATCH = 100;
const MAX_WAITING = 2_000;
const MAX_WAIT_MS = 4_000;

export type Together<W, R> = {
  /** The operation that is written: of two writes of one operation the second is answered null. */
  readonly idOf: (write: W) => string;
  /** Writes all, and answers in their order; null where the operation was not in the state any more. */
  readonly write: (tx: Tx, writes: readonly W[]) => Promise<readonly (R | null)[]>;
  /** What becomes of the leases whose write stands, in the same transaction. */
  readonly end: (tx: Tx, leases: readonly Lease[]) => Promise<unknown>;
};

/**
 * A write of one operation, with the lease of its runner or without one. Null: look again. A lease that was taken over
 * fails its own write alone, with `LeaseLost`.
 */
export function writeTogether<W extends { readonly lease: Lease | null }, R>(
  options: Together<W, R>,
): (pool: Pool, write: W) => Promise<R | null> {
  return coalescePer<Pool, W, R | null>((pool) => ({
    run: (writes) => transact(pool, (tx) => writeAll(tx, writes, options)),
    max_batch: MAX_BATCH,
    max_waiting: MAX_WAITING,
    max_wait_ms: MAX_WAIT_MS,
    retry_alone: true,
  }));
}

async function writeAll<W extends { readonly lease: Lease | null }, R>(
  tx: Tx,
  writes: readonly W[],
  { idOf, write, end }: Together<W, R>,
): Promise<(R | null | LeaseLost)[]> {
  const held = await holdLeases(
    tx,
    writes.flatMap(({ lease }) => (lease === null ? [] : [lease])),
  );
  const stands = ({ lease }: W) => lease === null || held.get(lease.operation_id) === lease.lease_no;
  const ids = new Set<string>();
  const tried = writes.filter((one) => stands(one) && !ids.has(idOf(one)) && ids.add(idOf(one)));
  const results = await write(tx, tried);
  const written = new Map(tried.map((one, at) => [one, results[at] ?? null]));
  const ended = tried.flatMap((one) => (one.lease !== null && written.get(one) !== null ? [one.lease] : []));
  // Not awaited: it leaves together with the commit, where an error of it would surface.
  void end(tx, ended).catch(() => {});
  return writes.map((one) => (stands(one) ? (written.get(one) ?? null) : new LeaseLost(idOf(one))));
}
