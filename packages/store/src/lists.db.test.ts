import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, test } from "node:test";
import fc from "fast-check";
import { pgTextArray } from "./arrays.ts";
import { setOffset } from "./clock.ts";
import { type ListQuery, listPage, nextNumbers, type Owner } from "./lists.ts";
import { openPool, type Queryable, snapshot, transact } from "./pool.ts";
import { PATIENCE_MS, type TestDatabase, testDatabase } from "./testing.ts";

const STATUSES = ["initiated", "pending", "success", "failed", "cancelled"];
const A: Owner = { account: "acct_a", mode: "test" };
const B: Owner = { account: "acct_b", mode: "test" };
const BLOCK = 4096;

type Thing = Owner & { id: string; n: bigint | null; status: string; client_ref: string | null; created_at: Date };

let db: TestDatabase;
let serial = 0;

function nextId(): string {
  serial += 1;
  return `thing_${serial}`;
}

before(async () => {
  db = await testDatabase("store", [join(import.meta.dirname, "../test-migrations")]);
});
after(() => db.close());

/** Inserts visible rows as a hot write does: numbers, times and rows in one statement over arrays. */
async function insertRows(tx: Queryable, owners: readonly Owner[], status: (i: number) => string): Promise<string[]> {
  const ids = owners.map(() => nextId());
  await tx.query(
    `with numbered as (select * from number_rows('thing', $2::text[], $3::text[]))
     insert into things (id, account, mode, n, status, client_ref, created_at)
     select t.id, t.account, t.mode, numbered.n, t.status, 'ref-' || t.id, numbered.created_at
       from unnest($1::text[], $2::text[], $3::text[], $4::text[]) with ordinality as t (id, account, mode, status, ord)
       join numbered using (ord)`,
    [
      pgTextArray(ids),
      pgTextArray(owners.map((owner) => owner.account)),
      pgTextArray(owners.map((owner) => owner.mode)),
      pgTextArray(owners.map((_, i) => status(i))),
    ],
  );
  return ids;
}

const page = (query: ListQuery) => snapshot(db.pool, (tx) => listPage<Thing>(tx, query));

function list(owner: Owner, change: Partial<ListQuery> = {}): ListQuery {
  return { ...owner, table: "things", kind: "thing", page: 1, per_page: 25, ...change };
}

/** What every list means, computed the naive way: all rows, filtered and sorted in memory. */
function naive(all: readonly Thing[], query: ListQuery) {
  const matching = all
    .filter((row) => row.account === query.account && row.mode === query.mode && row.n !== null)
    .filter((row) => query.status === undefined || row.status === query.status)
    .filter((row) => query.statuses === undefined || query.statuses.includes(row.status))
    .filter((row) => query.client_ref === undefined || row.client_ref === query.client_ref)
    .filter((row) => query.created_from === undefined || row.created_at >= query.created_from)
    .filter((row) => query.created_to === undefined || row.created_at < query.created_to)
    .sort((a, b) => Number((b.n ?? 0n) - (a.n ?? 0n)));
  const from = (query.page - 1) * query.per_page;
  return {
    ids: matching.slice(from, from + query.per_page).map((row) => row.id),
    total: matching.length,
    has_more: from + query.per_page < matching.length,
  };
}

async function allRows(): Promise<Thing[]> {
  return (await db.pool.query<Thing>("select * from things")).rows;
}

test("next_numbers: gapless per owner, in the order asked for, with one time for all", async () => {
  const X = { account: "acct_x", mode: "live" as const };
  const Y = { account: "acct_y", mode: "live" as const };
  const first = await transact(db.pool, (tx) => nextNumbers(tx, "thing", [X, Y, X, X, Y]));
  assert.deepEqual(
    first.map((row) => row.n),
    [1n, 1n, 2n, 3n, 2n],
  );
  assert.equal(new Set(first.map((row) => row.created_at.getTime())).size, 1);
  const second = await transact(db.pool, (tx) => nextNumbers(tx, "other kind", [X]));
  assert.equal(second[0]?.n, 1n);
  assert.deepEqual(await transact(db.pool, (tx) => nextNumbers(tx, "thing", [])), []);
});

test("next_numbers: a rollback gives its numbers back", async () => {
  const X = { account: "acct_rollback", mode: "live" as const };
  const failing = transact(db.pool, async (tx) => {
    await nextNumbers(tx, "thing", [X, X]);
    throw new Error("no");
  });
  await assert.rejects(failing);
  assert.equal((await transact(db.pool, (tx) => nextNumbers(tx, "thing", [X])))[0]?.n, 1n);
});

test("next_numbers: many at once leave no gap, and number order is time order", async () => {
  const owners = ["acct_1", "acct_2", "acct_3"].map((account) => ({ account, mode: "live" as const }));
  await Promise.all(
    Array.from({ length: 60 }, (_, i) =>
      transact(db.pool, (tx) => insertRows(tx, i % 2 === 0 ? owners : owners.toReversed(), () => "initiated")),
    ),
  );
  const rows = await allRows();
  for (const { account } of owners) {
    const own = rows.filter((row) => row.account === account).sort((a, b) => Number((a.n ?? 0n) - (b.n ?? 0n)));
    assert.deepEqual(
      own.map((row) => row.n),
      own.map((_, i) => BigInt(i + 1)),
    );
    assert.ok(own.every((row, i) => i === 0 || row.created_at >= (own[i - 1]?.created_at ?? row.created_at)));
  }
});

test("install_list: a numbered row keeps number, owner and time and is never deleted", async () => {
  const [id] = await transact(db.pool, (tx) =>
    insertRows(tx, [{ account: "acct_fixed", mode: "live" }], () => "initiated"),
  );
  for (const sql of [
    "delete from things where id = $1",
    "update things set n = n + 1 where id = $1",
    "update things set n = null where id = $1",
    "update things set account = 'acct_other' where id = $1",
    "update things set created_at = created_at - interval '1 day' where id = $1",
  ]) {
    await assert.rejects(db.pool.query(sql, [id]), /keeps its number/, sql);
  }
  await db.pool.query("update things set status = 'success' where id = $1", [id]);
});

type Act =
  | { readonly act: "insert"; readonly owners: Owner[]; readonly status: string }
  | { readonly act: "draft"; readonly owner: Owner; readonly ref: number }
  | { readonly act: "publish" | "erase" }
  | { readonly act: "change"; readonly to: string; readonly modulo: number; readonly rest: number }
  | { readonly act: "touch"; readonly modulo: number }
  | { readonly act: "clock"; readonly ms: number };

async function perform(act: Act): Promise<void> {
  await transact(db.pool, async (tx) => {
    if (act.act === "insert") await insertRows(tx, act.owners, () => act.status);
    if (act.act === "draft") {
      await tx.query(
        "insert into things (id, account, mode, status, client_ref) values ($1, $2, $3, 'draft', $4) on conflict do nothing",
        [nextId(), act.owner.account, act.owner.mode, `draft-${act.ref}`],
      );
    }
    if (act.act === "publish") {
      await tx.query(
        `with drafts as (select id, account, mode, row_number() over (order by id) as ord from things where n is null),
              numbered as (select * from number_rows('thing', array(select account from drafts order by ord),
                                                     array(select mode from drafts order by ord)))
         update things t set n = numbered.n, created_at = numbered.created_at, status = 'initiated'
           from drafts join numbered using (ord) where t.id = drafts.id`,
      );
    }
    if (act.act === "erase") await tx.query("delete from things where n is null");
    if (act.act === "change") {
      await tx.query("update things set status = $1 where n % $2 = $3", [act.to, act.modulo, act.rest]);
    }
    if (act.act === "touch") await tx.query("update things set status = status where n % $1 = 0", [act.modulo]);
    if (act.act === "clock") {
      const { rows } = await tx.query<{ latest: bigint }>(
        "select coalesce(max(offset_ms), 0)::bigint as latest from clocks",
      );
      for (const { account } of [A, B]) await setOffset(tx, account, (rows[0]?.latest ?? 0n) + BigInt(act.ms));
    }
  });
}

const owner = fc.constantFrom(A, B);
const status = fc.constantFrom(...STATUSES);
const act: fc.Arbitrary<Act> = fc.oneof(
  fc.record({
    act: fc.constant("insert" as const),
    owners: fc.array(owner, { minLength: 1, maxLength: 40 }),
    status,
  }),
  fc.record({ act: fc.constant("draft" as const), owner, ref: fc.nat(20) }),
  fc.record({ act: fc.constantFrom("publish" as const, "erase" as const) }),
  fc.record({
    act: fc.constant("change" as const),
    to: status,
    modulo: fc.integer({ min: 2, max: 5000 }),
    rest: fc.nat(50),
  }),
  fc.record({ act: fc.constant("touch" as const), modulo: fc.integer({ min: 1, max: 9 }) }),
  fc.record({ act: fc.constant("clock" as const), ms: fc.integer({ min: 1, max: 100_000 }) }),
);

/** A question about the rows that are there: times and client_refs mostly hit, pages mostly exist. */
const question = fc.record({
  owner,
  status: fc.option(status, { nil: undefined, freq: 2 }),
  statuses: fc.option(fc.subarray(STATUSES), { nil: undefined, freq: 1 }),
  from: fc.option(fc.double({ min: -0.1, max: 1.1, noNaN: true }), { nil: undefined, freq: 1 }),
  to: fc.option(fc.double({ min: -0.1, max: 1.1, noNaN: true }), { nil: undefined, freq: 1 }),
  exactly: fc.boolean(),
  ref: fc.option(fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }), { nil: undefined, freq: 5 }),
  at: fc.double({ min: 0, max: 1.1, noNaN: true }),
  per_page: fc.integer({ min: 1, max: 100 }),
});

type Question = typeof question extends fc.Arbitrary<infer T> ? T : never;

function askFor(all: readonly Thing[], asked: Question): ListQuery {
  const own = all.filter((row) => row.account === asked.owner.account && row.n !== null);
  const times = own.map((row) => row.created_at.getTime());
  const [first, last] = [Math.min(...times), Math.max(...times)];
  const moment = (share: number | undefined) => {
    if (share === undefined || own.length === 0) return undefined;
    const time = first + share * (last - first);
    // Half of the time exactly a row's own stamp: there "inclusive" and "exclusive" make the difference.
    const nearest = times.reduce((a, b) => (Math.abs(b - time) < Math.abs(a - time) ? b : a), first);
    return new Date(asked.exactly ? nearest : Math.round(time));
  };
  const filters = {
    status: asked.status,
    statuses: asked.statuses,
    created_from: moment(asked.from),
    created_to: moment(asked.to),
    client_ref: asked.ref === undefined ? undefined : (all[Math.floor(asked.ref * all.length)]?.client_ref ?? "none"),
  };
  const { total } = naive(all, list(asked.owner, filters));
  const pages = Math.ceil(total / asked.per_page);
  return list(asked.owner, { ...filters, per_page: asked.per_page, page: 1 + Math.floor(asked.at * pages) });
}

test("list_page: whatever was written, page, total and has_more are those of the naive model", async () => {
  // Three blocks of A and a little of B, at 40 different times.
  for (let i = 0; i < 40; i += 1) {
    await perform({ act: "clock", ms: 1000 });
    const owners = Array.from({ length: 250 }, (_, k) => (k % 50 === 0 ? B : A));
    await transact(db.pool, (tx) => insertRows(tx, owners, (k) => STATUSES[(k * i) % 3] ?? "initiated"));
  }
  await fc.assert(
    fc.asyncProperty(
      fc.array(act, { minLength: 1, maxLength: 6 }),
      fc.array(question, { minLength: 12, maxLength: 12 }),
      async (acts, questions) => {
        for (const each of acts) await perform(each);
        const all = await allRows();
        for (const asked of questions) {
          const query = askFor(all, asked);
          const found = await page(query);
          const { rows, ...rest } = found;
          const { ids, ...expected } = naive(all, query);
          assert.deepEqual(
            { ids: rows.map((row) => row.id), ...rest },
            {
              ids,
              ...expected,
              page: query.page,
              per_page: query.per_page,
            },
          );
        }
      },
    ),
    { numRuns: 25, endOnFailure: true },
  );
});

test("list_counts: after all of this every counter is what a count would find", async () => {
  const { rows } = await db.pool.query(
    `select account, mode, status, block, rows from list_counts where rows <> 0
     except select account, mode, status, n >> 12, count(n) from things where n is not null group by 1, 2, 3, 4`,
  );
  assert.deepEqual(rows, []);
  const missing = await db.pool.query(
    `select account, mode, status, n >> 12, count(n) from things where n is not null group by 1, 2, 3, 4
     except select account, mode, status, block, rows from list_counts`,
  );
  assert.deepEqual(missing.rows, []);
});

type Plan = { "Node Type": string; "Relation Name"?: string; "Actual Rows": number; "Actual Loops": number } & {
  Plans?: Plan[];
  "Rows Removed by Filter"?: number;
};

/** Runs each statement under EXPLAIN ANALYZE as well and keeps what its plan touched. */
function explaining(tx: Queryable, touched: { node: string; rows: number }[]): Queryable {
  const visit = (plan: Plan) => {
    const rows = (plan["Actual Rows"] + (plan["Rows Removed by Filter"] ?? 0)) * plan["Actual Loops"];
    touched.push({ node: `${plan["Node Type"]} ${plan["Relation Name"] ?? ""}`.trim(), rows });
    for (const child of plan.Plans ?? []) visit(child);
  };
  return {
    query: (async (text: string, values: unknown[]) => {
      const { rows } = await tx.query<{ "QUERY PLAN": { Plan: Plan }[] }>(
        `explain (analyze, format json) ${text}`,
        values,
      );
      for (const { Plan } of rows[0]?.["QUERY PLAN"] ?? []) visit(Plan);
      return await tx.query(text, values);
    }) as Queryable["query"],
  };
}

test("list_page: with 200,000 rows no statement touches more than a few blocks, however deep the page", async () => {
  const owner: Owner = { account: "acct_large", mode: "live" };
  const batch = Array.from({ length: 10_000 }, () => owner);
  const rare = (i: number) => (i % 500 === 0 ? "failed" : i % 3 === 0 ? "pending" : "success");
  for (let i = 0; i < 20; i += 1) await transact(db.pool, (tx) => insertRows(tx, batch, rare));
  // Autovacuum does this within a minute; without any statistics the planner takes every account for a small one.
  const owner_pool = openPool({ url: db.admin_url, name: "owner", patience_ms: PATIENCE_MS });
  await owner_pool.query("analyze store.things, store.list_counts, store.list_heads");
  await owner_pool.end();
  const { rows: edges } = await db.pool.query<{ from: Date; to: Date }>(
    `select min(created_at) filter (where n > 50000) as "from", max(created_at) as "to" from things where account = $1`,
    [owner.account],
  );
  const within = { created_from: edges[0]?.from, created_to: edges[0]?.to };
  const cases: Partial<ListQuery>[] = [
    { page: 4000 },
    { page: 1000, status: "success" },
    { page: 2000, status: "pending" },
    { page: 12, status: "failed" },
    { page: 500, statuses: ["pending", "failed"] },
    { page: 1500, ...within },
    { page: 1000, status: "success", ...within },
    { page: 1, status: "cancelled" },
    { client_ref: "ref-thing_1" },
  ];
  for (const change of cases) {
    const touched: { node: string; rows: number }[] = [];
    const found = await snapshot(db.pool, (tx) => listPage<Thing>(explaining(tx, touched), list(owner, change)));
    const label = JSON.stringify(change);
    if (change.status !== "cancelled" && change.client_ref === undefined) assert.equal(found.rows.length, 25, label);
    assert.ok(!touched.some((step) => step.node === "Seq Scan things"), `${label} scans the table`);
    const most = Math.max(...touched.map((step) => step.rows));
    // Two cut blocks at most, or one skipped block of each status and a page.
    assert.ok(most <= 2 * BLOCK + 200, `${label} touches ${most} rows: ${JSON.stringify(touched)}`);
  }
});
