// Hints: what a process knows of waiting deliveries survives claims that began before it came.

import assert from "node:assert/strict";
import { test } from "node:test";
import { openHints } from "./hints.ts";

const open = () => openHints(async () => []);

test("claimed: forgets where nothing waited, but not what came while the claim was made", () => {
  const hints = open();
  hints.add([1n, 2n, 3n]);
  assert.deepEqual(hints.take(), [1n, 2n, 3n]);
  hints.note([2n]);
  hints.claimed([1n, 2n, 3n], [3n]);
  assert.deepEqual(hints.waitingAt([1n, 2n, 3n, 3n]), [2n, 3n]);
  hints.take();
  hints.claimed([1n, 2n, 3n], []);
  assert.deepEqual(hints.waitingAt([1n, 2n, 3n]), []);
});

test("ended: brings a claim where something waits, and where a hint has found no room yet", () => {
  const hints = open();
  assert.equal(hints.ended(1n), false, "nothing waits anywhere");
  hints.note([1n]);
  assert.equal(hints.ended(2n), false);
  assert.equal(hints.ended(1n), true);
  assert.deepEqual(hints.take(), [1n]);
  hints.add([3n]);
  assert.equal(hints.ended(2n), true, "the end at another endpoint leaves room for this one");
  assert.deepEqual(hints.take(), [3n]);
});
