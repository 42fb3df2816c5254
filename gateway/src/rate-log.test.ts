import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { admitCalls, type RateRule, wholeSeconds } from "./rate-log.ts";
import { firstPlace, inWindow } from "./rate-testing.ts";

const RULE: RateRule = { limit: 300, window_ms: 60_000, hold_ms: 250 };

/** Runs calls through the rule and returns the instants at which they pass. */
function passes(calls: readonly { at: number; calls: number }[], rule: RateRule): number[] {
  let log: readonly number[] = [];
  const admitted: number[] = [];
  for (const { at, calls: count } of calls) {
    const answer = admitCalls(log, count, at, rule);
    log = answer.log;
    admitted.push(...answer.delays.map((delay) => at + delay));
  }
  return admitted;
}

/** Calls at instants that are mostly close together, sometimes half a window or a whole one apart. */
const histories = fc.array(
  fc.record({
    gap: fc.oneof(fc.nat(300), fc.constantFrom(0, 1, 499, 500, 501, 749, 750, 751, 999, 1_000, 1_001)),
    calls: fc.integer({ min: 1, max: 12 }),
  }),
  { maxLength: 60 },
);

test("rate: what passes, when, and what is refused is what the plainest count of the last window says", () => {
  fc.assert(
    fc.property(histories, fc.integer({ min: 1, max: 9 }), (steps, limit) => {
      const rule = { limit, window_ms: 1_000, hold_ms: 250 };
      const admitted: number[] = [];
      let log: readonly number[] = [];
      let at = 0;
      for (const { gap, calls } of steps) {
        at += gap;
        const answer = admitCalls(log, calls, at, rule);
        log = answer.log;
        for (let call = 0; call < calls; call += 1) {
          const wanted = firstPlace(admitted, at, rule);
          const delay = answer.delays[call];
          assert.equal(delay === undefined ? null : at + delay, wanted, `call ${call} at ${at}`);
          if (wanted !== null) admitted.push(wanted);
        }
      }
      for (const instant of admitted) assert.ok(inWindow(admitted, instant, rule) <= limit, `${instant}`);
    }),
    { numRuns: 300 },
  );
});

test("rate: after the seconds that a refused client is told, and not a whole second sooner, a call passes unheld", () => {
  fc.assert(
    fc.property(histories, fc.integer({ min: 1, max: 9 }), (steps, limit) => {
      const rule = { limit, window_ms: 5_000, hold_ms: 250 };
      let log: readonly number[] = [];
      let at = 0;
      for (const { gap, calls } of steps) {
        at += gap;
        const answer = admitCalls(log, calls, at, rule);
        log = answer.log;
        if (answer.delays.length === calls) continue;
        const told = wholeSeconds(answer.next_ms);
        assert.equal(admitCalls(log, 1, at + told * 1_000, rule).delays[0], 0);
        const sooner = at + (told - 1) * 1_000;
        if (told > 1) assert.notEqual(admitCalls(log, 1, sooner, rule).delays[0], 0);
      }
    }),
    { numRuns: 200 },
  );
});

test("rate: 150, half a window, 150, half a window, 150 pass; one more at any of them does not", () => {
  const steps = [
    { at: 0, calls: 150 },
    { at: 30_000, calls: 151 },
    { at: 60_000, calls: 151 },
    { at: 90_000, calls: 200 },
  ];
  const admitted = passes(steps, RULE);
  assert.deepEqual(
    [0, 30_000, 60_000, 90_000].map((at) => admitted.filter((one) => one === at).length),
    [150, 150, 150, 150],
  );
});

test("rate: a client at a steady 5 a second with jitter is never refused", () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: -100, max: 100 }), { minLength: 1_000, maxLength: 1_000 }), (jitter) => {
      const calls = jitter.map((late, index) => ({ at: 1_000 + index * 200 + late, calls: 1 }));
      assert.equal(passes(calls, RULE).length, calls.length);
    }),
    { numRuns: 10 },
  );
});

test("rate: what is told to a refused client is the second at which it passes", () => {
  let { log } = admitCalls([], 300, 0, RULE);
  const refused = admitCalls(log, 1, 1_500, RULE);
  assert.deepEqual(refused.delays, []);
  assert.equal(refused.next_ms, 58_500);
  assert.equal(wholeSeconds(refused.next_ms), 59);
  ({ log } = admitCalls(refused.log, 1, 1_500 + 59_000, RULE));
  assert.equal(log.at(-1), 60_500);
});

test("rate: a clock that stepped back refuses nobody for longer than a window", () => {
  const { log } = admitCalls([], 300, 1_000_000, RULE);
  const answer = admitCalls(log, 1, 500_000, RULE);
  assert.ok(answer.next_ms <= RULE.window_ms);
});
