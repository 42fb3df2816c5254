// Binary arrays as a real PostgreSQL reads them.

import assert from "node:assert/strict";
import { after, test } from "node:test";
import { pgBigints } from "./arrays.ts";
import { testDatabase } from "./testing.ts";

const database = await testDatabase("arrays", []);
after(() => database.close());

test("pg_bigints: PostgreSQL reads the integers that were written, of any size and none", async () => {
  const items = [0, 1, 2 ** 32, Number.MAX_SAFE_INTEGER, -1, -(2 ** 40), 0n, 5n, 2n ** 63n - 1n, -(2n ** 63n)];
  for (const some of [items, []]) {
    const { rows } = await database.pool.query<{ items: string }>("select $1::bigint[]::text as items", [
      pgBigints(some),
    ]);
    assert.equal(rows[0]?.items, `{${some.join(",")}}`);
  }
});
