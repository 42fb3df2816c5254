import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { openDue } from "./due.ts";

test("drain: what the loop has taken is looked at before it returns", async () => {
  const taken = Promise.withResolvers<void>();
  const looked = Promise.withResolvers<void>();
  let waiting = [{ id: "pay_1" }];
  const due = openDue({
    name: "test",
    every_ms: 60_000,
    log: { error: () => assert.fail("no look fails") },
    take: async () => waiting.splice(0),
    look: () => {
      taken.resolve();
      return looked.promise;
    },
  });
  const loop = due.start();
  await taken.promise;
  const drained = due.drain("acct_1");
  assert.equal(await Promise.race([drained, sleep(50, "waits")]), "waits");
  looked.resolve();
  assert.equal(await drained, 0);
  waiting = [{ id: "pay_2" }, { id: "pay_3" }];
  assert.equal(await due.drain("acct_1"), 2);
  await loop.stop();
});
