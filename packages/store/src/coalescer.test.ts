import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep, setImmediate as turnEnds } from "node:timers/promises";
import fc from "fast-check";
import { Busy, coalesce } from "./coalescer.ts";

/** Until what was asked for has begun, and what was answered has made room. */
async function settled(): Promise<void> {
  await sleep(0);
  await turnEnds();
  await turnEnds();
}

/** A batch function whose batches end when the test says so. */
function gated() {
  const batches: number[][] = [];
  const gates: (() => void)[] = [];
  const run = async (batch: number[]) => {
    batches.push(batch);
    await new Promise<void>((resolve) => gates.push(resolve));
    return batch.map((item) => item * 10);
  };
  const open = async () => {
    gates.shift()?.();
    await settled();
  };
  return { batches, run, open };
}

test("coalesce: the callers of one tick share a batch, those that come while it runs share the next", async () => {
  const { batches, run, open } = gated();
  const times10 = coalesce({ run, max_batch: 10, max_waiting: 100 });
  const first = [times10(1), times10(2)];
  await settled();
  const second = [times10(3), times10(4), times10(5)];
  await settled();
  assert.deepEqual(batches, [[1, 2]]);
  await open();
  assert.deepEqual(batches, [
    [1, 2],
    [3, 4, 5],
  ]);
  await open();
  assert.deepEqual(await Promise.all([...first, ...second]), [10, 20, 30, 40, 50]);
  const third = times10(6);
  await settled();
  await open();
  assert.equal(await third, 60);
});

test("coalesce: a batch is never larger than its bound, lanes run side by side", async () => {
  const { batches, run, open } = gated();
  const times10 = coalesce({ run, max_batch: 2, max_waiting: 100, lanes: 2 });
  const calls = [1, 2, 3, 4, 5].map(times10);
  await settled();
  assert.deepEqual(batches, [
    [1, 2],
    [3, 4],
  ]);
  await open();
  await open();
  await open();
  assert.deepEqual(await Promise.all(calls), [10, 20, 30, 40, 50]);
});

test("coalesce: beside a batch under way only one of a size that is worth it begins, fewer wait for its end", async () => {
  const { batches, run, open } = gated();
  const times10 = coalesce({ run, max_batch: 10, max_waiting: 100, lanes: 2, least_beside: [3] });
  const calls = [times10(1)];
  await settled();
  calls.push(times10(2), times10(3));
  await settled();
  assert.deepEqual(batches, [[1]]);
  calls.push(times10(4));
  await settled();
  assert.deepEqual(batches, [[1], [2, 3, 4]]);
  calls.push(times10(5), times10(6));
  await open();
  assert.equal(batches.length, 2);
  await open();
  assert.deepEqual(batches, [[1], [2, 3, 4], [5, 6]]);
  await open();
  assert.deepEqual(await Promise.all(calls), [10, 20, 30, 40, 50, 60]);
});

test("coalesce: a third batch begins from a size of its own on, and what came at once is shared by as many as it is enough for", async () => {
  const { batches, run, open } = gated();
  const times10 = coalesce({ run, max_batch: 10, max_waiting: 100, lanes: 3, least_beside: [2, 4] });
  const calls = [times10(1)];
  await settled();
  calls.push(...[2, 3].map(times10));
  await settled();
  calls.push(...[4, 5, 6].map(times10));
  await settled();
  assert.deepEqual(batches, [[1], [2, 3]]);
  calls.push(times10(7));
  await settled();
  assert.deepEqual(batches, [[1], [2, 3], [4, 5, 6, 7]]);
  for (const _ of [1, 2, 3]) await open();
  assert.deepEqual(await Promise.all(calls), [10, 20, 30, 40, 50, 60, 70]);
  // Enough for two, not for three.
  const burst = [1, 2, 3, 4, 5, 6].map(times10);
  await settled();
  assert.deepEqual(batches.slice(3), [
    [1, 2, 3],
    [4, 5, 6],
  ]);
  for (const _ of [1, 2]) await open();
  await Promise.all(burst);
});

test("coalesce: with a gap, a batch after one that found company waits for more", async () => {
  const { batches, run, open } = gated();
  const times10 = coalesce({ run, max_batch: 10, max_waiting: 100, gap_ms: 1_000 });
  const first = [times10(1), times10(2)];
  await settled();
  await open();
  await Promise.all(first);
  const second = [times10(3)];
  await settled();
  second.push(times10(4));
  await settled();
  assert.deepEqual(batches, [[1, 2]]);
  while (batches.length === 1) await sleep(20);
  await open();
  assert.deepEqual(await Promise.all(second), [30, 40]);
  assert.deepEqual(batches, [
    [1, 2],
    [3, 4],
  ]);
});

test("coalesce: with a gap, a full batch waits for nobody, and what it leaves behind begins with the next full one", async () => {
  const sizes: number[] = [];
  const plain = coalesce<number, number>({
    run: async (batch) => batch,
    max_batch: 3,
    max_waiting: 100,
    // Were it waited for once, this test would not end in time.
    gap_ms: 600_000,
    observe: (size) => void sizes.push(size),
  });
  await Promise.all([1, 2, 3].map(plain));
  const calls = [4, 5].map(plain);
  await settled();
  calls.push(...[6, 7, 8, 9].map(plain));
  assert.deepEqual(await Promise.all(calls), [4, 5, 6, 7, 8, 9]);
  assert.deepEqual(sizes, [3, 3, 3]);
});

test("coalesce: with a gap, a lone caller waits for nobody", async () => {
  const half = coalesce<number, number>({
    run: async (batch) => batch.map((item) => item / 2),
    max_batch: 10,
    max_waiting: 10,
    // Were it waited for once, this test would not end in time.
    gap_ms: 600_000,
  });
  for (const item of [2, 4, 6, 8, 10, 12]) assert.equal(await half(item), item / 2);
});

test("coalesce: one more than may wait is refused at once, and nothing is done with it", async () => {
  const { batches, run, open } = gated();
  const times10 = coalesce({ run, max_batch: 1, max_waiting: 2 });
  const running = times10(1);
  await settled();
  const waiting = [times10(2), times10(3)];
  await assert.rejects(times10(4), Busy);
  for (let i = 0; i < 3; i += 1) await open();
  assert.deepEqual(await Promise.all([running, ...waiting]), [10, 20, 30]);
  assert.deepEqual(batches, [[1], [2], [3]]);
});

test("coalesce: an item that waited too long is refused instead of run", async () => {
  const { batches, run, open } = gated();
  const times10 = coalesce({ run, max_batch: 10, max_waiting: 10, max_wait_ms: 500 });
  const running = times10(1);
  await settled();
  const late = times10(2);
  late.catch(() => {});
  await sleep(520);
  const fresh = times10(3);
  await open();
  await assert.rejects(late, Busy);
  await open();
  assert.deepEqual(await Promise.all([running, fresh]), [10, 30]);
  assert.deepEqual(batches, [[1], [3]]);
});

test("coalesce: an Error among the results fails its own item alone", async () => {
  const half = coalesce<number, number>({
    run: async (batch) => batch.map((item) => (item % 2 === 0 ? item / 2 : new Error(`odd: ${item}`))),
    max_batch: 10,
    max_waiting: 10,
  });
  const results = await Promise.allSettled([half(2), half(3), half(4)]);
  assert.deepEqual(
    results.map((result) => (result.status === "fulfilled" ? result.value : String(result.reason))),
    [1, "Error: odd: 3", 2],
  );
});

test("coalesce: a failed batch fails every item, or is retried one by one where that is asked for", async () => {
  const run = async (batch: number[]) => {
    if (batch.includes(2)) throw new Error("broken");
    return batch;
  };
  const together = coalesce({ run, max_batch: 10, max_waiting: 10 });
  const alone = coalesce({ run, max_batch: 10, max_waiting: 10, retry_alone: true });
  const statuses = async (call: (item: number) => Promise<number>) =>
    (await Promise.allSettled([1, 2, 3].map(call))).map((result) => result.status);
  assert.deepEqual(await statuses(together), ["rejected", "rejected", "rejected"]);
  assert.deepEqual(await statuses(alone), ["fulfilled", "rejected", "fulfilled"]);
  assert.deepEqual(await statuses(alone), ["fulfilled", "rejected", "fulfilled"], "it goes on after a failure");
});

test("coalesce: a wrong number of results is a fault, not somebody else's answer", async () => {
  const wrong = coalesce<number, number>({ run: async () => [1], max_batch: 10, max_waiting: 10 });
  const results = await Promise.allSettled([wrong(1), wrong(2)]);
  assert.deepEqual(
    results.map((result) => result.status),
    ["rejected", "rejected"],
  );
});

test("coalesce: whatever the sizes and the order of arrival, each caller gets its own answer", async () => {
  const item = fc.record({ wait: fc.integer({ min: 0, max: 3 }), value: fc.integer() });
  await fc.assert(
    fc.asyncProperty(
      fc.array(item, { maxLength: 60 }),
      fc.integer({ min: 1, max: 7 }),
      fc.integer({ min: 1, max: 3 }),
      async (items, max_batch, lanes) => {
        const sizes: number[] = [];
        const run = async (batch: number[]) => {
          await sleep(batch.length % 2);
          return batch.map((value) => value + 1);
        };
        const add = coalesce({ run, max_batch, lanes, max_waiting: 100, observe: (size) => sizes.push(size) });
        const answers = await Promise.all(
          items.map(async ({ wait, value }) => {
            await sleep(wait);
            return await add(value);
          }),
        );
        assert.deepEqual(
          answers,
          items.map(({ value }) => value + 1),
        );
        assert.ok(sizes.every((size) => size >= 1 && size <= max_batch));
        assert.equal(
          sizes.reduce((sum, size) => sum + size, 0),
          items.length,
        );
      },
    ),
    { numRuns: 30 },
  );
});
