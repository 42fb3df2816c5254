// What turns by itself: the pump, what waited too long, and what is forgotten.

import { systemClock } from "@cauri/money/clock";
import type { Cipher } from "@cauri/store/cipher";
import { forgetKeys } from "@cauri/store/claims";
import type { Log, Pool } from "@cauri/store/pool";
import { startLoop } from "@cauri/store/sweeper";
import { forgetAttempts } from "./attempt-store.ts";
import { erasePreviousSecrets } from "./endpoint-store.ts";
import { showQueue } from "./metrics.ts";
import { resealSecrets } from "./rotation.ts";
import type { Sender } from "./sender.ts";
import { failOverdue, forgetEnded, forgetRemoved, readQueue, tidyQueue } from "./upkeep-store.ts";

/** The pump is woken by news and by ended attempts; this is for due retries and other replicas' news. */
const PUMP_MS = 250;
const OVERDUE_MS = 60_000;
const QUEUE_MS = 10_000;
/** Reading the queue rests so many times as long as it took: a million waiting rows cost a hundredth of a core at most. */
const QUEUE_REST = 100;
const TIDY_MS = 1_000;
/** So many attempts leave as many dead entries in the indexes, some fifty pages; PostgreSQL plans anew after each tidying. */
const TIDY_AFTER = 5_000;
/** Tidying rests so many times as long as it took: it walks through the indexes, however much waits there. */
const TIDY_REST = 50;
/** However long it took: an SRE looks at these numbers when it takes long. */
const LONGEST_REST_MS = 300_000;
const FORGET_MS = 300_000;
const REMOVED_MS = 1_000;
const SECRETS_MS = 60_000;
const DAY_MS = 86_400_000;

export type LoopsOptions = {
  readonly pool: Pool;
  readonly cipher: Cipher;
  readonly sender: Sender;
  readonly settings: {
    readonly CAURI_WEBHOOK_KEEP_S: number;
    readonly CAURI_WEBHOOK_LOG_DAYS: number;
    readonly CAURI_IDEMPOTENCY_KEEP_S: number;
  };
  readonly log: Log;
};

export function startLoops({ pool, cipher, sender, settings, log }: LoopsOptions) {
  const overdue = () => failOverdue(pool, settings.CAURI_WEBHOOK_KEEP_S * 1000, new Date(systemClock()));
  const pump = startLoop({ name: "webhook pump", every_ms: PUMP_MS, work: async () => (await sender.pump()) > 0, log });
  const others = [
    startLoop({ name: "webhook overdue", every_ms: OVERDUE_MS, work: async () => (await overdue()) > 0, log }),
    startLoop({ name: "webhook queue", every_ms: QUEUE_MS, work: watchQueue(pool), log }),
    startLoop({ name: "webhook tidying", every_ms: TIDY_MS, work: tidyNow(pool, sender), log }),
    startLoop({
      name: "webhook removals",
      every_ms: REMOVED_MS,
      work: async () => (await forgetRemoved(pool)) !== null,
      log,
    }),
    startLoop({
      name: "webhook secrets",
      every_ms: SECRETS_MS,
      work: async () => {
        await erasePreviousSecrets(pool);
        const endpoints = await resealSecrets({ pool, cipher });
        if (endpoints > 0) log.info({ endpoints, key: cipher.keyId }, "secrets are sealed by the current key");
        return endpoints > 0;
      },
      log,
    }),
    startLoop({
      name: "webhook forgetting",
      every_ms: FORGET_MS,
      work: async () => {
        const keys = await forgetKeys(pool, new Date(systemClock() - settings.CAURI_IDEMPOTENCY_KEEP_S * 1000));
        await forgetAttempts(pool, settings.CAURI_WEBHOOK_LOG_DAYS);
        return (await forgetEnded(pool, settings.CAURI_WEBHOOK_LOG_DAYS * DAY_MS)) + keys > 0;
      },
      log,
    }),
  ];
  return {
    wake: () => pump.wake(),
    failOverdueNow: async () => {
      while ((await overdue()) > 0);
    },
    stop: () => Promise.all([pump, ...others].map((loop) => loop.stop())),
  };
}

/** Work that rests so many times as long as it took, whether or not it failed. */
function resting(times: number, work: () => Promise<void>): () => Promise<void> {
  let next = 0;
  return async () => {
    const began = performance.now();
    if (began < next) return;
    try {
      await work();
    } finally {
      next = began + Math.min((performance.now() - began) * times, LONGEST_REST_MS);
    }
  };
}

function watchQueue(pool: Pool): () => Promise<void> {
  return resting(QUEUE_REST, async () => showQueue(await readQueue(pool, new Date(systemClock()))));
}

function tidyNow(pool: Pool, sender: Pick<Sender, "ended">): () => Promise<void> {
  let tidied = 0;
  return resting(TIDY_REST, async () => {
    const ended = sender.ended();
    if (ended - tidied < TIDY_AFTER) return;
    tidied = ended;
    await tidyQueue(pool);
  });
}
