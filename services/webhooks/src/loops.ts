// What turns by itself: the pump, what waited too long, and what is forgotten.

import { systemClock } from "@cauri/money/clock";
import type { Cipher } from "@cauri/store/cipher";
import { forgetKeys } from "@cauri/store/claims";
import type { Log, Pool } from "@cauri/store/pool";
import { startLoop } from "@cauri/store/sweeper";
import { failOverdue, forgetAttempts, forgetEnded, readQueue } from "./delivery-store.ts";
import { erasePreviousSecrets } from "./endpoint-store.ts";
import { showQueue } from "./metrics.ts";
import { resealSecrets } from "./rotation.ts";
import type { Sender } from "./sender.ts";

/** The pump is woken by news and by ended attempts; this is for due retries and other replicas' news. */
const PUMP_MS = 250;
const OVERDUE_MS = 60_000;
const QUEUE_MS = 10_000;
const FORGET_MS = 300_000;
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
  const failOverdueNow = async () => {
    await failOverdue(pool, settings.CAURI_WEBHOOK_KEEP_S * 1000);
  };
  const pump = startLoop({ name: "webhook pump", every_ms: PUMP_MS, work: async () => (await sender.pump()) > 0, log });
  const others = [
    startLoop({ name: "webhook overdue", every_ms: OVERDUE_MS, work: failOverdueNow, log }),
    startLoop({ name: "webhook queue", every_ms: QUEUE_MS, work: async () => showQueue(await readQueue(pool)), log }),
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
    failOverdueNow,
    stop: () => Promise.all([pump, ...others].map((loop) => loop.stop())),
  };
}
