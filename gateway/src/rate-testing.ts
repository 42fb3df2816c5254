// For tests: the rate limit in the slowest and plainest way, by the contract's sentence alone. It shares no line with the
// rule that it judges.

import type { RateRule } from "./rate-log.ts";

/**
 * The first instant from `at_ms` on, at most `hold_ms` later, in whose last window fewer than `limit` calls were
 * admitted; null where there is none. Admissions never go backwards: a call is written after those before it.
 */
export function firstPlace(admitted: readonly number[], at_ms: number, rule: RateRule): number | null {
  const begin = Math.max(at_ms, admitted.at(-1) ?? at_ms);
  // Only where an earlier call leaves the window can anything change.
  const leaving = admitted.map((one) => one + rule.window_ms).filter((one) => one > begin);
  const found = [begin, ...leaving].find((instant) => inWindow(admitted, instant, rule) < rule.limit);
  return found === undefined || found > at_ms + rule.hold_ms ? null : found;
}

/** How many calls the window that ends at an instant holds. */
export function inWindow(admitted: readonly number[], instant: number, { window_ms }: RateRule): number {
  return admitted.filter((one) => one > instant - window_ms && one <= instant).length;
}
