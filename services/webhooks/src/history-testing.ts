// For tests: random histories of what happens to deliveries, for the stores and the model to live through.

import fc from "fast-check";

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
