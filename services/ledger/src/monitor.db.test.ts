// The monitor: what it finds by itself, how it tells it, and when it believes that the books are sound again.

import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { logger } from "@cauri/rpc/log";
import { register } from "@cauri/rpc/metrics";
import { openPool } from "@cauri/store/pool";
import { PATIENCE_MS, testDatabase } from "@cauri/store/testing";
import { openAccounts } from "./account-store.ts";
import { carryBalances } from "./carry-store.ts";
import { startEngine } from "./engine.ts";
import { checkNew, checkWhole, startMonitor } from "./monitor.ts";
import { readLags, readShortFloats } from "./monitor-store.ts";
import { CODES, capture, FEES, FLOAT, group, hold, idOf, MERCHANT, openLane, own, post } from "./testing.ts";
import { readClearing } from "./trial-store.ts";
import { verify } from "./verify.ts";
import { readFindings } from "./verify-mark-store.ts";
import { patiently } from "./verify-store.ts";

const database = await testDatabase("ledger", [join(import.meta.dirname, "../migrations")]);
const { pool } = database;
const log = logger("ledger", "silent");
const admins = openPool({ url: database.admin_url, name: "tampering", max: 1 });
const admin = await admins.connect();
await admin.query("set search_path = ledger");
after(async () => {
  admin.release();
  await admins.end();
  await database.close();
});

const engine = startEngine({ pool });
const postAll = async (...groups: Parameters<typeof group>[0][]) => {
  for (const transfers of groups) await engine.post([group(transfers)]);
};
const tamper = async (sql: string) => {
  await admin.query("set session_replication_role = replica");
  await admin.query(sql);
  await admin.query("reset session_replication_role");
};

before(() =>
  openAccounts(
    pool,
    CODES.map((code) => ({ code, asset_id: "ast_xof", book: "live" })),
  ),
);

test("check new: sound batches are checked up to the head, round after round", async () => {
  await postAll([post("fund", FLOAT, MERCHANT, 100n)], [hold("h1", MERCHANT, FLOAT, 10n)]);
  assert.deepEqual(await checkNew(pool), []);
  await postAll([capture("c1", "h1", 7n), post("fee", MERCHANT, FEES, 1n)]);
  assert.deepEqual(await checkNew(pool), []);
  const [lag] = await readLags(pool);
  assert.deepEqual([lag?.lane, lag?.checked, lag?.behind, lag?.behind_s], ["ast_xof/live", 3n, 0n, 0]);
  assert.ok((lag?.uncarried_s ?? 0) > 0);
  await carryBalances(pool);
  assert.equal((await readLags(pool))[0]?.uncarried_s, 0);
});

test("check new: a forged new batch is found once, what comes after it is checked as well, and it stays until all is sound", async () => {
  await postAll([post("a", MERCHANT, FEES, 1n)], [post("b", MERCHANT, FEES, 2n)]);
  const change = (amount: number) => `update transfers set amount = ${amount} where transfer_id = '${idOf("a")}'`;
  await tamper(change(5));
  const found = await checkNew(pool);
  assert.ok(
    found.some(({ invariant, sentence }) => invariant === "chain" && sentence.startsWith("batch 4 of ast_xof/live")),
  );
  assert.equal((await readLags(pool))[0]?.behind, 0n);
  await postAll([post("later", MERCHANT, FEES, 1n)]);
  assert.deepEqual(await checkNew(pool), []);
  await tamper(change(1));
  assert.ok((await readFindings(pool)).length > 0);
  assert.deepEqual((await verify(pool)).problems, []);
  assert.deepEqual(await readFindings(pool), []);
});

test("check new: sums that no batch explains are found without anything new", async () => {
  await carryBalances(pool);
  const forged = (amount: number) =>
    `update accounts set credits_posted = credits_posted + ${amount} where code = 'fees'`;
  await tamper(forged(9));
  const found = await checkNew(pool);
  assert.deepEqual(
    found.map(({ invariant, sentence }) => `${invariant}: ${sentence}`),
    ["debits_equal_credits: lane ast_xof/live: posted debits exceed credits by -9"],
  );
  await tamper(forged(-9));
  await verify(pool);
});

test("check new: what a chunk finds is kept and told before the mark moves past it", async () => {
  const asset_id = "ast_cut";
  await openLane(pool, asset_id);
  const order = own(asset_id, [post("x", FLOAT, MERCHANT, 5n)]);
  await engine.post([order]);
  const change = (amount: number) =>
    `update transfers set amount = ${amount} where transfer_id = '${order.transfers[0]?.id}'`;
  await tamper(change(6));
  const behind = async () => (await readLags(pool)).find(({ lane }) => lane === `${asset_id}/live`)?.behind;
  const died = new Error("died");
  const dying = checkNew(pool, undefined, async (found) => {
    if (found.length > 0) throw died;
  });
  await assert.rejects(dying, died);
  const kept = await readFindings(pool);
  assert.ok(kept.some(({ sentence }) => sentence.startsWith(`batch 1 of ${asset_id}/live`)));
  assert.equal(await behind(), 1n);
  assert.deepEqual(await checkNew(pool), []);
  assert.equal(await behind(), 0n);
  await tamper(change(5));
  await verify(pool);
  assert.deepEqual(await readFindings(pool), []);
});

test("check whole: once a day by one replica; one that was cut off is gone on with", async () => {
  const aborted = AbortSignal.abort();
  await assert.rejects(checkWhole(pool, log, aborted), /cut off by the drain/);
  assert.equal(await checkWhole(pool, log), false, "another may be at it still");
  await tamper("update verifications set began_at = now() - interval '1 hour'");
  await tamper("update verify_marks set verified_at = now() - interval '1 hour'");
  assert.equal(await checkWhole(pool, log), true);
  assert.equal(await checkWhole(pool, log), false);
  const { rows } = await pool.query("select problems, ended_at is not null as ended from verifications order by 1");
  assert.deepEqual(rows, [
    { problems: 0, ended: true },
    { problems: null, ended: false },
  ]);
});

test("monitor: a broken invariant is a metric and a sentence beside readiness", async () => {
  await tamper(`update accounts set debits_posted = debits_posted + 1 where code = '${FLOAT}'`);
  const monitor = startMonitor({ pool, log });
  try {
    const ends = performance.now() + 60_000;
    while (monitor.notices().length === 0 && performance.now() < ends)
      await new Promise((resolve) => setTimeout(resolve, 20));
    assert.match(monitor.notices().join("\n"), /^ledger invariant debits_equal_credits is broken: lane ast_xof\/live/m);
    // The sentences are there a moment before the numbers; the help of a number names it before it has a value.
    while (performance.now() < ends && !/clearing_accounts\{/.test(await register.metrics())) {
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    const text = await register.metrics();
    assert.match(text, /cauri_ledger_invariant_ok\{invariant="debits_equal_credits"\} 0/);
    assert.match(text, /cauri_ledger_invariant_ok\{invariant="chain"\} 1/);
    assert.match(text, /cauri_ledger_checked_batch\{lane="ast_xof\/live"\} 6/);
    assert.match(text, /cauri_ledger_last_sound_verification_timestamp_seconds 1\d{9}/);
    assert.match(text, /cauri_ledger_check_lag_batches\{lane="ast_xof\/live"\} 0/);
    assert.match(text, /cauri_ledger_carry_lag_seconds\{lane="ast_xof\/live"\} 0/);
  } finally {
    await monitor.stop();
  }
});

test("floats: one that holds less than its platform's merchants are owed is an alarm, what is set aside counts as owed", async (t) => {
  const asset_id = "ast_short";
  const costs = "costs:plt_a";
  await openLane(pool, asset_id, [costs]);
  await engine.post([own(asset_id, [post("fund", FLOAT, MERCHANT, 100n), hold("h", MERCHANT, FLOAT, 40n)])]);
  assert.deepEqual(await readShortFloats(pool), []);
  await engine.post([own(asset_id, [post("commission", costs, FLOAT, 30n)])]);
  assert.deepEqual(await readShortFloats(pool), [
    { asset_id, book: "live", platform_id: "plt_a", held: 70n, owed: 100n },
  ]);
  const lines: string[] = [];
  const monitor = startMonitor({ pool, log: logger("ledger", "error", { write: (line) => void lines.push(line) }) });
  try {
    const told = () => assert.match(lines.join(""), /alarm: float:plt_a of ast_short holds 70, .* owed 100/);
    await t.waitFor(told, { interval: 20, timeout: PATIENCE_MS });
    assert.match(await register.metrics(), /cauri_ledger_short_floats\{book="live"\} 1/);
  } finally {
    await monitor.stop();
  }
  await engine.post([own(asset_id, [post("paid in", FLOAT, FEES, 30n)])]);
  assert.deepEqual(await readShortFloats(pool), []);
});

test("whole lanes: whatever reads them may take longer than a merchant's request", async () => {
  await admin.query(`alter function balances_of(integer) rename to quick_balances_of;
    create function balances_of(lane integer) returns setof balances language plpgsql as $$
    begin
      if current_setting('statement_timeout') = '7s' then
        raise exception 'in a hurry';
      end if;
      return query select * from quick_balances_of(lane);
    end $$`);
  const usual = openPool({ url: database.url, name: "usual limits" });
  try {
    await assert.rejects(usual.query("select from balances_of(1)"), /in a hurry/);
    await engine.post([own("ast_short", [post("more", FLOAT, MERCHANT, 1n)])]);
    assert.deepEqual(await checkNew(usual), []);
    const every = { asset_id: null, book: null };
    assert.deepEqual(await patiently(usual, 60, (tx) => readClearing(tx, every, 10)), []);
  } finally {
    await usual.end();
    await admin.query(
      "drop function balances_of(integer); alter function quick_balances_of(integer) rename to balances_of",
    );
  }
});
