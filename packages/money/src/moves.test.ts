import assert from "node:assert/strict";
import { test } from "node:test";
import { type Moves, move, pathsOf } from "./moves.ts";

const moves = {
  initiated: {
    accept: { to: "pending", ledger: "hold", event: "pending" },
    reject: { to: "failed", ledger: "none", event: "failed" },
  },
  pending: {
    settle: { to: "success", ledger: "capture", event: "success" },
    reject: { to: "failed", ledger: "release", event: "failed" },
  },
  failed: { settle: { to: "failed", ledger: "post_suspense", event: null } },
  success: {},
} as const satisfies Moves;

test("move: follows the arrow that is drawn", () => {
  assert.deepEqual(move(moves, "pending", "settle"), { to: "success", ledger: "capture", event: "success" });
});

test("move: an arrow that is not drawn is null, a state that doesn't exist is a bug", () => {
  assert.equal(move(moves, "success", "reject"), null);
  assert.equal(move(moves as Moves, "success", "toString"), null);
  assert.throws(() => move(moves as Moves, "nowhere", "settle"), /no such state/);
});

test("paths_of: every path once, a loop walked once", () => {
  const paths = [...pathsOf(moves, "initiated")].map((path) => path.map((step) => step.news).join(" "));
  assert.deepEqual(paths.sort(), [
    "",
    "accept",
    "accept reject",
    "accept reject settle",
    "accept settle",
    "reject",
    "reject settle",
  ]);
});

test("paths_of: a move to a state that the table lacks is found", () => {
  const broken = { a: { go: { to: "b", ledger: "none", event: null } } } as const satisfies Moves;
  assert.throws(() => [...pathsOf(broken, "a")], /doesn't have: b/);
});
