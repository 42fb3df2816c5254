import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, test } from "node:test";
import type { OperationRef } from "@cauri/money/reference";
import { findNamed } from "./find.ts";
import type { Owner } from "./lists.ts";
import { type TestDatabase, testDatabase } from "./testing.ts";

const A: Owner = { account: "acct_a", mode: "test" };
const B: Owner = { account: "acct_b", mode: "test" };

type Thing = Owner & { id: string };

let db: TestDatabase;

before(async () => {
  db = await testDatabase("store", [join(import.meta.dirname, "../test-migrations")]);
  await db.pool.query(
    `insert into things (id, account, mode, n, status, client_ref, created_at)
     select 'thing_' || i, case when i % 2 = 0 then 'acct_a' else 'acct_b' end, 'test',
            case when i < 20 then i + 1 end, 'pending', 'ref-' || i, now()
       from generate_series(0, 20) i`,
  );
});
after(() => db.close());

const byId = (id: string): OperationRef[] => [{ by: "id", value: id }];
const find = (named: readonly OperationRef[], owner: Owner | null) => findNamed<Thing>(db.pool, "things", named, owner);

test("find_named: many at once are each found within their own account, by whatever statement they share", async () => {
  const statements: unknown[] = [];
  const counted = {
    query: (text: string, values?: readonly unknown[]) => {
      statements.push(values);
      return db.pool.query(text, [...(values ?? [])]);
    },
  };
  const asked = Array.from({ length: 20 }, (_, i) => [`thing_${i}`, i % 2 === 0 ? A : B, i % 2 === 0 ? B : A] as const);
  const found = await Promise.all(
    asked.flatMap(([id, own, other]) => [
      findNamed<Thing>(counted as typeof db.pool, "things", byId(id), own),
      findNamed<Thing>(counted as typeof db.pool, "things", byId(id), other),
    ]),
  );
  assert.deepEqual(
    found.map((row) => row?.id ?? null),
    asked.flatMap(([id]) => [id, null]),
  );
  assert.ok(statements.length <= 3, `${statements.length} statements`);
});

test("find_named: an operator needs no account; a draft and what is not there are nobody's", async () => {
  assert.equal((await find(byId("thing_3"), null))?.account, "acct_b");
  assert.equal(await find(byId("thing_20"), A), null, "it has no number yet");
  assert.equal(await find(byId("thing_20"), null), null);
  assert.equal(await find(byId("thing_99"), A), null);
});

test("find_named: the readings of a name are tried in their order", async () => {
  const named: OperationRef[] = [
    { by: "id", value: "ref-4" },
    { by: "client_ref", value: "ref-4" },
  ];
  assert.equal((await find(named, A))?.id, "thing_4");
  assert.equal(await find(named, B), null);
  assert.equal(await find(named, null), null, "a merchant's own name says nothing to an operator");
});
