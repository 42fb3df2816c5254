// The numbers of this room: what rails answer, which of them are well, what waits.

import { Counter, Gauge } from "@cauri/rpc/metrics";
import type { RailCall } from "./order.ts";
import type { Health } from "./routing.ts";

const calls = new Counter({
  name: "cauri_rails_calls_total",
  help: "Calls and questions to rails, by what they came to.",
  labelNames: ["rail", "call", "outcome"],
});
const callbacks = new Counter({
  name: "cauri_rails_callbacks_total",
  help: "Callbacks received: applied, hint, repeated, unmatched, forged.",
  labelNames: ["connector", "result"],
});
const deliveries = new Counter({
  name: "cauri_simulator_callbacks_total",
  help: "Callbacks that the simulator sent: delivered, failed, given_up.",
  labelNames: ["result"],
});
const healthy = new Gauge({
  name: "cauri_rails_rail_healthy",
  help: "1 where this process takes a rail for well, 0 where it tries others first.",
  labelNames: ["rail"],
});

export type Metrics = {
  readonly called: (rail: string, call: RailCall["call"] | "ask", outcome: string) => void;
  readonly received: (connector: string, result: string) => void;
  readonly simulated: (result: string) => void;
};

export function openMetrics(health: Health): Metrics {
  const showHealth = () => {
    for (const [rail, ok] of health.all()) healthy.set({ rail }, ok ? 1 : 0);
  };
  return {
    called(rail, call, outcome) {
      calls.inc({ rail, call, outcome });
      showHealth();
    },
    received: (connector, result) => callbacks.inc({ connector, result }),
    simulated: (result) => deliveries.inc({ result }),
  };
}
