import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { formatMinor, MAX_MINOR } from "./amount.ts";

test("format_minor: writes exactly the asset's decimals", () => {
  assert.equal(formatMinor(1500n, 0), "1500");
  assert.equal(formatMinor(1500n, 2), "15.00");
  assert.equal(formatMinor(5n, 2), "0.05");
  assert.equal(formatMinor(0n, 3), "0.000");
  assert.equal(formatMinor(-5n, 2), "-0.05");
  assert.equal(formatMinor(MAX_MINOR, 2), "90071992547409.91");
  assert.throws(() => formatMinor(1n, 1.5));
});

test("format_minor: loses nothing", () => {
  fc.assert(
    fc.property(fc.bigInt(), fc.integer({ min: 0, max: 8 }), (amount, scale) => {
      assert.equal(BigInt(formatMinor(amount, scale).replace(".", "")), amount);
    }),
  );
});

test("max_minor: is the largest integer that a JSON number holds", () => {
  assert.equal(Number(MAX_MINOR), Number.MAX_SAFE_INTEGER);
});
