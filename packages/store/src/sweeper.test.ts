import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { startLoop } from "./sweeper.ts";

function listener() {
  const errors: string[] = [];
  return { errors, log: { error: (_fields: object, message: string) => void errors.push(message) } };
}

test("start_loop: runs at once, again after its pause, and never overlaps itself", async () => {
  let under_way = 0;
  let rounds = 0;
  const loop = startLoop({
    name: "test",
    every_ms: 5,
    log: listener().log,
    work: async () => {
      under_way += 1;
      assert.equal(under_way, 1);
      await sleep(5);
      under_way -= 1;
      rounds += 1;
    },
  });
  for (let i = 0; i < 20; i += 1) {
    loop.wake();
    await sleep(2);
  }
  await loop.stop();
  assert.ok(rounds >= 3);
  assert.equal(under_way, 0, "stop waits for the round under way");
  const after = rounds;
  loop.wake();
  await sleep(20);
  assert.equal(rounds, after, "nothing runs after stop");
});

test("start_loop: a wake runs an idle loop at once, and once more after the round under way", async () => {
  let rounds = 0;
  const loop = startLoop({
    name: "test",
    every_ms: 60_000,
    log: listener().log,
    work: async () => {
      await sleep(10);
      rounds += 1;
    },
  });
  await sleep(2);
  loop.wake();
  // Without the wake the second round would begin in a minute, when the test has ended.
  while (rounds < 2) await sleep(1);
  await sleep(30);
  assert.equal(rounds, 2, "woken during the first round, once");
  loop.wake();
  while (rounds < 3) await sleep(1);
  await sleep(30);
  assert.equal(rounds, 3, "woken while idle, once");
  await loop.stop();
});

test("start_loop: true means more to do, and no pause comes between", async () => {
  let rounds = 0;
  const loop = startLoop({
    name: "test",
    every_ms: 60_000,
    log: listener().log,
    work: async () => {
      rounds += 1;
      return rounds < 5;
    },
  });
  // Were there a pause, this test would not end in time.
  while (rounds < 5) await sleep(1);
  await sleep(20);
  assert.equal(rounds, 5);
  await loop.stop();
});

test("start_loop: an error is logged and backed off from, whoever wakes it, and it goes on", async () => {
  const { errors, log } = listener();
  const begun: number[] = [];
  const loop = startLoop({
    name: "test",
    every_ms: 4,
    log,
    work: async () => {
      if (begun.push(performance.now()) <= 3) throw new Error("down");
    },
  });
  const waking = setInterval(() => loop.wake(), 1);
  while (begun.length < 6) await sleep(1);
  clearInterval(waking);
  for (const [failed, pause_ms] of [8, 16, 32].entries()) {
    const paused_ms = (begun[failed + 1] ?? 0) - (begun[failed] ?? 0);
    // A timer may ring up to a millisecond early.
    assert.ok(paused_ms >= pause_ms - 1, `${paused_ms} ms after failure ${failed + 1}`);
  }
  assert.equal(errors.length, 3);
  await loop.stop();
});
