// The frame around an operation's steps that every room has in common: begin under a lease, go on after a fault, sweep
// what nobody came back for. The steps themselves are the room's.

import { isRefusal, type Refusal, refuse } from "@cauri/money/refusal";
import {
  type ClaimRequest,
  claim,
  claimAll,
  type DueClaim,
  dueClaims,
  eraseClaim,
  type Lease,
  peek,
  peekAll,
  type Replayed,
  yieldLease,
} from "./claims.ts";
import { coalescePer } from "./coalescer.ts";
import { isUnavailable, type Log, type Pool, type Tx, transact } from "./pool.ts";
import { type Loop, startLoop } from "./sweeper.ts";

/** A crash is noticed within lease + grace + this: 9 s + 1 s at most leave no more. */
const SWEEP_EVERY_MS = 500;
const SWEEP_LIMIT = 100;
/** A take-over that met an absent room pauses so long, and so much longer each time, up to the length of a lease. */
const PAUSE_MS = 1_000;

/** Creations of one transaction: bounds how long it holds its locks. */
const BATCH = 100;
/** Creations that may wait for the next one: more than that is answered 503. */
const WAITING = 2_000;
/** Who waited this long for its turn gets its 503 while its caller (8 s) still listens. */
const WAIT_MS = 4_000;

export type { Lease } from "./claims.ts";

/** A new operation with what its first transaction wrote, or an interrupted one to go on with. */
export type Begun<Written> =
  | { readonly begun: "new"; readonly lease: Lease; readonly written: Written }
  | { readonly begun: "resumed"; readonly lease: Lease };

/**
 * Looks the request up, prepares what is new (other rooms are asked here, outside any transaction) and writes its first
 * row together with the claim. `prepare` answers a refusal, or what `write` needs.
 */
export async function beginOperation<Draft extends object, Written>(
  pool: Pool,
  request: ClaimRequest,
  steps: {
    readonly prepare: () => Promise<Draft | Refusal>;
    readonly write: (tx: Tx, draft: Draft, lease: Lease) => Promise<Written>;
  },
): Promise<Begun<Written> | Replayed | Refusal> {
  const seen = await peek(pool, request);
  if (seen !== null && !("resumable" in seen)) return seen;
  const draft = seen === null ? await steps.prepare() : null;
  if (isRefusal(draft)) return draft;
  return await transact(pool, async (tx) => {
    const claimed = await claim(tx, request);
    if (!("claimed" in claimed)) return claimed;
    const lease = { operation_id: claimed.operation_id, lease_no: claimed.lease_no };
    if (claimed.claimed === "resumed") return { begun: "resumed", lease } as const;
    if (draft === null) throw new Gone();
    return { begun: "new", lease, written: await steps.write(tx, draft, lease) } as const;
  }).catch((error: unknown) => {
    if (error instanceof Gone) return goneMeanwhile();
    throw error;
  });
}

type Start<Draft> = { readonly request: ClaimRequest; readonly draft: Draft | null };

/** Looks of the same moment share one statement. */
const look = coalescePer((pool: Pool) => ({
  run: (requests: ClaimRequest[]) => peekAll(pool, requests),
  max_batch: BATCH,
  max_waiting: WAITING,
}));

/**
 * `beginOperation` for a room that creates many: creations of the same moment share their statements and their commit.
 * One that fails fails alone: the others are begun again without it. `write` writes the first rows of all, in their order;
 * what only it can see (a lock is needed for it) may still refuse one, of which then nothing stays.
 */
export function beginTogether<Draft extends object, Written>(
  write: (tx: Tx, drafts: readonly Draft[]) => Promise<readonly (Written | Refusal)[]>,
): (
  pool: Pool,
  request: ClaimRequest,
  prepare: () => Promise<Draft | Refusal>,
) => Promise<Begun<Written> | Replayed | Refusal> {
  const start = coalescePer((pool: Pool) => ({
    run: (batch: Start<Draft>[]) => transact(pool, (tx) => startAll(tx, batch, write)),
    max_batch: BATCH,
    max_waiting: WAITING,
    max_wait_ms: WAIT_MS,
    retry_alone: true,
  }));
  return async (pool, request, prepare) => {
    const seen = await look(pool, request);
    if (seen !== null && !("resumable" in seen)) return seen;
    const draft = seen === null ? await prepare() : null;
    if (isRefusal(draft)) return draft;
    return await start(pool, { request, draft });
  };
}

async function startAll<Draft extends object, Written>(
  tx: Tx,
  batch: readonly Start<Draft>[],
  write: (tx: Tx, drafts: readonly Draft[]) => Promise<readonly (Written | Refusal)[]>,
): Promise<(Begun<Written> | Replayed | Refusal)[]> {
  const claims = await claimAll(
    tx,
    batch.map(({ request }) => request),
  );
  const is_new = (at: number) => {
    const claimed = claims[at];
    return claimed !== undefined && "claimed" in claimed && claimed.claimed === "new";
  };
  const drafts = batch.flatMap(({ draft }, at) => (draft !== null && is_new(at) ? [draft] : []));
  const written = drafts.length === 0 ? [] : [...(await write(tx, drafts))];
  const begun: (Begun<Written> | Replayed | Refusal)[] = [];
  for (const [at, claimed] of claims.entries()) {
    if (!("claimed" in claimed)) {
      begun.push(claimed);
      continue;
    }
    const lease = { operation_id: claimed.operation_id, lease_no: claimed.lease_no };
    if (claimed.claimed === "resumed") {
      begun.push({ begun: "resumed", lease });
      continue;
    }
    const first = batch[at]?.draft === null ? goneMeanwhile() : (written.shift() as Written | Refusal);
    if (isRefusal(first)) await eraseClaim(tx, lease.operation_id, lease.lease_no);
    begun.push(isRefusal(first) ? first : { begun: "new", lease, written: first });
  }
  return begun;
}

/** Runs steps under a lease; a fault gives the lease back, so that the caller's retry need not wait for its end. */
export async function underLease<T>(pool: Pool, lease: Lease, steps: () => Promise<T>): Promise<T> {
  try {
    return await steps();
  } catch (error) {
    // Where even this fails, the lease runs out by itself.
    await yieldLease(pool, lease.operation_id, lease.lease_no).catch(() => false);
    throw error;
  }
}

/**
 * Takes over what a crash or a silent merchant left behind and runs `resume` for each. One that meets an absent room gives
 * its lease back for a moment: a neighbour that only restarts costs little, one that stays away meets no storm. One that
 * fails otherwise keeps its lease, whose length is the pause before the next try.
 */
export function startOperationSweeper(options: {
  readonly pool: Pool;
  readonly lease_ms: number;
  readonly resume: (due: DueClaim) => Promise<unknown>;
  readonly log: Log;
}): Loop {
  const { pool, lease_ms, resume, log } = options;
  return startLoop({
    name: "operations",
    every_ms: SWEEP_EVERY_MS,
    work: () => sweepOnce(pool, lease_ms, resume, log),
    log,
  });
}

/** One round of the sweeper; true when there may be more. */
export async function sweepOnce(
  pool: Pool,
  lease_ms: number,
  resume: (due: DueClaim) => Promise<unknown>,
  log: Pick<Log, "error">,
): Promise<boolean> {
  const due = await transact(pool, (tx) => dueClaims(tx, { limit: SWEEP_LIMIT, lease_ms }));
  await Promise.all(
    due.map((claimed) =>
      resume(claimed).catch(async (error: unknown) => {
        const { operation_id, lease_no } = claimed;
        log.error({ err: error, operation: operation_id }, "an interrupted operation could not go on yet");
        if (!isUnavailable(error)) return;
        // Its runner had the first lease. Where even this fails, the lease runs out by itself.
        const pause_ms = Math.min(lease_ms, (lease_no - 1) * PAUSE_MS);
        await yieldLease(pool, operation_id, lease_no, pause_ms).catch(() => false);
      }),
    ),
  );
  return due.length === SWEEP_LIMIT;
}

/** Between the look and the claim an interrupted draft was erased: this request would now be a new one. */
class Gone extends Error {}

function goneMeanwhile(): Refusal {
  return refuse("concurrent_request", "the first request with this Idempotency-Key has just ended", {
    retry_after_s: 1,
  });
}
