// An endpoint's rules: which events exist, which URLs are taken, and what attempts do to counter and suspension.
// Pure; the numbers are the interface's ("Events", "Limits") and section 5 of the contract.

import { type Refusal, refuse } from "@cauri/money/refusal";

/** An account has at most this many endpoints. */
export const MAX_ENDPOINTS = 10;
/** So many failed attempts in a row suspend an endpoint. */
export const SUSPEND_AFTER = 20;

/** Names that may be subscribed to; transfers, rebalances, withdrawals and disputes send nothing. */
export const CATALOGUE: readonly string[] = [
  "payment.initiated",
  "payment.pending",
  "payment.success",
  "payment.failed",
  "payout.success",
  "payout.failed",
  "payout.cancelled",
  "payout.refunded",
  "refund.success",
  "refund.failed",
  "subscription.*",
  "subscription.created",
  "subscription.activated",
  "subscription.renewed",
  "subscription.payment_failed",
  "subscription.past_due",
  "subscription.unpaid",
  "subscription.cancelled",
  "payment.test",
];

/** An event of the house that is told to merchants at all. */
export function isDelivered(event: string): boolean {
  return event !== "payment.test" && event !== "subscription.*" && CATALOGUE.includes(event);
}

/** Whether names of the catalogue, none of them meaning all, include an event. */
export function isSubscribed(names: readonly string[], event: string): boolean {
  if (names.length === 0 || names.includes(event)) return true;
  return event.startsWith("subscription.") && names.includes("subscription.*");
}

/** Checks names as they were sent; names twice are kept once. */
export function checkEvents(names: readonly string[]): readonly string[] | Refusal {
  const [index, name] = [...names.entries()].find(([, candidate]) => !CATALOGUE.includes(candidate)) ?? [];
  if (index !== undefined && name !== undefined)
    return refuse("invalid_request", `not an event of the catalogue: ${JSON.stringify(name.slice(0, 64))}`, {
      field: `subscribed_events.${index}`,
    });
  return [...new Set(names)];
}

/** The URL as it is kept and compared: scheme and host in lower case, default port and dot segments gone. */
export function checkUrl(text: string): string | Refusal {
  const no = (why: string) => refuse("invalid_request", why, { field: "url" });
  const url = URL.parse(text);
  if (url === null) return no("not a URL");
  if (url.protocol !== "https:") return no("must be an https:// URL");
  if (url.username !== "" || url.password !== "") return no("must not hold credentials");
  if (text.includes("#")) return no("must not have a fragment");
  if (url.hostname === "") return no("must name a host");
  return url.href;
}

/** What some attempts that ended one after another come to at one endpoint. */
export type Tally<E> = {
  readonly of: E;
  /** One of them at least arrived: counter and suspension of before are cleared. */
  readonly succeeded: boolean;
  readonly failed: boolean;
  /** Failures since the last success, or in all where there was none. */
  readonly failures: number;
};

/**
 * Sums up per endpoint what counter and suspension depend on, so that one update can apply it to whatever stands there: a
 * success clears both at once; the 20th failure in a row suspends, and so does each failure of a probe after that. A failure
 * that was under way when a suspension began doesn't prolong it. In the order of the endpoints, in which their rows are locked.
 */
export function tally<E extends bigint>(ended: readonly { readonly of: E; readonly delivered: boolean }[]): Tally<E>[] {
  const tallies = new Map<E, Tally<E>>();
  for (const { of, delivered } of ended) {
    const before = tallies.get(of) ?? { of, succeeded: false, failed: false, failures: 0 };
    tallies.set(of, {
      of,
      succeeded: before.succeeded || delivered,
      failed: before.failed || !delivered,
      failures: delivered ? 0 : before.failures + 1,
    });
  }
  return [...tallies.values()].sort((one, other) => (one.of < other.of ? -1 : 1));
}

/** When an attempt is made again, in milliseconds after the one that failed; null when it was the last. */
export function nextAttemptAfter(attempts: number, ladder_s: readonly number[]): number | null {
  const step = ladder_s[attempts - 1];
  return step === undefined ? null : step * 1000;
}
