// The rate limit on the real PostgreSQL: the function against its model over random histories, two gateways at once,
// and the loss of the table or of the server.

import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { type TestDatabase, testDatabase } from "@cauri/store/testing";
import fc from "fast-check";
import pg from "pg";
import { createLimiter, HOLD_MS, type Limiter, type LimiterNews } from "./rate-limit.ts";
import { admitCalls, type RateRule } from "./rate-log.ts";
import { admitInStore } from "./rate-store.ts";
import { firstPlace, inWindow } from "./rate-testing.ts";

const RULE: RateRule = { limit: 300, window_ms: 60_000, hold_ms: HOLD_MS };
const QUIET: LimiterNews = { exact: () => {}, batch: () => {}, failed: () => {} };

let db: TestDatabase;
before(async () => {
  db = await testDatabase("gateway", [join(import.meta.dirname, "..", "migrations")], { shared: false, max: 4 });
});
after(() => db.close());

/** A gateway that waits for the store as long as a slow machine needs; `now` drives its clock and the store's. */
function gateway(t: { after(fn: () => unknown): void }, rule: RateRule = RULE, now?: () => number): Limiter {
  const at = () => (now === undefined ? null : new Date(Date.UTC(2026, 10, 22) + now()));
  const limiter = createLimiter({
    rule,
    replicas: 1,
    news: QUIET,
    store_timeout_ms: 60_000,
    ask: (keys, calls) => admitInStore(db.pool, keys, calls, rule, at()),
    ...(now === undefined ? {} : { now }),
  });
  t.after(() => limiter.stop());
  return limiter;
}

test("admit_calls: random histories are answered as the model answers them", async () => {
  let serial = 0;
  const history = fc.array(fc.record({ wait_ms: fc.nat(400), calls: fc.integer({ min: 1, max: 7 }) }), {
    minLength: 1,
    maxLength: 30,
  });
  const rules = fc.record({
    limit: fc.integer({ min: 1, max: 12 }),
    window_ms: fc.integer({ min: 500, max: 1_500 }),
    hold_ms: fc.constant(250),
  });
  await fc.assert(
    fc.asyncProperty(history, rules, async (steps, rule) => {
      serial += 1;
      const key = `key_model_${serial}`;
      const begin = Date.UTC(2026, 10, 20);
      let at = begin;
      let log: readonly number[] = [];
      for (const { wait_ms, calls } of steps) {
        at += wait_ms;
        const wanted = admitCalls(log, calls, at - begin, rule);
        log = wanted.log;
        const { answers } = await admitInStore(db.pool, [key], [calls], rule, new Date(at));
        assert.deepEqual(answers[0]?.delays, wanted.delays);
        assert.equal(answers[0]?.free, wanted.free);
        assert.equal(answers[0]?.next_ms, wanted.next_ms);
      }
    }),
    { numRuns: 60 },
  );
});

test("admit_calls: bursts of 150 and more, half a window apart or nearly so, are answered by the plainest count", async () => {
  const bursts = fc.array(
    fc.record({
      wait_ms: fc.oneof(fc.constantFrom(0, 1, 29_749, 29_750, 30_000, 30_001, 59_750, 60_000), fc.nat(61_000)),
      calls: fc.oneof(fc.constantFrom(1, 149, 150, 151, 300, 400), fc.integer({ min: 1, max: 400 })),
    }),
    { minLength: 2, maxLength: 8 },
  );
  let serial = 0;
  const run = async (steps: readonly { wait_ms: number; calls: number }[]) => {
    serial += 1;
    const begin = Date.UTC(2026, 10, 20);
    const admitted: number[] = [];
    let at = 0;
    const passed: number[] = [];
    for (const { wait_ms, calls } of steps) {
      at += wait_ms;
      const { answers } = await admitInStore(db.pool, [`key_burst_${serial}`], [calls], RULE, new Date(begin + at));
      const delays = answers[0]?.delays ?? [];
      passed.push(delays.length);
      for (let call = 0; call < calls; call += 1) {
        const wanted = firstPlace(admitted, at, RULE);
        const delay = delays[call];
        assert.equal(delay === undefined ? null : at + delay, wanted, `call ${call} of ${calls} at ${at}`);
        if (wanted === null) break;
        admitted.push(wanted);
      }
    }
    for (const instant of admitted) assert.ok(inWindow(admitted, instant, RULE) <= RULE.limit);
    return passed;
  };
  const half = { wait_ms: 30_000, calls: 150 };
  assert.deepEqual(
    await run([half, half, half, { ...half, calls: 151 }, { wait_ms: 1, calls: 1 }]),
    [150, 150, 150, 150, 0],
  );
  const property = fc.asyncProperty(bursts, async (steps) => {
    await run(steps);
  });
  await fc.assert(property, { numRuns: 40 });
});

test("admit_calls: after 20 days the row counts from a new base, and nothing is forgotten or kept", async () => {
  const begin = Date.UTC(2026, 0, 1);
  const rule = { limit: 3, window_ms: 60_000, hold_ms: 0 };
  const admit = async (ms: number) =>
    (await admitInStore(db.pool, ["key_old"], [1], rule, new Date(begin + ms))).answers[0];
  const days = 20 * 86_400_000;
  for (const ms of [0, days - 30_000, days - 10_000, days - 5_000]) assert.equal((await admit(ms))?.delays.length, 1);
  const full = await admit(days + 5_000);
  assert.deepEqual(full?.delays, []);
  assert.equal(full?.next_ms, 25_000);
  assert.equal((await admit(days + 30_000))?.delays.length, 1);
  assert.equal((await admit(days + 90 * 86_400_000))?.delays.length, 1);
});

test("limit: 400 at once over two gateways admit exactly 300", async (t) => {
  // The table's contents must be older than a window, or each gateway admits its share alone.
  await db.pool.query("select admit_calls('{key_old_birth}', '{1}', 300, 60000, 250, '2026-01-01')");
  const gateways = [gateway(t), gateway(t)];
  const begun = performance.now();
  const verdicts = await Promise.all([...Array(400)].map((_, i) => gateways[i % 2]?.check("key_burst")));
  const admitted = verdicts.filter((verdict) => verdict?.admitted);
  assert.equal(admitted.length, 300);
  const left = admitted.map((verdict) => verdict?.left ?? -1);
  assert.equal(Math.min(...left), 0);
  const gone_s = (performance.now() - begun) / 1_000;
  for (const verdict of verdicts)
    if (verdict?.admitted === false) assert.ok(verdict.reset_s >= 59 - gone_s && verdict.reset_s <= 60);
});

test("limit: a client at the steady rate is never refused, at most held", async (t) => {
  let now_ms = 0;
  const limiter = gateway(t, { limit: 20, window_ms: 1_000, hold_ms: HOLD_MS }, () => now_ms);
  let held = 0;
  for (let call = 0; call < 60; call += 1) {
    // Some of its timers ring late, and those behind them do not.
    now_ms = call * 50 + (call % 7 === 0 ? 40 : 0);
    const verdict = await limiter.check("key_steady");
    assert.ok(verdict.admitted, `call ${call} was refused`);
    if (verdict.delay_ms > 0) held += 1;
  }
  assert.ok(held > 0, "a late one is in the window for longer");
});

test("limit: Retry-After names a second at which a call passes", async (t) => {
  let now_ms = 0;
  const limiter = gateway(t, { limit: 2, window_ms: 1_000, hold_ms: 0 }, () => now_ms);
  for (let call = 0; call < 2; call += 1) assert.ok((await limiter.check("key_retry")).admitted);
  const refused = await limiter.check("key_retry");
  assert.deepEqual(refused, { admitted: false, left: 0, reset_s: 1 });
  now_ms = refused.reset_s * 1_000;
  assert.ok((await limiter.check("key_retry")).admitted);
});

test("loss: emptied under a running gateway, its own admissions still count", async (t) => {
  const limiter = gateway(t);
  const burst = async (calls: number) => {
    const verdicts = await Promise.all([...Array(calls)].map(() => limiter.check("key_loss")));
    return verdicts.filter(({ admitted }) => admitted).length;
  };
  assert.equal(await burst(200), 200);
  const admin = new pg.Client({ connectionString: db.admin_url });
  await admin.connect();
  await admin.query("truncate gateway.rate_log");
  await admin.end();
  assert.ok((await limiter.check("key_other")).admitted, "it sees the loss with its next question");
  assert.equal(await burst(200), 100);
});

test("loss: with the store away each of two gateways admits half, and no one is left without an answer", async (t) => {
  let failures = 0;
  const news = { ...QUIET, failed: () => failures++ };
  const away = () => Promise.reject(new Error("the store is away"));
  const gateways = [0, 1].map(() => createLimiter({ rule: RULE, replicas: 2, news, ask: away }));
  t.after(() => {
    for (const limiter of gateways) limiter.stop();
  });
  const verdicts = await Promise.all([...Array(800)].map((_, i) => gateways[i % 2]?.check("key_away")));
  assert.equal(verdicts.filter((verdict) => verdict?.admitted).length, 300);
  assert.ok(failures >= 2 && failures <= 4, "told once, not for each call");
});

test("loss: a store that hangs is waited for once, not again by each statement that was to follow", async (t) => {
  let asked = 0;
  const hangs = () => {
    asked += 1;
    return new Promise<never>(() => {});
  };
  const limiter = createLimiter({ rule: RULE, replicas: 1, news: QUIET, ask: hangs });
  t.after(() => limiter.stop());
  const verdicts = await Promise.all([...Array(200)].map((_, i) => limiter.check(`key_hangs_${i}`)));
  assert.ok(verdicts.every(({ admitted }) => admitted));
  assert.equal(asked, 1);
});

test("loss: when the store is back, a window later it alone decides again", async (t) => {
  const rule = { limit: 4, window_ms: 60_000, hold_ms: 0 };
  let now_ms = 0;
  let is_away = true;
  const told: boolean[] = [];
  const limiter = createLimiter({
    rule,
    replicas: 2,
    now: () => now_ms,
    news: { ...QUIET, exact: (is_exact) => void told.push(is_exact) },
    ask: async (keys, calls) =>
      is_away
        ? Promise.reject(new Error("the store is away"))
        : admitInStore(db.pool, keys, calls, rule, new Date(Date.UTC(2026, 10, 21) + now_ms)),
  });
  t.after(() => limiter.stop());
  const admitted = async (calls: number) => {
    const verdicts = await Promise.all([...Array(calls)].map(() => limiter.check("key_back")));
    return verdicts.filter((verdict) => verdict.admitted).length;
  };
  assert.equal(await admitted(5), 2, "its share");
  is_away = false;
  now_ms = 30_000;
  assert.equal(await admitted(5), 0, "what it admitted alone still counts");
  now_ms = 60_001;
  assert.equal(await admitted(5), 4);
  assert.ok(told.length > 0 && told.every((is_exact) => !is_exact), "the metric says that decisions are not exact");
});
