// The pump: claims what is due, sends it, writes the results in batches. One runs in every replica; what one of them
// holds when it dies is claimed by another when the lease has run out.

import { setImmediate as nextTurn, setTimeout as sleep } from "node:timers/promises";
import type { Cipher } from "@cauri/store/cipher";
import { coalesce } from "@cauri/store/coalescer";
import { isUnavailable, type Pool, transact } from "@cauri/store/pool";
import { inSpan, operationTraceparent, tracing } from "@cauri/trace/span";
import {
  type Claimed,
  type ClaimOptions,
  claimDue,
  type Ended,
  endAttempts,
  endFlights,
  waitingEndpoints,
} from "./delivery-store.ts";
import type { Attempt, Dialer } from "./dialer.ts";
import { endpointIds } from "./endpoint-store.ts";
import { noticeHeaders } from "./notice.ts";
import { openSigning } from "./secret.ts";

/** Beside the time-out of an attempt, what a lease leaves for writing its result. */
const LEASE_MARGIN_MS = 10_000;
/** Results that share one transaction; bounds how long it holds the endpoints' locks. */
const RESULTS_PER_BATCH = 250;
/** The pause before results that the database did not take are written again. */
const RESULT_RETRY_MS = 100;
/** Endpoints that one claim looks at; the others' turn is the next one. */
const ENDPOINTS_PER_CLAIM = 250;
/** A claim is made when so much of the room is free: half of its price is for the endpoints, however few it takes. */
const CLAIM_SHARE = 0.5;
/** The whole queue is looked at so often: for retries that have become due and for what another replica left. */
const LOOK_MS = 250;
/** A look waits this many times as long as the last one took, so that many endpoints never cost more than a tenth. */
const LOOK_REST = 9;
/** An attempt that lasts longer costs a socket and no work: it gives its place up to a quick one. */
const SLOW_MS = 1_000;
/** Of slow attempts there may be so many times the quick ones, before they take their places. */
const SLOW_FACTOR = 16;

export type SenderOptions = {
  /** One that plans by index. */
  readonly pool: Pool;
  readonly dialer: Dialer;
  readonly cipher: Cipher;
  /** Attempts of this process under way at once, those apart that take long. */
  readonly parallel: number;
  readonly per_endpoint: number;
  readonly per_account: number;
  readonly timeout_ms: number;
  /** How long a stop waits for what is under way. */
  readonly grace_ms: number;
  readonly ladder_s: readonly number[];
  readonly suspend_ms: number;
  /** Wakes the loop that calls `pump`: there is something to claim. */
  readonly wake: () => void;
  readonly now: () => number;
  readonly log: { info(fields: object, message: string): void; error(fields: object, message: string): void };
  readonly observe: (attempt: Attempt, claimed: Claimed) => void;
};

export type Sender = {
  /** Something may be due: at these endpoints, or at any that is not known here. */
  hint(endpoints?: readonly bigint[]): void;
  /** Claims and starts what there is room for; answers how many were started. */
  pump(): Promise<number>;
  /** Sends everything due of one account until nothing is; answers how many attempts ended. */
  drain(account: string): Promise<number>;
  /** Takes no more, waits a while for what is under way, and gives back the rest unspent. */
  stop(): Promise<void>;
  inFlight(): number;
};

type Run = { readonly claimed: Claimed; readonly since: number; readonly ended: Promise<void> };

export function openSender(options: SenderOptions): Sender {
  const { pool, per_endpoint, per_account } = options;
  const lease_ms = options.timeout_ms + LEASE_MARGIN_MS;
  const now = () => new Date(options.now());
  const running = new Set<Run>();
  const hints = openHints(() => waitingEndpoints(pool, now()));
  const end = coalesceResults(options);
  const signing = openSigning(options.cipher);
  let stopped = false;
  let abandoned = false;

  async function send(claimed: Claimed): Promise<void> {
    const now_ms = options.now();
    const attempt = await post(options.dialer, claimed, noticeHeaders(claimed, signing(claimed), now_ms));
    // Its lease was given back: another runner makes this attempt, and this one counts for nothing.
    if (abandoned) return;
    options.observe(attempt, claimed);
    await end({ claimed, attempt, at: new Date(now_ms) });
  }

  function start(claimed: Claimed): void {
    const ended = send(claimed)
      // The lease runs out and the delivery is made again: at least once, never lost.
      .catch((error: unknown) => options.log.error({ err: error, delivery: claimed.id }, "a result was not written"))
      .finally(() => {
        running.delete(run);
        hints.add([claimed.endpoint_id]);
        options.wake();
      });
    const run = { claimed, since: performance.now(), ended };
    running.add(run);
  }

  /** Claims are made one after another: a drain must see what the pump has just taken as under way. */
  let claiming: Promise<unknown> = Promise.resolve();
  function claimAndStart(choose: () => Promise<Choice>): Promise<number> {
    const mine = claiming.then(async () => {
      const chosen = await choose();
      if (chosen.limit <= 0 || chosen.endpoints.length === 0 || stopped) return 0;
      const more = { per_endpoint, per_account, lease_ms, now: now() };
      const claimed = await transact(pool, (tx) => claimDue(tx, { ...chosen, ...more }));
      if (stopped) await endFlights(pool, claimed);
      else for (const each of claimed) start(each);
      // The limit cut some endpoint short, and nobody knows which.
      if (claimed.length === chosen.limit) hints.add(chosen.endpoints);
      return claimed.length;
    });
    claiming = mine.catch(() => {});
    return mine;
  }

  return {
    hint(endpoints) {
      if (endpoints === undefined) hints.lookSoon();
      else hints.add(endpoints);
      options.wake();
    },
    async pump() {
      // All results of one batch give their hints before the next claim is made.
      await nextTurn();
      return claimAndStart(async () => {
        await hints.look();
        const limit = roomFor(running, options.parallel);
        return { endpoints: limit >= options.parallel * CLAIM_SHARE ? hints.take() : [], limit };
      });
    },
    drain: (account) =>
      drainOf(async () => {
        const endpoints = await endpointIds(pool, account);
        await claimAndStart(async () => ({ endpoints, limit: options.parallel, patient: true }));
        // The pump may have been faster: what it has under way for this account belongs to the drain as well.
        return [...running].filter(({ claimed }) => claimed.account === account);
      }),
    async stop() {
      stopped = true;
      await claiming;
      await Promise.race([endOf(running), sleep(options.grace_ms)]);
      abandoned = true;
      await giveBack(pool, running);
    },
    inFlight: () => running.size,
  };
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

/** Claims and waits, until a claim finds nothing and nothing is under way. */
async function drainOf(claim: () => Promise<readonly Run[]>): Promise<number> {
  for (let done = 0; ; ) {
    const runs = await claim();
    if (runs.length === 0) return done;
    await endOf(runs);
    done += runs.length;
  }
}

function endOf(runs: Iterable<Run>): Promise<unknown> {
  return Promise.all([...runs].map(({ ended }) => ended));
}

/** Whoever comes next makes these attempts: nobody knows how they would have ended, so they count for nothing. */
async function giveBack(pool: Pool, runs: Iterable<Run>): Promise<void> {
  const left = [...runs].map(({ claimed }) => claimed);
  if (left.length > 0) await endFlights(pool, left);
}

type Choice = Pick<ClaimOptions, "endpoints" | "limit" | "patient">;

/**
 * Results that end together are written together. While the database is away they are kept and tried again, as long as
 * the leases last: what is not written is sent once more.
 */
function coalesceResults({ pool, ladder_s, suspend_ms, parallel, now, log }: SenderOptions) {
  return coalesce<Ended, void>({
    run: async (batch) => {
      const until = performance.now() + LEASE_MARGIN_MS;
      for (let again = false; ; again = true) {
        try {
          const rules = { ladder_s, suspend_ms, now: new Date(now()), again };
          const suspended = await transact(pool, (tx) => endAttempts(tx, batch, rules));
          for (const endpoint of suspended)
            log.info({ endpoint: String(endpoint.endpoint_id), until: endpoint.suspended_until }, "suspended");
          return batch.map(() => undefined);
        } catch (error) {
          if (!isUnavailable(error) || performance.now() > until) throw error;
          await sleep(RESULT_RETRY_MS);
        }
      }
    },
    max_batch: RESULTS_PER_BATCH,
    max_waiting: parallel * (SLOW_FACTOR + 1),
  });
}

/** How many attempts may be started now: those that take long count only beyond their own, larger number. */
function roomFor(running: ReadonlySet<Run>, parallel: number): number {
  const slow_since = performance.now() - SLOW_MS;
  let slow = 0;
  for (const { since } of running) if (since < slow_since) slow += 1;
  return parallel - (running.size - Math.min(slow, parallel * SLOW_FACTOR));
}

/**
 * The endpoints that something may be due at, so that a claim looks at these and not at all: those of new events and of
 * ended attempts, and from time to time those of the whole queue. A hint too many costs a look, one too few a quarter of a second.
 */
function openHints(readWaiting: () => Promise<readonly bigint[]>) {
  let hot = new Set<bigint>();
  let look_at = 0;
  const add = (endpoints: readonly bigint[]) => {
    for (const id of endpoints) hot.add(id);
  };
  return {
    add,
    lookSoon() {
      look_at = 0;
    },
    async look() {
      const began = performance.now();
      if (began < look_at) return;
      look_at = began + LOOK_MS;
      add(await readWaiting());
      const took = performance.now() - began;
      // Whoever asked for a look meanwhile gets it.
      if (look_at > 0) look_at = began + Math.max(LOOK_MS, took * LOOK_REST);
    },
    /** Those whose turn it is, the oldest hint first. */
    take(): bigint[] {
      const endpoints = [...hot].slice(0, ENDPOINTS_PER_CLAIM);
      if (endpoints.length === hot.size) hot = new Set();
      else for (const id of endpoints) hot.delete(id);
      return endpoints;
    },
  };
}
