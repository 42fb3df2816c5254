// Which rail is tried next: the merchant's word first, then priority, with unhealthy rails behind healthy ones.
// Health is what this process saw lately; it orders and never excludes, so that a wrong verdict costs a second, not a sale.

/** Failures in the window at which a rail goes to the back: fewer are the noise of any operator. */
const OPENS_AT_FAILURES = 5;
/** And they must be at least this share of the calls. */
const OPENS_AT_SHARE = 0.5;
const WINDOW_MS = 30_000;
/** How long a rail stays at the back; then one success is enough to forget, one failure to go back. */
const COOL_DOWN_MS = 15_000;

export type Health = {
  /** Notes what a call to a rail came to; only a rail that doesn't work counts as a failure, a payer's "no" never. */
  readonly note: (rail: string, ok: boolean) => void;
  readonly isHealthy: (rail: string) => boolean;
  /** Every rail seen so far, for the gauge. */
  readonly all: () => ReadonlyMap<string, boolean>;
};

type Seen = { since_ms: number; ok: number; failed: number; open_until_ms: number };

/** A circuit breaker per rail, in memory: each process judges by itself. */
export function openHealth(clock: () => number): Health {
  const rails = new Map<string, Seen>();
  const isHealthy = (rail: string) => (rails.get(rail)?.open_until_ms ?? 0) <= clock();
  return {
    isHealthy,
    note(rail, ok) {
      const now_ms = clock();
      let seen = rails.get(rail);
      if (seen === undefined || now_ms - seen.since_ms >= WINDOW_MS) {
        seen = { since_ms: now_ms, ok: 0, failed: 0, open_until_ms: seen?.open_until_ms ?? 0 };
        rails.set(rail, seen);
      }
      if (ok) seen.ok += 1;
      else seen.failed += 1;
      if (ok && seen.open_until_ms > 0) {
        Object.assign(seen, { failed: 0, open_until_ms: 0 });
        return;
      }
      const probe_failed = !ok && seen.open_until_ms > 0;
      const too_many = seen.failed >= OPENS_AT_FAILURES && seen.failed / (seen.ok + seen.failed) >= OPENS_AT_SHARE;
      if (probe_failed || (!ok && too_many)) seen.open_until_ms = now_ms + COOL_DOWN_MS;
    },
    all: () => new Map([...rails.keys()].map((rail) => [rail, isHealthy(rail)])),
  };
}

export type Choice = {
  /** Open rails by priority, as the corridor names them. */
  readonly rails: readonly string[];
  readonly forced: boolean;
  /** Rails this call has tried already, certainly without effect. */
  readonly tried: ReadonlySet<string>;
  readonly isServed: (rail: string) => boolean;
  readonly isHealthy: (rail: string) => boolean;
};

/** The next rail to try, or null when none is left. A forced rail is the first one named, and there is no second. */
export function nextRail(choice: Choice): string | null {
  const named = choice.forced ? choice.rails.slice(0, 1) : choice.rails;
  const open = named.filter((rail) => choice.isServed(rail) && !choice.tried.has(rail));
  return open.find(choice.isHealthy) ?? open[0] ?? null;
}
