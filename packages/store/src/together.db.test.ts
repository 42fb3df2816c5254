// Writes that share a transaction: each stands or falls by its own lease.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { claimAll, finishClaims, type Lease } from "./claims.ts";
import { again, age, claimed, claimRequest, LEASE_MS } from "./claims-testing.ts";
import { LeaseLost } from "./lease.ts";
import { transact } from "./pool.ts";
import { type TestDatabase, testDatabase } from "./testing.ts";
import { writeTogether } from "./together.ts";

let db: TestDatabase;

before(async () => {
  db = await testDatabase("store", []);
});
after(() => db.close());

type Write = { readonly lease: Lease; readonly by: string };

test("write together: an overtaken runner writes nothing, though who overtook it writes in the same moment", async () => {
  const batches: string[][] = [];
  const write = writeTogether<Write, string>({
    idOf: ({ lease }) => lease.operation_id,
    write: async (_tx, writes) => {
      batches.push(writes.map(({ by }) => by));
      return writes.map(({ by }) => by);
    },
    end: finishClaims,
  });
  const request = claimRequest();
  const overtaken = await claimed(db.pool, request);
  await age(db.pool, request.operation_id, LEASE_MS + 1);
  const [taken] = await transact(db.pool, (tx) => claimAll(tx, [again(request)]));
  assert.ok(taken !== undefined && "claimed" in taken && taken.claimed === "resumed");
  // While the first one is under way the other two wait, and then leave together, the overtaken one before.
  const first = write(db.pool, { lease: await claimed(db.pool, claimRequest()), by: "another operation" });
  const [stale, fresh] = await Promise.allSettled([
    write(db.pool, { lease: overtaken, by: "overtaken" }),
    write(db.pool, { lease: taken, by: "successor" }),
  ]);
  assert.equal(await first, "another operation");
  assert.ok(stale.status === "rejected" && stale.reason instanceof LeaseLost);
  assert.deepEqual(fresh, { status: "fulfilled", value: "successor" });
  assert.deepEqual(batches.flat(), ["another operation", "successor"]);
});
