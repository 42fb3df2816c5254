// The engine on real PostgreSQL: races, repeats, expiry, faults beside healthy neighbours.

import assert from "node:assert/strict";
import { join } from "node:path";
import { after, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Busy } from "@cauri/store/coalescer";
import { openPool, type Pool } from "@cauri/store/pool";
import { testDatabase } from "@cauri/store/testing";
import fc from "fast-check";
import { openAccounts, readAccounts, readMerchantAccounts, readMerchantTotals } from "./account-store.ts";
import { type GroupAnswer, type GroupOrder, isRemembered, type Result } from "./books.ts";
import { type Engine, startEngine } from "./engine.ts";
import { Model } from "./model-testing.ts";
import {
  CODES,
  capture,
  FEES,
  FLOAT,
  group,
  histories,
  hold,
  idOf,
  LANES,
  MERCHANT,
  openLane,
  own,
  post,
  release,
} from "./testing.ts";
import { verify } from "./verify.ts";

const database = await testDatabase("ledger", [join(import.meta.dirname, "../migrations")], { max: 12 });
const { pool } = database;
after(async () => {
  try {
    // Whatever the tests above did, the books must add up.
    assert.deepEqual((await verify(pool)).problems, []);
  } finally {
    await database.close();
  }
});

let assets = 0;
/** A lane of its own for each test, with the usual accounts open. */
async function lane(more: readonly string[] = []): Promise<string> {
  assets += 1;
  const asset_id = `ast_t${assets}`;
  await openLane(pool, asset_id, more);
  return asset_id;
}

async function balance(asset_id: string, code: string) {
  const [account] = await readAccounts(pool, [{ code, asset_id, book: "live" }]);
  return account ?? assert.fail(`${code} is not open`);
}

const available = async (asset_id: string, code = MERCHANT) => {
  const one = await balance(asset_id, code);
  return one.credits_posted - one.debits_posted - one.debits_pending;
};

const resultsOf = (answers: readonly { transfers: readonly { result: Result }[] }[]) =>
  answers.map((answer) => answer.transfers.map((one) => one.result).join());

test("post: 64 callers race for money that is enough for half of them, over two replicas", async () => {
  const asset_id = await lane();
  const engines = [startEngine({ pool }), startEngine({ pool })] as const;
  await postOne(engines[0], own(asset_id, [post("fund", FLOAT, MERCHANT, 320n)]));
  const answers = await Promise.all(
    Array.from({ length: 64 }, (_, n) =>
      postOne(engines[n % 2 === 0 ? 0 : 1], own(asset_id, [post(`p${n}`, MERCHANT, FEES, 10n)])),
    ),
  );
  const counts = Map.groupBy(resultsOf(answers), (result) => result);
  assert.equal(counts.get("ok")?.length, 32);
  assert.equal(counts.get("insufficient_funds")?.length, 32);
  assert.equal(await available(asset_id), 0n);
});

test("post: one transfer sent by 64 callers over two replicas is booked once", async () => {
  const asset_id = await lane();
  const engines = [startEngine({ pool }), startEngine({ pool })] as const;
  const same = own(asset_id, [post("one", FLOAT, MERCHANT, 7n)]);
  const answers = await Promise.all(Array.from({ length: 64 }, (_, n) => postOne(engines[n % 2 === 0 ? 0 : 1], same)));
  assert.equal(resultsOf(answers).filter((result) => result === "ok").length, 1);
  assert.equal(resultsOf(answers).filter((result) => result === "exists").length, 63);
  assert.ok(answers.every((answer) => answer.accepted));
  assert.equal(await available(asset_id), 7n);
});

test("hold: capture and release race, and exactly one is accepted", async () => {
  const asset_id = await lane();
  const engines = [startEngine({ pool }), startEngine({ pool })] as const;
  await postOne(engines[0], own(asset_id, [post("fund", FLOAT, MERCHANT, 100n)]));
  for (let n = 0; n < 10; n += 1) {
    await postOne(engines[0], own(asset_id, [hold(`h${n}`, MERCHANT, FLOAT, 10n)]));
    const answers = await Promise.all([
      postOne(engines[0], own(asset_id, [capture(`c${n}`, `h${n}`)])),
      postOne(engines[1], own(asset_id, [release(`r${n}`, `h${n}`)])),
    ]);
    const results = resultsOf(answers).join();
    assert.ok(["ok,hold_already_captured", "hold_already_released,ok"].includes(results), results);
  }
  assert.equal((await balance(asset_id, MERCHANT)).debits_pending, 0n);
});

test("hold: a capture that races the expiry wins or loses, and the balance follows the answer", async () => {
  const asset_id = await lane();
  const engine = startEngine({ pool });
  await postOne(engine, own(asset_id, [post("fund", FLOAT, MERCHANT, 200n)]));
  let captured = 0n;
  for (let n = 0; n < 20; n += 1) {
    const expires = new Date(await databaseNow(pool)).getTime() + 4;
    await postOne(engine, own(asset_id, [hold(`h${n}`, MERCHANT, FLOAT, 10n, expires)]));
    await sleep(n % 6);
    const [answer] = await Promise.all([postOne(engine, own(asset_id, [capture(`c${n}`, `h${n}`)])), engine.sweep()]);
    const result = answer.transfers[0]?.result;
    assert.ok(result === "ok" || result === "hold_already_expired", `${result}`);
    if (result === "ok") captured += 10n;
  }
  assert.equal(await available(asset_id), 200n - captured);
});

test("expiry: reads and rivals find the funds free at once, the sweeper books it afterwards", async () => {
  const asset_id = await lane();
  const engine = startEngine({ pool });
  // Known to the engine, so that what follows is decided ahead of the lane's lock.
  await postOne(engine, own(asset_id, [post("warm", FLOAT, FEES, 1n)]));
  const expires = (await databaseNow(pool)) + 60;
  await postOne(engine, own(asset_id, [post("fund", FLOAT, MERCHANT, 10n), hold("h", MERCHANT, FLOAT, 10n, expires)]));
  const set_aside = await available(asset_id);
  // A machine that took longer than that to read it has seen the hold's end.
  if ((await databaseNow(pool)) < expires) assert.equal(set_aside, 0n);
  while ((await databaseNow(pool)) < expires) await sleep(5);
  assert.equal(await available(asset_id), 10n);
  const [row] = await readMerchantAccounts(pool, "acct_a", "live").then((rows) =>
    rows.filter((one) => one.asset_id === asset_id),
  );
  assert.equal(row?.debits_pending, 0n);
  assert.equal(resultsOf([await postOne(engine, own(asset_id, [post("spend", MERCHANT, FEES, 4n)]))])[0], "ok");
  await postOne(engine, own(asset_id, [hold("i", FLOAT, FEES, 10n, expires)]));
  await engine.sweep();
  const { rows } = await pool.query("select state from holds where hold_id = any($1)", [
    [idOf(`${asset_id}/${idOf("h")}`), idOf(`${asset_id}/${idOf("i")}`)],
  ]);
  assert.deepEqual(rows, [{ state: "expired" }, { state: "expired" }]);
  const { rows: left } = await pool.query("select from expiring_holds where expires_at <= clock_timestamp()");
  assert.equal(left.length, 0);
});

test("a batch with a broken group: its neighbours are answered, it fails alone", async () => {
  const asset_id = await lane();
  const engine = startEngine({ pool });
  await postOne(engine, own(asset_id, [post("fund", FLOAT, MERCHANT, 5n)]));
  // No uuid: the service refuses it long before, the database would here.
  const broken = group([{ ...post("x", FLOAT, MERCHANT, 1n), id: "not-a-uuid" }], { asset_id });
  const [a, b, c] = await Promise.allSettled([
    postOne(engine, own(asset_id, [post("a", MERCHANT, FEES, 1n)])),
    postOne(engine, broken),
    postOne(engine, own(asset_id, [post("b", MERCHANT, FEES, 1n)])),
  ]);
  assert.deepEqual([a.status, b.status, c.status], ["fulfilled", "rejected", "fulfilled"]);
  assert.equal(await available(asset_id), 3n);
});

test("decided ahead: a group that stands in part and is refused in the rest hears what stands", async () => {
  const asset_id = await lane();
  const engine = startEngine({ pool });
  const first = post("first", MERCHANT, FEES, 1n);
  await postOne(engine, own(asset_id, [post("fund", FLOAT, MERCHANT, 10n)]));
  await postOne(engine, own(asset_id, [first]));
  // Neither id is booked by this batch, so no key speaks up: it has to ask for them.
  const answer = await postOne(engine, own(asset_id, [first, post("too much", MERCHANT, FEES, 10n)]));
  assert.deepEqual(resultsOf([answer]), ["exists,insufficient_funds"]);
  assert.equal(await available(asset_id), 9n);
});

test("post: one id in two lanes at once is booked in one of them, the other answers that it exists differently", async () => {
  const [here, there] = [await lane(), await lane()];
  const engines = [startEngine({ pool }), startEngine({ pool })] as const;
  const results = async (engine: Engine, asset_id: string, words: readonly string[]) => {
    const one = (word: string) => postOne(engine, group([post(word, FLOAT, MERCHANT, 1n)], { asset_id }));
    const answers = await Promise.all(words.map(one));
    return new Map(words.map((word, index) => [word, answers[index]?.transfers[0]?.result ?? assert.fail()]));
  };
  for (let round = 0; round < 5; round += 1) {
    const words = Array.from({ length: 12 }, (_, n) => `twice/${here}/${round}/${n}`);
    // The other way round in the other lane, so that each batch waits for an id that the other has taken.
    const [ours, theirs] = await Promise.all([
      results(engines[0], here, words),
      results(engines[1], there, [...words].reverse()),
    ]);
    for (const word of words) {
      assert.deepEqual([ours.get(word), theirs.get(word)].sort(), ["exists_differently", "ok"], word);
    }
  }
});

test("a full queue: says Busy at once, and what was taken is answered", async () => {
  const asset_id = await lane();
  const engine = startEngine({ pool, max_waiting: 10 });
  const calls = Array.from({ length: 40 }, (_, n) =>
    postOne(engine, own(asset_id, [post(`p${n}`, FLOAT, MERCHANT, 1n)])),
  );
  const settled = await Promise.allSettled(calls);
  const busy = settled.filter((one) => one.status === "rejected");
  // One may run while ten wait.
  assert.ok(busy.length === 29 || busy.length === 30, `${busy.length} busy`);
  assert.ok(busy.every((one) => one.status === "rejected" && one.reason instanceof Busy));
  assert.equal(await available(asset_id), BigInt(40 - busy.length));
});

test("a stalled holder of the lane: others fail with a passing fault instead of waiting without end", async () => {
  const asset_id = await lane();
  const stalled = await pool.connect();
  // With the limits of a service: those of a test's own pool are longer.
  const usual = openPool({ url: database.url, name: "usual" });
  try {
    await stalled.query("begin");
    await stalled.query("select from lanes where asset_id = $1 for update", [asset_id]);
    await assert.rejects(postOne(startEngine({ pool: usual }), own(asset_id, [post("a", FLOAT, MERCHANT, 1n)])), {
      code: "55P03",
      unavailable: true,
    });
  } finally {
    await stalled.query("rollback");
    stalled.release();
    await usual.end();
  }
});

test("open accounts: repeats and races open each once, with its lane", async () => {
  const names = CODES.map((code) => ({ code, asset_id: "ast_race", book: "test" as const }));
  const opened = await Promise.all(
    Array.from({ length: 8 }, (_, n) => openAccounts(pool, n % 2 ? names : [...names].reverse())),
  );
  assert.equal(
    opened.reduce((sum, count) => sum + count, 0),
    CODES.length,
  );
  const engine = startEngine({ pool });
  const early = group([post("early", FLOAT, MERCHANT, 1n)], { asset_id: "ast_late" });
  assert.deepEqual(resultsOf([await postOne(engine, early)]), ["account_unknown"]);
  await openAccounts(
    pool,
    CODES.map((code) => ({ code, asset_id: "ast_late", book: "live" as const })),
  );
  assert.deepEqual(resultsOf([await postOne(engine, early)]), ["ok"]);
});

test("merchant totals: absolute sums of its own accounts and its receivables in one book", async () => {
  const receivable = "receivable:acct_z:plt_a";
  const asset_id = await lane(["merchant:acct_z:plt_a", receivable]);
  const engine = startEngine({ pool });
  assert.deepEqual(await readMerchantTotals(pool, "acct_z", "live"), { posted: 0n, pending: 0n });
  await postOne(
    engine,
    own(asset_id, [
      post("a", FLOAT, "merchant:acct_z:plt_a", 5n),
      hold("h", "merchant:acct_z:plt_a", FLOAT, 2n),
      post("b", receivable, FLOAT, 4n),
    ]),
  );
  assert.deepEqual(await readMerchantTotals(pool, "acct_z", "live"), { posted: 9n, pending: 2n });
  assert.deepEqual(await readMerchantTotals(pool, "acct_z", "test"), { posted: 0n, pending: 0n });
});

test("histories: concurrent and repeated groups leave the balances of the plain model", async () => {
  const engines = [startEngine({ pool }), startEngine({ pool })] as const;
  let run = 0;
  await fc.assert(
    // Far in the future, so that nothing expires: the time of each batch is the database's and not the model's.
    fc.asyncProperty(histories({ words: 10, steps: 8, start_ms: Date.UTC(2100, 0, 1) }), async (steps) => {
      run += 1;
      const lanes = LANES.map((one) => ({ ...one, asset_id: `${one.asset_id}_${run}` }));
      const names = lanes.flatMap((one) => CODES.map((code) => ({ code, ...one })));
      await openAccounts(pool, names);
      const model = new Model();
      for (const name of names) model.open(name.asset_id, name.book, name.code);
      for (const [index, step] of steps.entries()) {
        const groups = step.groups.map((one) => ({
          ...own(`${run}`, one.transfers),
          ...{ asset_id: `${one.asset_id}_${run}`, book: one.book, operation_id: one.operation_id },
        }));
        const engine = engines[index % 2 === 0 ? 0 : 1];
        const answers = await engine.post(groups);
        const expected = groups.map((one) => model.post(one, 1));
        assert.deepEqual(resultsOf(answers), resultsOf(expected));
        const repeated = await engine.post(groups);
        for (const [place, answer] of answers.entries()) {
          assert.ok(!answer.accepted || repeated[place]?.accepted, "what was accepted stands");
          for (const [index, one] of answer.transfers.entries()) {
            if (isRemembered(one.result)) assert.deepEqual(repeated[place]?.transfers[index], one);
          }
        }
        for (const one of groups) model.post(one, 1);
      }
      for (const account of await readAccounts(pool, names)) {
        const { debits_pending, debits_posted, credits_pending, credits_posted } = account;
        const of = model.state.accounts.get(`${account.asset_id}/${account.book}/${account.code}`);
        assert.deepEqual({ debits_pending, debits_posted, credits_pending, credits_posted }, of?.balances);
      }
    }),
    { numRuns: 60 },
  );
});

async function postOne(engine: Engine, order: GroupOrder): Promise<GroupAnswer> {
  const [answer] = await engine.post([order]);
  return answer ?? assert.fail("no answer");
}

async function databaseNow(from: Pool): Promise<number> {
  const { rows } = await from.query<{ now: Date }>("select clock_timestamp() as now");
  return rows[0]?.now.getTime() ?? 0;
}
