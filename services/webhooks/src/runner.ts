// Sends what this process has taken and writes down how it ended: attempts at once, results in batches.

import { setTimeout as sleep } from "node:timers/promises";
import type { Cipher } from "@cauri/store/cipher";
import { coalesce } from "@cauri/store/coalescer";
import { isUnavailable, type Pool, transact } from "@cauri/store/pool";
import { inSpan, operationTraceparent, tracing } from "@cauri/trace/span";
import { type Claimed, giveBack } from "./delivery-store.ts";
import type { Attempt, Dialer } from "./dialer.ts";
import { noticeHeaders } from "./notice.ts";
import { type Ended, endAndTake, endAttempts, endAttemptsAgain, type Refill } from "./result-store.ts";
import { openSigning } from "./secret.ts";

/** Beside the time-out of an attempt, what a lease leaves for writing its result. */
export const LEASE_MARGIN_MS = 10_000;
/** Results that share one statement; bounds how long it holds its locks. */
const RESULTS_PER_BATCH = 250;
/** From batch to batch of results at least so long, so that under load more of them share a commit. */
const RESULTS_GAP_MS = 8;
/** The pause before results that the database did not take are written again. */
const RESULT_RETRY_MS = 100;
/** An attempt that lasts longer costs a socket and no work: it gives its place up to a quick one. */
const SLOW_MS = 1_000;
/** Of slow attempts there may be so many times the quick ones, before they take their places. */
const SLOW_FACTOR = 16;

export type RunnerOptions = {
  /** One that plans by index. */
  readonly pool: Pool;
  readonly dialer: Dialer;
  readonly cipher: Cipher;
  /** Attempts of this process under way at once, those apart that take long. */
  readonly parallel: number;
  readonly ladder_s: readonly number[];
  readonly suspend_ms: number;
  readonly now: () => number;
  readonly log: { info(fields: object, message: string): void; error(fields: object, message: string): void };
  readonly observe: (attempt: Attempt, claimed: Claimed) => void;
};

export type Run = { readonly claimed: Claimed; readonly since: number; readonly ended: Promise<void> };

/** What becomes of a run's place: its delivery went back unsent, the place is free, or the next delivery has it already. */
export type Outcome = "unsent" | "free" | "refilled";

/** Where runs end, others may begin: who runs them decides that. */
export type Owner = {
  /** Hears of each run that has ended. */
  readonly heard: (claimed: Claimed, outcome: Outcome) => void;
  /** What may be taken in the places of these attempts, which have all arrived; null while the places are wanted back. */
  readonly offer: (ended: readonly Ended[]) => Refill | null;
  /** Starts what was taken so. */
  readonly took: (claimed: readonly Claimed[]) => Promise<void>;
};

export function openRunner(options: RunnerOptions, owner: Owner) {
  const { pool } = options;
  const running = new Set<Run>();
  const busy = new Map<bigint, number>();
  const end = coalesceResults(options, owner);
  const signing = openSigning(options.cipher);
  let abandoned = false;
  let ended_ever = 0;

  /** One attempt; null where its lease was given back meanwhile: another runner makes it, and this one counts for nothing. */
  async function send(claimed: Claimed): Promise<Ended | null> {
    if (abandoned) return null;
    const now_ms = options.now();
    const attempt = await post(options.dialer, claimed, noticeHeaders(claimed, signing(claimed), now_ms));
    if (abandoned) return null;
    options.observe(attempt, claimed);
    return { claimed, attempt, at: new Date(now_ms) };
  }

  /** Sends it when what goes before it has been delivered; answers whether it was delivered itself. */
  function run(claimed: Claimed, before: Promise<boolean>): Promise<boolean> {
    const attempted = before.then((goes_on) => (goes_on ? send(claimed) : null));
    const finish = async (): Promise<Outcome> => {
      const made = await attempted;
      if (made !== null) return end(made);
      if (!abandoned) await giveBack(pool, [claimed]);
      return "unsent";
    };
    const ended = finish()
      .catch((error: unknown): Outcome => {
        // The lease runs out and the delivery is made again: at least once, never lost.
        options.log.error({ err: error, delivery: claimed.id }, "a result was not written");
        return "free";
      })
      .then((outcome) => {
        running.delete(mine);
        ended_ever += 1;
        count(claimed.endpoint_id, -1);
        owner.heard(claimed, outcome);
      });
    const mine: Run = { claimed, since: performance.now(), ended };
    running.add(mine);
    count(claimed.endpoint_id, 1);
    return attempted.then(
      (made) => made?.attempt.delivered === true,
      () => false,
    );
  }

  function count(endpoint_id: bigint, by: number): void {
    const left = (busy.get(endpoint_id) ?? 0) + by;
    if (left === 0) busy.delete(endpoint_id);
    else busy.set(endpoint_id, left);
  }

  return {
    running: running as ReadonlySet<Run>,
    ended: () => ended_ever,
    /** Whether an attempt of this process is under way at the endpoint: its end is heard of. */
    isBusyAt: (endpoint_id: bigint): boolean => busy.has(endpoint_id),
    /**
     * Starts what was claimed, one after another in the order given; after one that was not delivered the rest goes back to
     * the queue, where the rules are looked at anew.
     */
    start(chain: readonly Claimed[]): void {
      let before = Promise.resolve(true);
      for (const claimed of chain) before = run(claimed, before);
    },
    /** How many attempts may be started now: those that take long count only beyond their own, larger number. */
    room(): number {
      const slow_since = performance.now() - SLOW_MS;
      let slow = 0;
      for (const { since } of running) if (since < slow_since) slow += 1;
      return options.parallel - (running.size - Math.min(slow, options.parallel * SLOW_FACTOR));
    },
    /** Gives back what is under way: nobody knows how it would have ended, so it counts for nothing. */
    async abandon(): Promise<void> {
      abandoned = true;
      const left = [...running].map(({ claimed }) => claimed);
      if (left.length > 0) await giveBack(pool, left);
    },
  };
}

export function endOf(runs: Iterable<Run>): Promise<unknown> {
  return Promise.all([...runs].map(({ ended }) => ended));
}

function post(dialer: Dialer, claimed: Claimed, headers: Readonly<Record<string, string>>): Promise<Attempt> {
  return inSpan(`POST webhook ${claimed.event}`, { kind: "client", parent: traceOf(claimed) }, () =>
    dialer.post(claimed.url, headers, claimed.body),
  );
}

/** The trace of the operation that the notice is about; only the body knows it here, and it is read only when traced. */
function traceOf({ body }: Claimed): string | undefined {
  return tracing() ? operationTraceparent((JSON.parse(body) as { data: { id: string } }).data.id) : undefined;
}

/**
 * Results that end together are written together. While the database is away they are kept and tried again, as long as
 * the leases last: what is not written is sent once more.
 */
function coalesceResults(options: RunnerOptions, owner: Owner) {
  return coalesce<Ended, Outcome>({
    run: async (batch) => {
      const until = performance.now() + LEASE_MARGIN_MS;
      for (let again = false; ; again = true) {
        try {
          return await writeResults(options, owner, batch, again);
        } catch (error) {
          if (!isUnavailable(error) || performance.now() > until) throw error;
          await sleep(RESULT_RETRY_MS);
        }
      }
    },
    max_batch: RESULTS_PER_BATCH,
    gap_ms: RESULTS_GAP_MS,
    max_waiting: options.parallel * (SLOW_FACTOR + 1),
  });
}

/** What a first try took and nobody heard of goes back to the queue when its lease has run out: a repeat takes nothing. */
async function writeResults(
  { pool, ladder_s, suspend_ms, now, log }: RunnerOptions,
  owner: Owner,
  batch: readonly Ended[],
  again: boolean,
): Promise<Outcome[]> {
  const rules = { ladder_s, suspend_ms, now: new Date(now()) };
  const offer = again || batch.some(({ attempt }) => !attempt.delivered) ? null : owner.offer(batch);
  if (offer !== null) {
    const taken = await endAndTake(pool, batch, rules, offer);
    await owner.took(taken);
    const missing = countBy(batch.map(({ claimed }) => claimed));
    for (const { endpoint_id } of taken) missing.set(endpoint_id, (missing.get(endpoint_id) ?? 0) - 1);
    return batch.map(({ claimed }) => (missing.get(claimed.endpoint_id) === 0 ? "refilled" : "free"));
  }
  const suspended = await (again
    ? transact(pool, (tx) => endAttemptsAgain(tx, batch, rules))
    : endAttempts(pool, batch, rules));
  for (const { endpoint_id, suspended_until } of suspended)
    log.info({ endpoint: String(endpoint_id), until: suspended_until }, "suspended");
  return batch.map(() => "free");
}

function countBy(claimed: readonly Claimed[]): Map<bigint, number> {
  const counts = new Map<bigint, number>();
  for (const { endpoint_id } of claimed) counts.set(endpoint_id, (counts.get(endpoint_id) ?? 0) + 1);
  return counts;
}
