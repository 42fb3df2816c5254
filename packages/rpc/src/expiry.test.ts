import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Expiry } from "./expiry.ts";

test("expiry: each deadline ends once its time has come, in whatever order they were made", async () => {
  const due = new Map<string, number>();
  const ended: string[] = [];
  const expiry = new Expiry((now) => {
    // Those that a stalled process finds due together end in the order of their times as well.
    for (const [name, at] of [...due].sort(([, one], [, other]) => one - other)) {
      if (at > now) continue;
      due.delete(name);
      ended.push(name);
    }
    return Math.min(Number.POSITIVE_INFINITY, ...due.values());
  });
  const watch = (name: string, at: number) => {
    due.set(name, at);
    expiry.watch(at);
  };
  const begun = performance.now();
  watch("third", begun + 120);
  watch("first", begun + 20);
  watch("second", begun + 60);
  watch("never", begun + 60_000);
  const hold = setInterval(() => {}, 1_000);
  while (ended.length < 3) await sleep(10);
  assert.deepEqual(ended, ["first", "second", "third"]);
  assert.ok(performance.now() - begun >= 119);
  watch("fourth", performance.now() + 10);
  expiry.stop();
  await sleep(50);
  clearInterval(hold);
  assert.equal(ended.length, 3, "nothing rings after the end");
});
