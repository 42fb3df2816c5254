// What the ledger tells Prometheus.

import { Counter, Gauge, Histogram, observeBatch } from "@cauri/rpc/metrics";
import type { GroupAnswer } from "./books.ts";

const SECONDS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5];

const laneWait = new Histogram({
  name: "cauri_ledger_lane_wait_seconds",
  help: "From the start of a batch until its lane was locked and its state read.",
  buckets: SECONDS,
});
const commit = new Histogram({
  name: "cauri_ledger_commit_seconds",
  help: "From the decision of a batch until its commit was answered.",
  buckets: SECONDS,
});
const transfers = new Counter({
  name: "cauri_ledger_transfers_total",
  help: "Transfers answered, by result.",
  labelNames: ["result"],
});
const batches = new Counter({
  name: "cauri_ledger_batches_total",
  help: "Committed batches: decided ahead of the lane's lock, or on what was read under it.",
  labelNames: ["decided"],
});
const queue = new Gauge({
  name: "cauri_ledger_queue_groups",
  help: "Groups that wait for a batch or are in one.",
});

export function observeBatchSize(groups: number): void {
  observeBatch("ledger_post", groups);
}

export function observeLaneWait(ms: number): void {
  laneWait.observe(ms / 1000);
}

export function observeCommit(ms: number): void {
  commit.observe(ms / 1000);
}

export function countBatch(decided: "ahead" | "read"): void {
  batches.inc({ decided });
}

/** One increment per result and batch, not per transfer: counting must not cost as much as posting. */
export function countAnswers(answers: readonly GroupAnswer[]): void {
  const counts = new Map<string, number>();
  for (const answer of answers) {
    for (const { result } of answer.transfers) counts.set(result, (counts.get(result) ?? 0) + 1);
  }
  for (const [result, count] of counts) transfers.inc({ result }, count);
}

export function changeQueue(groups: number): void {
  queue.inc(groups);
}
