// For tests: random histories of what happens to deliveries, for the stores and the model to live through.

import assert from "node:assert/strict";
import fc from "fast-check";
import type { ModelDelivery } from "./model-testing.ts";

/** Whole tens: what the machine itself takes for a history never makes anything due. */
const PAUSES_S = [10, 50, 60, 300, 1800, 3590, 3600, 7200, 259_210];

/** One step of a history of one account with two endpoints. */
export const step = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant("events" as const),
      operations: fc.array(fc.nat(3), { minLength: 1, maxLength: 8 }),
      at_once: fc.boolean(),
    }),
  },
  { weight: 8, arbitrary: fc.record({ do: fc.constant("claim" as const), replica: fc.nat(1) }) },
  {
    weight: 10,
    arbitrary: fc.record({
      do: fc.constant("end" as const),
      of: fc.array(fc.nat(63), { minLength: 1, maxLength: 8 }),
      // Long rows of failures, or there would be no suspension.
      delivered: fc.oneof({ weight: 7, arbitrary: fc.constant(false) }, { weight: 1, arbitrary: fc.constant(true) }),
      // Once in a while a row of successes instead, whose places are filled again.
      refills: fc.oneof({ weight: 3, arbitrary: fc.constant(false) }, { weight: 1, arbitrary: fc.constant(true) }),
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("lose" as const), of: fc.nat(63) }) },
  { weight: 6, arbitrary: fc.record({ do: fc.constant("pass" as const), s: fc.constantFrom(...PAUSES_S) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("test" as const), at: fc.nat(1) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("switch" as const), at: fc.nat(1), on: fc.boolean() }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("replay" as const) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("give up" as const) }) },
);
/** What bounds a history from its beginning. */
export const bounds = fc.record({
  per_endpoint: fc.integer({ min: 1, max: 25 }),
  per_account: fc.integer({ min: 2, max: 60 }),
  /** Of each endpoint, when the history begins. */
  failures: fc.nat(19),
});
export type Step = typeof step extends fc.Arbitrary<infer S> ? S : never;

/** Of what may be sent so many have been taken, the oldest: they are under way in the model as well. */
export function takeOldest(
  from: readonly ModelDelivery[],
  count: number,
  taken: readonly { readonly id: string; readonly no: bigint }[],
): void {
  assert.equal(taken.length, count, "as many as there is room for");
  const rest = new Set(from);
  let youngest_s = 0;
  for (const { id, no } of taken) {
    const one = from.find((each) => each.id === id);
    assert.ok(one !== undefined && rest.delete(one), "only what may be sent, and once");
    youngest_s = Math.max(youngest_s, one.due_s);
    one.flight = { no, live: true };
  }
  if (count > 0)
    assert.ok(
      [...rest].every(({ due_s }) => due_s >= youngest_s),
      "the oldest first",
    );
}
