// The pump: claims what is due, sends it, writes the results in batches. One runs in every replica; what one of them
// holds when it dies is claimed by another when the lease has run out.

import type { Cipher } from "@cauri/store/cipher";
import { coalesce } from "@cauri/store/coalescer";
import { type Pool, transact } from "@cauri/store/pool";
import { inSpan, operationTraceparent, tracing } from "@cauri/trace/span";
import { type Claimed, type ClaimOptions, claimDue, type Ended, endAttempts, returnLeases } from "./delivery-store.ts";
import type { Attempt, Dialer } from "./dialer.ts";
import { noticeHeaders } from "./notice.ts";
import { signingOf } from "./secret.ts";

/** Beside the time-out of an attempt, what a lease leaves for writing its result. */
const LEASE_MARGIN_MS = 10_000;
/** Results that share one transaction; bounds how long it holds the endpoints' locks. */
const RESULTS_PER_BATCH = 200;

export type SenderOptions = {
  readonly pool: Pool;
  readonly dialer: Dialer;
  readonly cipher: Cipher;
  readonly parallel: number;
  readonly per_endpoint: number;
  readonly timeout_ms: number;
  readonly ladder_s: readonly number[];
  readonly suspend_ms: number;
  /** Wakes the loop that calls `pump`: a slot is free again. */
  readonly wake: () => void;
  readonly now: () => number;
  readonly log: { info(fields: object, message: string): void; error(fields: object, message: string): void };
  readonly observe: (attempt: Attempt, claimed: Claimed) => void;
};

export type Sender = {
  /** Claims and starts what there is room for; answers how many were started. */
  pump(): Promise<number>;
  /** Sends everything due of one account until nothing is; answers how many attempts ended. */
  drain(account: string): Promise<number>;
  /** Takes no more and waits for what is under way. */
  stop(): Promise<void>;
  inFlight(): number;
};

export function openSender(options: SenderOptions): Sender {
  const { pool, per_endpoint } = options;
  const rules = { ladder_s: options.ladder_s, suspend_ms: options.suspend_ms };
  const lease_ms = options.timeout_ms + LEASE_MARGIN_MS;
  /** Attempts under way, each with its account. */
  const running = new Map<Promise<void>, string>();
  let stopped = false;

  const end = coalesce<Ended, void>({
    run: async (batch) => {
      const suspended = await transact(pool, (tx) => endAttempts(tx, batch, rules));
      for (const endpoint of suspended)
        options.log.info({ endpoint: String(endpoint.endpoint_id), until: endpoint.suspended_until }, "suspended");
      return batch.map(() => undefined);
    },
    max_batch: RESULTS_PER_BATCH,
    max_waiting: options.parallel * 2,
  });

  async function send(claimed: Claimed): Promise<void> {
    const now_ms = options.now();
    const headers = noticeHeaders(claimed, signingOf(options.cipher, claimed), now_ms);
    const attempt = await inSpan(`POST webhook ${claimed.event}`, { kind: "client", parent: traceOf(claimed) }, () =>
      options.dialer.post(claimed.url, headers, claimed.body),
    );
    options.observe(attempt, claimed);
    await end({ claimed, attempt, at: new Date(now_ms) });
  }

  function start(claimed: Claimed): Promise<void> {
    const run = send(claimed)
      // The lease runs out and the delivery is made again: at least once, never lost.
      .catch((error: unknown) => options.log.error({ err: error, delivery: claimed.id }, "a result was not written"))
      .finally(() => {
        running.delete(run);
        options.wake();
      });
    running.set(run, claimed.account);
    return run;
  }

  /** Claims are made one after another: a drain must see what the pump has just taken as under way. */
  let claiming: Promise<unknown> = Promise.resolve();
  function claimAndStart(more: Pick<ClaimOptions, "limit"> & { account?: string }): Promise<number> {
    const mine = claiming.then(async () => {
      const claimed = await claim(more);
      for (const each of claimed) void start(each);
      return claimed.length;
    });
    claiming = mine.catch(() => {});
    return mine;
  }

  async function claim(more: Pick<ClaimOptions, "limit"> & { account?: string }): Promise<Claimed[]> {
    if (more.limit <= 0 || stopped) return [];
    const claimed = await transact(pool, (tx) => claimDue(tx, { per_endpoint, lease_ms, ...more }));
    if (!stopped) return claimed;
    await returnLeases(pool, claimed);
    return [];
  }

  return {
    async pump() {
      return claimAndStart({ limit: options.parallel - running.size });
    },
    async drain(account) {
      let done = 0;
      for (;;) {
        await claimAndStart({ limit: options.parallel, account });
        // The pump may have been faster: what it has under way for this account belongs to the drain as well.
        const own = [...running].flatMap(([run, of]) => (of === account ? [run] : []));
        if (own.length === 0) return done;
        await Promise.all(own);
        done += own.length;
      }
    },
    async stop() {
      stopped = true;
      await Promise.all(running.keys());
    },
    inFlight: () => running.size,
  };
}

/** The trace of the operation that the notice is about; only the body knows it here, and it is read only when traced. */
function traceOf({ body }: Claimed): string | undefined {
  return tracing() ? operationTraceparent((JSON.parse(body) as { data: { id: string } }).data.id) : undefined;
}
