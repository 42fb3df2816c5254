// Numbers of webhooks that an SRE looks at: results, how long an event takes to arrive, what waits.

import type { Clock } from "@cauri/money/clock";
import { Counter, gauge, Histogram } from "@cauri/rpc/metrics";
import type { Clocks } from "@cauri/store/clock";
import type { Claimed } from "./delivery-store.ts";
import type { Attempt } from "./dialer.ts";
import type { QueueNumbers } from "./upkeep-store.ts";

const attempts = new Counter({
  name: "cauri_webhook_attempts_total",
  help: "Delivery attempts by result: delivered, or the class of the failure.",
  labelNames: ["result"],
});
const arrival = new Histogram({
  name: "cauri_webhook_arrival_seconds",
  help: "From the event to its accepted delivery, in the clock of the event.",
  buckets: [0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60, 300, 1800, 7200, 43_200, 259_200],
});

/** One attempt has ended. */
export function observeAttempt(clock: Clock, clocks: Clocks) {
  return (attempt: Attempt, { account, mode, occurred_at }: Claimed): void => {
    attempts.inc({ result: attempt.delivered ? "delivered" : attempt.status_code === null ? "no_answer" : "refused" });
    const now_ms = mode === "test" ? clocks.now(account, mode).getTime() : clock();
    if (attempt.delivered) arrival.observe(Math.max(0, (now_ms - occurred_at.getTime()) / 1000));
  };
}

const queues = gauge("cauri_webhook_endpoint_waiting", "The ten longest queues, by endpoint.", ["endpoint"]);

export function showQueue({ waiting, oldest_due_s, suspended, longest }: QueueNumbers): void {
  gauge("cauri_webhook_waiting", "Deliveries that wait for an attempt.").set(waiting);
  gauge(
    "cauri_webhook_oldest_due_seconds",
    "Age of the oldest delivery that is due at an endpoint that takes deliveries.",
  ).set(oldest_due_s);
  gauge("cauri_webhook_suspended_endpoints", "Endpoints that are suspended now.").set(suspended);
  // Endpoints that are no longer among the ten leave, so that there are never more than ten.
  queues.reset();
  for (const each of longest) queues.set({ endpoint: String(each.endpoint_id) }, each.waiting);
}
