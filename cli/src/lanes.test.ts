import assert from "node:assert/strict";
import { test } from "node:test";
import { createLanes } from "./lanes.ts";

/** Work that ends when it is told to. */
function work(name: string, begun: string[]) {
  const { promise, resolve } = Promise.withResolvers<void>();
  return {
    end: resolve,
    run: () => {
      begun.push(name);
      return promise;
    },
  };
}

test("lanes: in order within one, side by side over several, and no more than the bound", async () => {
  const begun: string[] = [];
  const lanes = createLanes(3);
  const [a1, a2, b1] = [work("a1", begun), work("a2", begun), work("b1", begun)];
  await lanes.add("a", a1.run);
  await lanes.add("a", a2.run);
  let has_room = false;
  const third = lanes.add("b", b1.run).then(() => {
    has_room = true;
  });
  await new Promise(setImmediate);
  assert.deepEqual([begun, has_room], [["a1", "b1"], false]);
  a1.end();
  await third;
  await new Promise(setImmediate);
  assert.deepEqual(begun, ["a1", "b1", "a2"]);
  b1.end();
  a2.end();
  await lanes.idle();
});
