import assert from "node:assert/strict";
import { test } from "node:test";
import { type Choice, nextRail, openHealth } from "./routing.ts";

const choice = (changes: Partial<Choice> = {}): Choice => ({
  rails: ["a", "b", "c"],
  forced: false,
  tried: new Set(),
  isServed: () => true,
  isHealthy: () => true,
  ...changes,
});

test("route: by priority among the rails that are served and not tried", () => {
  assert.equal(nextRail(choice()), "a");
  assert.equal(nextRail(choice({ tried: new Set(["a"]) })), "b");
  assert.equal(nextRail(choice({ isServed: (rail) => rail === "c" })), "c");
  assert.equal(nextRail(choice({ tried: new Set(["a", "b", "c"]) })), null);
  assert.equal(nextRail(choice({ rails: [] })), null);
});

test("route: an unhealthy rail comes after the healthy ones, and is tried when there is no other", () => {
  const isHealthy = (rail: string) => rail === "b";
  assert.equal(nextRail(choice({ isHealthy })), "b");
  assert.equal(nextRail(choice({ isHealthy, tried: new Set(["b"]) })), "a");
  assert.equal(nextRail(choice({ isHealthy: () => false })), "a");
});

test("route: a forced rail is taken well or not, and has no second", () => {
  assert.equal(nextRail(choice({ forced: true, isHealthy: () => false })), "a");
  assert.equal(nextRail(choice({ forced: true, tried: new Set(["a"]) })), null);
  assert.equal(nextRail(choice({ forced: true, isServed: (rail) => rail !== "a" })), null);
});

function health() {
  let now_ms = 1_000_000;
  const opened = openHealth(() => now_ms);
  return {
    ...opened,
    pass: (ms: number) => {
      now_ms += ms;
    },
    fail: (times: number) => {
      for (let n = 0; n < times; n += 1) opened.note("a", false);
    },
  };
}

test("health: five failures that are half of the calls take a rail to the back, for 15 s", () => {
  const rails = health();
  assert.equal(rails.isHealthy("a"), true, "nothing is known against it");
  rails.fail(4);
  assert.equal(rails.isHealthy("a"), true);
  rails.fail(1);
  assert.equal(rails.isHealthy("a"), false);
  assert.equal(rails.isHealthy("b"), true);
  assert.deepEqual([...rails.all()], [["a", false]]);
  rails.pass(15_000);
  assert.equal(rails.isHealthy("a"), true);
});

test("health: failures among many successes are noise, and old ones are forgotten", () => {
  const rails = health();
  for (let n = 0; n < 20; n += 1) rails.note("a", true);
  rails.fail(10);
  assert.equal(rails.isHealthy("a"), true);
  rails.pass(30_000);
  rails.fail(4);
  assert.equal(rails.isHealthy("a"), true);
});

test("health: after the pause one failure is enough to go back, one success to be well", () => {
  const rails = health();
  rails.fail(5);
  rails.pass(15_000);
  rails.fail(1);
  assert.equal(rails.isHealthy("a"), false);
  rails.note("a", true);
  assert.equal(rails.isHealthy("a"), true);
  rails.fail(1);
  assert.equal(rails.isHealthy("a"), true);
});
