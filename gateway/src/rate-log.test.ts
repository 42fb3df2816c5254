import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { admitCalls, type RateRule, wholeSeconds } from "./rate-log.ts";

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

test("rate: no window ever holds more than the limit, and nothing is refused that a window had room for", () => {
  const history = fc.array(fc.record({ gap: fc.nat(300), calls: fc.integer({ min: 1, max: 6 }) }), { maxLength: 60 });
  fc.assert(
    fc.property(history, fc.integer({ min: 1, max: 9 }), (steps, limit) => {
      const rule = { limit, window_ms: 1_000, hold_ms: 250 };
      let at = 0;
      const calls = steps.map(({ gap, calls: count }) => {
        at += gap;
        return { at, calls: count };
      });
      const admitted = passes(calls, rule);
      for (const [index, instant] of admitted.entries()) {
        const before = admitted[index - limit];
        assert.ok(before === undefined || instant - before >= rule.window_ms, `${before} and ${instant}`);
      }
    }),
    { numRuns: 300 },
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
