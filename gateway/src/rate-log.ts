// The exact sliding log, pure: which of the next calls of a key pass, and when. `admit_calls` in gateway/migrations is
// the same rule inside PostgreSQL; here it serves as its model and as the limit of what one process decides alone.

export type RateRule = {
  /** Admissions in any window, 1 to 900. */
  readonly limit: number;
  readonly window_ms: number;
  /** A call that would pass within this time is held until then, so that a steady client is never refused. */
  readonly hold_ms: number;
};

export type Admitted = {
  /** The log after it, ascending, as long as the limit at most. */
  readonly log: readonly number[];
  /** How long each admitted call is held; fewer than the calls asked for where the rest is refused. */
  readonly delays: readonly number[];
  /** Calls that would pass right now. */
  readonly free: number;
  /** Milliseconds until a call passes unheld; 0 where one does now. */
  readonly next_ms: number;
};

/**
 * The j-th of `calls` waiting calls takes the place of the j-th oldest admission: it passes if that one is a window
 * old at most `hold_ms` from now, and is written at the later of now and then. So no window ever holds more than the
 * limit. Times are written up to the millisecond and compared down, so two admissions are never closer than they look.
 */
export function admitCalls(log: readonly number[], calls: number, now_ms: number, rule: RateRule): Admitted {
  const floor = Math.floor(now_ms);
  const ceil = Math.ceil(now_ms);
  const kept = endAhead(log, ceil + rule.hold_ms, ceil).slice(-rule.limit);
  const empty_places = rule.limit - kept.length;
  const added: number[] = [];
  let taken = 0;
  let last = kept.at(-1) ?? floor;
  for (let call = 0; call < calls; call += 1) {
    let at = ceil;
    if (call >= empty_places) {
      const oldest = kept[taken];
      if (oldest === undefined || oldest + rule.window_ms > floor + rule.hold_ms) break;
      at = Math.max(ceil, oldest + rule.window_ms);
      taken += 1;
    }
    last = Math.max(at, last);
    added.push(last);
  }
  const after = [...kept.slice(taken), ...added];
  const [oldest = floor] = after;
  const gone = after.filter((at) => at <= floor - rule.window_ms).length;
  return {
    log: after,
    delays: added.map((at) => at - ceil),
    free: rule.limit - after.length + gone,
    next_ms: after.length < rule.limit ? 0 : Math.max(0, oldest + rule.window_ms - floor),
  };
}

/** After a clock stepped back, what lies ahead of it ends now; on a clock that only goes forward this never happens. */
function endAhead(log: readonly number[], latest: number, now_ms: number): readonly number[] {
  const last = log.at(-1);
  if (last === undefined || last <= latest) return log;
  return log.map((at) => at - (last - now_ms));
}

/** Whole seconds, at least 1, after which a call passes: the value of `Retry-After` and of `t` in `RateLimit`. */
export function wholeSeconds(wait_ms: number): number {
  return Math.max(1, Math.ceil(wait_ms / 1000));
}
