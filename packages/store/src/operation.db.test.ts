// Operations that begin together: one statement for all, and each answered as if it had come alone.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { isRefusal, refuse } from "@cauri/money/refusal";
import {
  type ClaimRequest,
  claimAll,
  eraseClaim,
  finishClaims,
  holdLeases,
  peekAll,
  tellUnfinished,
} from "./claims.ts";
import { again, age, claimed, claimRequest, LEASE_MS, other_payload } from "./claims-testing.ts";
import { beginTogether, sweepOnce } from "./operation.ts";
import { transact } from "./pool.ts";
import { type TestDatabase, testDatabase } from "./testing.ts";

let db: TestDatabase;

before(async () => {
  db = await testDatabase("store", []);
  await db.pool.query("select 1");
});
after(() => db.close());

type Draft = { readonly text: string };

/** Writes nothing but its word for it; a draft that says "bad" cannot be written. */
const begin = beginTogether(async (_tx, drafts: readonly Draft[]) => {
  if (drafts.some(({ text }) => text === "bad")) throw new Error("this row cannot be written");
  return drafts.map(({ text }) => `wrote ${text}`);
});

async function wordOf(request: ClaimRequest, text: string): Promise<string> {
  const begun = await begin(db.pool, request, async () => ({ text })).catch((error: Error) => error);
  if (begun instanceof Error) return begun.message;
  if (isRefusal(begun)) return begun.refused;
  if ("replayed" in begun) return "replayed";
  return begun.begun === "new" ? begun.written : begun.begun;
}

test("begin together: each of a batch gets its own answer, in whatever order they are", async () => {
  const done = claimRequest();
  const lease = await claimed(db.pool, done);
  await transact(db.pool, (tx) => finishClaims(tx, [lease]));
  const told = claimRequest();
  await claimed(db.pool, told, tellUnfinished);
  const running = claimRequest();
  await claimed(db.pool, running);
  const words = await Promise.all([
    wordOf(claimRequest(), "one"),
    wordOf(again(done), "never"),
    wordOf(again(told), "never"),
    wordOf(again(running), "never"),
    wordOf(again(done, { fingerprint: other_payload }), "never"),
    wordOf(claimRequest({ key: null }), "two"),
  ]);
  assert.deepEqual(words, [
    "wrote one",
    "replayed",
    "resumed",
    "concurrent_request",
    "concurrent_request",
    "wrote two",
  ]);
});

test("begin together: one that cannot be written fails alone and leaves no claim", async () => {
  const bad = claimRequest();
  const requests = [claimRequest(), bad, claimRequest()];
  const words = await Promise.all(requests.map((request, at) => wordOf(request, at === 1 ? "bad" : `row ${at}`)));
  assert.deepEqual(words, ["wrote row 0", "this row cannot be written", "wrote row 2"]);
  assert.equal(await wordOf(again(bad), "good"), "wrote good");
});

test("begin together: a refusal of one keeps nobody else, and is not remembered", async () => {
  const refused = claimRequest();
  const answers = await Promise.all([
    begin(db.pool, refused, async () => refuse("invalid_request", "no", { field: "amount_minor" })),
    begin(db.pool, claimRequest(), async () => ({ text: "yes" })),
  ]);
  assert.deepEqual(
    answers.map((answer) => isRefusal(answer)),
    [true, false],
  );
  assert.equal(await wordOf(again(refused), "now"), "wrote now");
});

test("begin together: of 64 with one key in one batch one is new, and of the gateway's repeat one runs", async () => {
  const wanted = claimRequest();
  const words = await Promise.all(Array.from({ length: 64 }, () => wordOf(again(wanted), "once")));
  assert.equal(words.filter((word) => word === "wrote once").length, 1);
  assert.equal(words.filter((word) => word === "concurrent_request").length, 63);
  const repeated = claimRequest({ takeover: true });
  const both = await Promise.all([wordOf(repeated, "once"), wordOf(repeated, "once")]);
  assert.deepEqual(both.toSorted(), ["resumed", "wrote once"]);
});

test("begin together: an interrupted one that was erased meanwhile is told to come again, and holds no claim", async () => {
  const wanted = claimRequest();
  const lease = await claimed(db.pool, wanted, tellUnfinished);
  let begun: ReturnType<typeof begin> | undefined;
  await transact(db.pool, async (tx) => {
    await eraseClaim(tx, lease.operation_id, lease.lease_no);
    // Until this commits the look still finds it, and the claim waits for it.
    begun = begin(db.pool, again(wanted), async () => assert.fail("it is there"));
    await until(async () => {
      // In this database: other tests share the server.
      const waits = "select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";
      return (await db.pool.query(waits)).rowCount === 1;
    });
  });
  const answer = await begun;
  assert.ok(isRefusal(answer) && answer.refused === "concurrent_request" && answer.retry_after_s === 1);
  assert.equal(await wordOf(again(wanted), "anew"), "wrote anew");
});

async function until(holds: () => Promise<boolean>): Promise<void> {
  for (let look = 0; look < 6_000; look += 1) {
    if (await holds()) return;
    await sleep(10);
  }
  assert.fail("it never came true");
}

test("leases: of many those stand that nobody took over, and only those end", async () => {
  const requests = [claimRequest(), claimRequest(), claimRequest()];
  const claims = await transact(db.pool, (tx) => claimAll(tx, requests));
  const leases = claims.map((claim) => ("claimed" in claim ? claim : assert.fail("not claimed")));
  const [, second] = requests;
  assert.ok(second);
  await age(db.pool, second.operation_id, LEASE_MS + 1);
  await transact(db.pool, (tx) => claimAll(tx, [again(second)]));
  const held = await transact(db.pool, async (tx) => {
    const stand = await holdLeases(tx, leases);
    assert.equal(await finishClaims(tx, leases), 2);
    return stand;
  });
  assert.equal(held.has(second.operation_id), false);
  const looks = await peekAll(
    db.pool,
    requests.map((request) => again(request)),
  );
  assert.deepEqual(
    looks.map((look) =>
      look === null ? "new" : "replayed" in look ? "replayed" : "refused" in look ? look.refused : "",
    ),
    ["replayed", "concurrent_request", "replayed"],
  );
});

test("sweep: what met an absent room is given back for a moment that grows to a lease's length; any other fault keeps its lease", async () => {
  // What earlier tests have left falls due some seconds later and would be found as well.
  await db.pool.query("delete from claims");
  const [waiting, broken] = [claimRequest(), claimRequest()];
  for (const one of [waiting, broken]) await claimed(db.pool, one);
  const pauses: number[] = [];
  for (let tries = 0; tries < 12; tries += 1) {
    for (const one of [waiting, broken]) await age(db.pool, one.operation_id, LEASE_MS + 1_000);
    const told: unknown[] = [];
    const log = { error: (_fields: object, sentence: string) => told.push(sentence) };
    const resume = async ({ operation_id }: { readonly operation_id: string }) => {
      const is_away = operation_id === waiting.operation_id;
      throw Object.assign(new Error("it fails"), is_away ? { unavailable: true } : {});
    };
    await sweepOnce(db.pool, LEASE_MS, resume, log);
    assert.equal(told.length, 2);
    const { rows } = await db.pool.query<{ operation_id: string; pause_s: number; is_free: boolean }>(
      `select operation_id, round(extract(epoch from due_at - lease_until))::integer as pause_s,
              lease_until <= clock_timestamp() as is_free
         from claims where operation_id = any($1::text[])`,
      [[waiting.operation_id, broken.operation_id]],
    );
    const of = ({ operation_id }: { readonly operation_id: string }) =>
      rows.find((row) => row.operation_id === operation_id) ?? assert.fail();
    assert.deepEqual([of(waiting).is_free, of(broken).is_free], [true, false], "a merchant's retry goes on at once");
    pauses.push(of(waiting).pause_s);
  }
  assert.deepEqual(pauses, [1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 9, 9]);
});
