// Numbers of one process for Prometheus: rate, errors and duration of every RPC, the process itself, its pool, batches.

import { Counter, collectDefaultMetrics, Gauge, Histogram, register } from "prom-client";

export { Counter, Gauge, Histogram, register };

/** From half a millisecond to the longest deadline of a write. */
const SECONDS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];
const SIZES = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000];

/** `outcome` is `ok`, the word of a refusal, or the gRPC status of a fault. */
const served = new Histogram({
  name: "cauri_rpc_served_seconds",
  help: "Duration of the RPCs that this process served.",
  labelNames: ["method", "outcome"],
  buckets: SECONDS,
});
const called = new Histogram({
  name: "cauri_rpc_called_seconds",
  help: "Duration of the RPCs that this process called.",
  labelNames: ["method", "outcome"],
  buckets: SECONDS,
});
const batches = new Histogram({
  name: "cauri_batch_size",
  help: "How many items went together in one batch.",
  labelNames: ["name"],
  buckets: SIZES,
});
const gauges = new Map<string, Gauge>();

export function observeServed(method: string, outcome: string, seconds: number): void {
  served.observe({ method, outcome }, seconds);
}

export function observeCalled(method: string, outcome: string, seconds: number): void {
  called.observe({ method, outcome }, seconds);
}

/** How many items one batch held: coalescers, relays and consumers report here. */
export function observeBatch(name: string, size: number): void {
  batches.observe({ name }, size);
}

/** A gauge by its name, made once: several relays or pools of one process share it. */
export function gauge(name: string, help: string, labelNames: readonly string[] = []): Gauge {
  const known = gauges.get(name);
  if (known !== undefined) return known;
  const made = new Gauge({ name, help, labelNames: [...labelNames] });
  gauges.set(name, made);
  return made;
}

/** Event loop, memory, CPU and garbage collection of this process. */
export function watchProcess(): void {
  collectDefaultMetrics();
}

/** The numbers a pg Pool keeps of itself. */
type PoolNumbers = { readonly totalCount: number; readonly idleCount: number; readonly waitingCount: number };

const pools = new Map<string, PoolNumbers>();

/** Connections of a pool, read at each scrape; a process may have several. */
export function watchPool(name: string, pool: PoolNumbers): void {
  pools.set(name, pool);
  if (pools.size > 1) return;
  const connections = new Gauge({
    name: `cauri_pool_connections`,
    help: "PostgreSQL connections: all, idle, and requests that wait for one.",
    labelNames: ["pool", "state"],
    collect() {
      for (const [name, pool] of pools) {
        this.set({ pool: name, state: "total" }, pool.totalCount);
        this.set({ pool: name, state: "idle" }, pool.idleCount);
        this.set({ pool: name, state: "waiting" }, pool.waitingCount);
      }
    },
    registers: [],
  });
  register.registerMetric(connections);
}
