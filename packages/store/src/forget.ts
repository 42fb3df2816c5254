// Forgets idempotency keys once their time is over; a client_ref protects for ever.

import { systemClock } from "@cauri/money/clock";
import { forgetKeys } from "./claims.ts";
import type { Log, Pool } from "./pool.ts";
import { type Loop, startLoop } from "./sweeper.ts";

const EVERY_MS = 60_000;
const BATCH = 1_000;

/** Keys live by real time, also those of the sandbox. */
export function startForgetting(pool: Pool, keep_s: number, log: Log): Loop {
  const work = async () => (await forgetKeys(pool, new Date(systemClock() - keep_s * 1_000), BATCH)) === BATCH;
  return startLoop({ name: "forgotten keys", every_ms: EVERY_MS, work, log });
}
