// What the monitor tells Prometheus: each invariant by name, how far the checks are, what the clearing accounts hold.

import { Gauge } from "@cauri/rpc/metrics";
import type { LaneLag, ShortFloat } from "./monitor-store.ts";
import type { ClearingRow } from "./trial-store.ts";
import type { Invariant } from "./verify-batch.ts";

const ok = new Gauge({
  name: "cauri_ledger_invariant_ok",
  help: "1 while no finding against the invariant stands; a sound verification from the beginning takes findings away.",
  labelNames: ["invariant"],
});
const checked = new Gauge({
  name: "cauri_ledger_checked_batch",
  help: "Number of the last batch of the lane that the monitor has checked.",
  labelNames: ["lane"],
});
const behind = new Gauge({
  name: "cauri_ledger_check_lag_batches",
  help: "Batches of the lane that the monitor has not checked yet.",
  labelNames: ["lane"],
});
const lag = new Gauge({
  name: "cauri_ledger_check_lag_seconds",
  help: "Age of the oldest batch of the lane that the monitor has not checked yet.",
  labelNames: ["lane"],
});
const uncarried = new Gauge({
  name: "cauri_ledger_carry_lag_seconds",
  help: "Age of the oldest batch of the lane that is not in its accounts' rows yet: every reading of a balance looks past it.",
  labelNames: ["lane"],
});
const sound = new Gauge({
  name: "cauri_ledger_last_sound_verification_timestamp_seconds",
  help: "When the last daily verification began that found the books sound; 0 before the first.",
});
const months = new Gauge({
  name: "cauri_ledger_months_ahead",
  help: "Months after the present one that have their tables; at none the ledger stands still at the month's end.",
});
const open = new Gauge({
  name: "cauri_ledger_clearing_accounts",
  help: "Accounts that should be empty and are not (suspense, interplatform, receivable), by book.",
  labelNames: ["book"],
});
const oldest = new Gauge({
  name: "cauri_ledger_clearing_oldest_timestamp_seconds",
  help: "When the oldest open item of a clearing account was recorded, by book; 0 when there is none.",
  labelNames: ["book"],
});

const short = new Gauge({
  name: "cauri_ledger_short_floats",
  help: "Floats that hold less than the house owes to the merchants of their platform, by book.",
  labelNames: ["book"],
});

export function tellMonths(ahead: number): void {
  months.set(ahead);
}

export function tellFloats(floats: readonly ShortFloat[]): void {
  for (const book of ["live", "test"] as const) {
    short.set({ book }, floats.filter((one) => one.book === book).length);
  }
}

export function tellLags(lags: readonly LaneLag[]): void {
  for (const { lane, checked: sequence, behind: batches, behind_s, uncarried_s } of lags) {
    checked.set({ lane }, Number(sequence));
    behind.set({ lane }, Number(batches));
    lag.set({ lane }, behind_s);
    uncarried.set({ lane }, uncarried_s);
  }
}

export function tellBooks(
  invariants: ReadonlyMap<Invariant, boolean>,
  clearing: readonly ClearingRow[],
  last_sound: Date | null,
): void {
  sound.set((last_sound?.getTime() ?? 0) / 1000);
  for (const [invariant, holds] of invariants) ok.set({ invariant }, holds ? 1 : 0);
  for (const book of ["live", "test"] as const) {
    const rows = clearing.filter((row) => row.book === book);
    open.set({ book }, rows.length);
    oldest.set({ book }, (rows[0]?.oldest_recorded_at.getTime() ?? 0) / 1000);
  }
}
