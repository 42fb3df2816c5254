import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { computeFee, type FeeLine } from "./fee.ts";

const free: FeeLine = { percent_bps: 0, fixed_minor: 0n, min_minor: null, max_minor: null };

test("compute_fee: no line and a zero line cost nothing", () => {
  assert.equal(computeFee(10_000n, null), 0n);
  assert.equal(computeFee(10_000n, free), 0n);
});

test("compute_fee: the percentage is rounded half up to the minor unit", () => {
  const line = { ...free, percent_bps: 150 };
  assert.equal(computeFee(10_000n, line), 150n);
  assert.equal(computeFee(33n, line), 0n); // 0.495
  assert.equal(computeFee(100n, { ...free, percent_bps: 50 }), 1n); // 0.5
  assert.equal(computeFee(99n, { ...free, percent_bps: 50 }), 0n); // 0.495
});

test("compute_fee: fixed is added, then the bounds hold", () => {
  const line = { percent_bps: 200, fixed_minor: 25n, min_minor: 100n, max_minor: 500n };
  assert.equal(computeFee(1n, line), 100n);
  assert.equal(computeFee(10_000n, line), 225n);
  assert.equal(computeFee(1_000_000n, line), 500n);
});

test("compute_fee: never falls when the amount grows", () => {
  const amount = fc.bigInt({ min: 1n, max: 9_007_199_254_740_991n });
  const bps = fc.integer({ min: 0, max: 10_000 });
  const bound = fc.option(fc.bigInt({ min: 0n, max: 1_000_000n }), { nil: null });
  fc.assert(
    fc.property(amount, amount, bps, bound, bound, (a, b, percent_bps, x, y) => {
      const [min_minor, max_minor] = x !== null && y !== null && x > y ? [y, x] : [x, y];
      const line = { percent_bps, fixed_minor: 7n, min_minor, max_minor };
      const [small, large] = a < b ? [a, b] : [b, a];
      assert.ok(computeFee(small, line) <= computeFee(large, line));
    }),
  );
});
