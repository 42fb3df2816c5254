// The simulated operator's books: what stood in them before they were one row per charge, and tellings that meet decisions.

import assert from "node:assert/strict";
import { copyFile, mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { systemClock } from "@cauri/money/clock";
import { newId } from "@cauri/money/ids";
import { newReference } from "@cauri/money/reference";
import { migrateRoom } from "@cauri/store/migrate";
import { type Pool, transact } from "@cauri/store/pool";
import { testDatabase } from "@cauri/store/testing";
import { moveClock } from "../testing.ts";
import type { Plan, SimCharge } from "./charge.ts";
import {
  awaitReturns,
  delayLetters,
  endLetters,
  lockCharge,
  readCharge,
  takeLetters,
  writeCharges,
  writeDecided,
} from "./store.ts";

const migrations = join(import.meta.dirname, "../../migrations");
const HOUR_MS = 3_600_000;
const SETTLES: Plan = {
  news: "settle",
  becomes: "success",
  copies: 1,
  after_ms: HOUR_MS,
  return_after_ms: null,
  is_taken: false,
};

function payout(): SimCharge {
  return {
    kind: "payout",
    reference: newReference("PYT", "test"),
    account: newId("acct", systemClock()),
    mode: "test",
    rail: "mtn_momo",
    amount_minor: 1500n,
    currency: "XOF",
    scale: 0,
    state: "pending",
    failure_code: null,
    token: null,
    payment_url: null,
    deep_link: null,
    qr: null,
    merchant_name: "Chez Awa",
    description: null,
    return_url: null,
    cancel_url: null,
    expires_at: null,
  };
}

async function withBooks(work: (pool: Pool) => Promise<void>): Promise<void> {
  const database = await testDatabase("rails", [migrations]);
  await work(database.pool).finally(() => database.close());
}

test("migration: what was open in the table of events happens and is told as it would have been", async () => {
  const before = await mkdtemp(join(tmpdir(), "cauri-rails-"));
  for (const file of await readdir(migrations)) {
    if (file < "0005") await copyFile(join(migrations, file), join(before, file));
  }
  const old = await testDatabase("rails", [before]);
  try {
    const account = newId("acct", systemClock());
    const book = (reference: string, kind: string, state: string) =>
      old.pool.query(
        `insert into simulator_charges (reference, account, mode, rail, amount_minor, currency, scale, state, token,
                                        merchant_name, kind, expires_at, created_at, updated_at)
         values ($1, $2, 'test', 'mtn_momo', 1500, 'XOF', 0, $3, $1, 'Chez Awa', $4, now() + interval '9 hours', now(), now())`,
        [reference, account, state, kind],
      );
    const plan = (reference: string, news: string, in_s: number, applied: boolean, done: boolean, copies = 1) =>
      old.pool.query(
        `insert into simulator_events (event_id, reference, account, mode, news, copies, due_at, applied_at, done_at, tries)
         values ($1, $2, $3, 'test', $4, $5, now() + $6 * interval '1 second', case when $7::boolean then now() end,
                 case when $8::boolean then now() end, case when $7::boolean then 1 else 0 end)`,
        [newId("evt", systemClock()), reference, account, news, copies, in_s, applied, done],
      );
    await book("later", "collection", "pending");
    await plan("later", "settle", 60, false, false);
    await book("untold", "collection", "success");
    await plan("untold", "settle", -60, true, false);
    await book("comes back", "payout", "pending");
    await plan("comes back", "settle", 60, false, false);
    await plan("comes back", "return", 120, false, false);
    await book("is coming back", "payout", "success");
    await plan("is coming back", "settle", -60, true, true);
    await plan("is coming back", "return", 60, false, false);
    await book("silent", "collection", "pending");
    await plan("silent", "settle", 60, false, false, 0);
    await book("over", "collection", "success");
    await plan("over", "settle", -60, true, true);
    await migrateRoom({ admin_url: old.admin_url, room: "rails", dirs: [migrations] });

    const told = async () => {
      const letters = await takeLetters(old.pool, account, 100);
      const [back, rest] = [letters.filter((one) => one.comes_back), letters.filter((one) => !one.comes_back)];
      await endLetters(old.pool, rest);
      await awaitReturns(old.pool, back);
      return letters.map(({ reference, news, tries }) => `${reference}: ${news}, ${tries}`).sort();
    };
    const stateOf = async (reference: string) => (await readCharge(old.pool, reference))?.state;
    assert.deepEqual(await told(), ["untold: settle, 2"]);
    assert.equal(await stateOf("silent"), "pending");
    await moveClock(old.pool, account, 90_000);
    assert.deepEqual(await told(), ["comes back: settle, 1", "is coming back: return, 1", "later: settle, 1"]);
    assert.deepEqual(await Promise.all(["silent", "later", "comes back", "is coming back", "over"].map(stateOf)), [
      "success",
      "success",
      "success",
      "returned",
      "success",
    ]);
    await moveClock(old.pool, account, 90_000);
    assert.deepEqual(await told(), ["comes back: return, 1"]);
    assert.equal(await stateOf("comes back"), "returned");
    assert.deepEqual(await told(), []);
  } finally {
    await old.close();
    await rm(before, { recursive: true });
  }
});

test("letters: one that is under way is nobody else's, and ends only itself", () =>
  withBooks(async (pool) => {
    const charge = payout();
    assert.equal((await writeCharges(pool, [{ charge, plan: SETTLES }])).size, 1);
    await moveClock(pool, charge.account, HOUR_MS);
    const letters = await takeLetters(pool, null, 100);
    assert.deepEqual(
      letters.map(({ news }) => news),
      ["settle"],
    );
    assert.deepEqual(await takeLetters(pool, null, 100), [], "its lease runs");
    // While it is on its way somebody sends the money back.
    await transact(pool, async (tx) => {
      const standing = await lockCharge(tx, charge.reference);
      assert.equal(standing?.state, "success");
      await writeDecided(tx, { ...charge, state: "returned" }, "return");
    });
    await endLetters(pool, letters);
    await delayLetters(
      pool,
      letters.map((letter) => ({ letter, in_s: 0 })),
    );
    assert.deepEqual(await takeLetters(pool, null, 100), [], "the return is with whoever decided it");
    await pool.query("update simulator_charges set try_at = now()");
    const [again] = await takeLetters(pool, null, 100);
    assert.deepEqual([again?.news, again?.tries], ["return", 2], "and is told by another if that one died");
  }));

test("books: a reference is taken once; one that was turned down is taken by the next call", () =>
  withBooks(async (pool) => {
    const charge = payout();
    const turned_down: SimCharge = { ...charge, state: "turned_down" };
    assert.equal((await writeCharges(pool, [{ charge: turned_down, plan: null }])).size, 1);
    assert.equal((await writeCharges(pool, [{ charge: turned_down, plan: null }])).size, 0);
    assert.equal((await writeCharges(pool, [{ charge, plan: SETTLES }])).size, 1);
    assert.equal((await writeCharges(pool, [{ charge, plan: SETTLES }])).size, 0);
    assert.equal((await readCharge(pool, charge.reference))?.state, "pending");
    await moveClock(pool, charge.account, HOUR_MS);
    assert.equal((await readCharge(pool, charge.reference))?.state, "success");
  }));
