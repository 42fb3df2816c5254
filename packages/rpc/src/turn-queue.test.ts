import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import { TurnQueue } from "./turn-queue.ts";

/** A queue whose messages are written when the test says so. */
function slowQueue() {
  const messages: (readonly string[])[] = [];
  const written: (() => void)[] = [];
  const queue = new TurnQueue<string>((items, done) => {
    messages.push(items);
    written.push(done);
  });
  return { queue, messages, finish: () => written.shift()?.() };
}

test("turn_queue: one message a turn, and while it is being written all that comes waits for its end", async () => {
  const { queue, messages, finish } = slowQueue();
  queue.push("a", 10);
  queue.push("b", 10);
  assert.deepEqual([messages, queue.bytes, queue.gathering], [[], 20, true]);
  await turn();
  assert.deepEqual([messages, queue.bytes, queue.idle], [[["a", "b"]], 0, false]);
  queue.push("c", 10);
  await turn();
  queue.push("d", 10);
  await turn();
  assert.equal(messages.length, 1);
  finish();
  await turn();
  assert.deepEqual(messages, [
    ["a", "b"],
    ["c", "d"],
  ]);
  finish();
  assert.equal(queue.idle, true);
});

test("turn_queue: a message is not filled without end, and a large item goes by itself", async () => {
  const { queue, messages, finish } = slowQueue();
  for (const name of ["a", "b", "c"]) queue.push(name, 100_000);
  queue.push("large", 3_000_000);
  queue.push("d", 10);
  for (let n = 0; n < 5; n += 1) {
    await turn();
    finish();
  }
  assert.deepEqual(messages, [["a", "b"], ["c"], ["large"], ["d"]]);
});

test("turn_queue: at its end all that waits is written at once, or forgotten", async () => {
  const flushed = slowQueue();
  flushed.queue.push("a", 200_000);
  flushed.queue.push("b", 200_000);
  flushed.queue.flush();
  assert.deepEqual([flushed.messages, flushed.queue.bytes], [[["a"], ["b"]], 0]);
  const dropped = slowQueue();
  dropped.queue.push("a", 10);
  dropped.queue.drop();
  await turn();
  assert.deepEqual([dropped.messages, dropped.queue.bytes, dropped.queue.idle], [[], 0, true]);
});
