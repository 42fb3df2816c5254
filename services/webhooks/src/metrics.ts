// Numbers of webhooks that an SRE looks at: results, how long an event takes to arrive, what waits.

import type { Clock } from "@cauri/money/clock";
import { Counter, gauge, Histogram } from "@cauri/rpc/metrics";
import type { Clocks } from "@cauri/store/clock";
import type { Claimed } from "./delivery-store.ts";
import type { Attempt } from "./dialer.ts";

const attempts = new Counter({
  name: "cauri_webhook_attempts_total",
  help: "Delivery attempts by result: delivered, or the class of the failure.",
  labelNames: ["result"],
});
const arrival = new Histogram({
  name: "cauri_webhook_arrival_seconds",
  help: "From the event to its accepted delivery, in the clock of the event.",
  buckets: [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60, 300, 1800, 7200, 43_200],
});

/** One attempt has ended. */
export function observeAttempt(clock: Clock, clocks: Clocks) {
  return (attempt: Attempt, { account, mode, occurred_at }: Claimed): void => {
    attempts.inc({ result: attempt.delivered ? "delivered" : attempt.status_code === null ? "no_answer" : "refused" });
    const now_ms = mode === "test" ? clocks.now(account, mode).getTime() : clock();
    if (attempt.delivered) arrival.observe(Math.max(0, (now_ms - occurred_at.getTime()) / 1000));
  };
}

export function showQueue(queue: { waiting: number; oldest_due_s: number; suspended: number }): void {
  gauge("cauri_webhook_waiting", "Deliveries that wait for an attempt.").set(queue.waiting);
  gauge("cauri_webhook_oldest_due_seconds", "Age of the oldest delivery that is due now.").set(queue.oldest_due_s);
  gauge("cauri_webhook_suspended_endpoints", "Endpoints that are suspended now.").set(queue.suspended);
}
