// Balances between the entries and the accounts' rows, on real PostgreSQL: the same whoever carries them, when and how often.

import assert from "node:assert/strict";
import { copyFile, mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { migrateRoom } from "@cauri/store/migrate";
import { openPool, rolledBack, transact } from "@cauri/store/pool";
import { PATIENCE_MS, testDatabase } from "@cauri/store/testing";
import { readAccounts } from "./account-store.ts";
import { APPEND, appendValues } from "./append.ts";
import { readState } from "./batch-store.ts";
import type { Account } from "./books.ts";
import { CARRY, carryBalances } from "./carry-store.ts";
import { decide } from "./decide.ts";
import { startEngine } from "./engine.ts";
import { appendOf } from "./lane.ts";
import { CODES, FEES, FLOAT, hold, MERCHANT, OTHER, openLane, own, post, release } from "./testing.ts";
import { verify } from "./verify.ts";

const migrations = join(import.meta.dirname, "../migrations");
const database = await testDatabase("ledger", [migrations], { max: 12 });
const { pool } = database;
const admin = openPool({ url: database.admin_url, name: "carry", max: 2 });
const engine = startEngine({ pool });
after(async () => {
  try {
    assert.deepEqual((await verify(pool)).problems, []);
  } finally {
    await admin.end();
    await database.close();
  }
});

let assets = 0;
/** A lane of its own for each test, with the usual accounts open. */
async function lane(): Promise<{ asset_id: string; lane_id: number }> {
  assets += 1;
  const asset_id = `ast_c${assets}`;
  return { asset_id, lane_id: await openLane(pool, asset_id) };
}

/** What is said of each account, in the order of CODES: as anybody reads it, and in the rows themselves. */
async function said(asset_id: string) {
  const accounts = await readAccounts(
    pool,
    CODES.map((code) => ({ code, asset_id, book: "live" as const })),
  );
  return accounts.map(({ debits_pending, debits_posted, credits_pending, credits_posted, updated_at }) => ({
    ...{ debits_pending, debits_posted, credits_pending, credits_posted, updated_at },
  }));
}

async function rows(lane_id: number) {
  const { rows: found } = await pool.query(
    `select debits_pending, debits_posted, credits_pending, credits_posted, updated_at from accounts
     where lane_id = $1 order by array_position($2::text[], code)`,
    [lane_id, CODES],
  );
  return found;
}

test("balances: the same before and after they are carried, and the rows follow", async () => {
  const { asset_id, lane_id } = await lane();
  await engine.post([
    own(asset_id, [post("fund", FLOAT, MERCHANT, 100n), hold("h", MERCHANT, OTHER, 30n)]),
    own(asset_id, [post("fee", MERCHANT, FEES, 1n)]),
  ]);
  const before = await said(asset_id);
  assert.deepEqual(
    before.map((one) => [one.debits_pending, one.debits_posted, one.credits_pending, one.credits_posted]),
    [
      [0n, 100n, 0n, 0n],
      [0n, 0n, 0n, 1n],
      [30n, 1n, 0n, 100n],
      [0n, 0n, 30n, 0n],
    ],
  );
  assert.notDeepEqual(await rows(lane_id), before);
  assert.equal(await carryBalances(pool), false);
  assert.deepEqual(await rows(lane_id), before);
  assert.deepEqual(await said(asset_id), before);
  await engine.post([own(asset_id, [release("r", "h")])]);
  assert.deepEqual(
    (await said(asset_id)).map((one) => [one.debits_pending, one.credits_pending]),
    CODES.map(() => [0n, 0n]),
  );
});

test("carry: a second time there is nothing to do, and a part at a time comes to the same", async () => {
  const { asset_id, lane_id } = await lane();
  for (let n = 0; n < 7; n += 1) await engine.post([own(asset_id, [post(`p${n}`, FLOAT, MERCHANT, 1n)])]);
  const few = { transfers: 3, batches: 2 };
  assert.equal(await carryBalances(pool, few), true);
  assert.equal((await rows(lane_id))[2].credits_posted, 2n);
  assert.equal((await said(asset_id))[2]?.credits_posted, 7n);
  while (await carryBalances(pool, few)) assert.equal((await said(asset_id))[2]?.credits_posted, 7n);
  assert.deepEqual(await rows(lane_id), await said(asset_id));
  const { rows: marks } = await pool.query("select sequence, xmin from balance_marks where lane_id = $1", [lane_id]);
  assert.equal(await carryBalances(pool), false);
  const again = await pool.query("select sequence, xmin from balance_marks where lane_id = $1", [lane_id]);
  assert.deepEqual(again.rows, marks);
});

test("carry: whoever dies on the way has carried nothing, and the next one carries all", async (t) => {
  const { asset_id, lane_id } = await lane();
  await engine.post([own(asset_id, [post("a", FLOAT, MERCHANT, 5n)])]);
  const untouched = await rows(lane_id);
  await transact(admin, async (tx) => {
    await tx.query("select from ledger.accounts where lane_id = $1 and code = $2 for update", [lane_id, MERCHANT]);
    const carrying = carryBalances(pool).catch((error) => error);
    // Its update has begun when it waits for the row.
    const waiting =
      "from pg_stat_activity where datname = current_database() and query like 'with moved%' and wait_event_type = 'Lock'";
    const kill = async () => {
      const { rowCount } = await admin.query(`select pg_terminate_backend(pid) ${waiting}`);
      assert.equal(rowCount, 1);
    };
    await t.waitFor(kill, { interval: 20, timeout: PATIENCE_MS });
    assert.ok((await carrying) instanceof Error);
  });
  assert.deepEqual(await rows(lane_id), untouched);
  assert.equal((await said(asset_id))[2]?.credits_posted, 5n);
  await carryBalances(pool);
  assert.deepEqual(await rows(lane_id), await said(asset_id));
});

test("carry: two at once beside two replicas that post", async () => {
  const { asset_id, lane_id } = await lane();
  const rival = startEngine({ pool });
  let posting = true;
  const callers = [engine, rival].map(async (one, place) => {
    for (let n = 0; n < 60; n += 1) {
      const word = `${place}/${n}`;
      const [answer] = await one.post([
        own(asset_id, [post(word, FLOAT, MERCHANT, 2n), post(`${word} on`, MERCHANT, OTHER, 1n)]),
      ]);
      assert.equal(answer?.accepted, true);
    }
  });
  const carriers = [1, 2].map(async () => {
    while (posting) await carryBalances(pool);
  });
  await Promise.all(callers);
  posting = false;
  await Promise.all(carriers);
  while (await carryBalances(pool)) assert.ok(true);
  assert.deepEqual(await rows(lane_id), await said(asset_id));
  const merchant = (await rows(lane_id))[2];
  assert.deepEqual([merchant.credits_posted, merchant.debits_posted], [240n, 120n]);
});

test("carry: a lane that fails keeps no other from its turn, and lanes in which nothing happened cost nothing", async () => {
  const [broken, idle, sound] = [await lane(), await lane(), await lane()];
  for (const { asset_id } of [broken, sound]) {
    await engine.post([own(asset_id, [post("a", FLOAT, MERCHANT, 5n)])]);
  }
  // No engine writes such an entry; the row's constraint refuses it.
  const forge = async (sum: bigint) => {
    await transact(admin, async (tx) => {
      await tx.query("set local session_replication_role = replica");
      await tx.query("update ledger.entries set debits_posted = $2 where lane_id = $1 and credits_posted = 5", [
        ...[broken.lane_id, sum],
      ]);
    });
  };
  await forge(-1n);
  await assert.rejects(carryBalances(pool), { code: "23514" });
  assert.deepEqual(await rows(sound.lane_id), await said(sound.asset_id));
  assert.notDeepEqual(await rows(broken.lane_id), await said(broken.asset_id));
  await forge(0n);
  await carryBalances(pool);
  assert.deepEqual(await rows(broken.lane_id), await said(broken.asset_id));
  const marked = "select from balance_marks where lane_id = $1";
  assert.equal((await pool.query(marked, [idle.lane_id])).rowCount, 0);
  const { rows: all } = await pool.query("select credits_posted from balances_of($1)", [idle.lane_id]);
  assert.deepEqual(
    all.map((row) => row.credits_posted),
    CODES.map(() => 0n),
  );
});

test("balances of a lane: accounts and who moved are joined by hash, also where the planner takes the lane for small", async () => {
  const plan = await transact(admin, async (tx) => {
    await tx.query("set local search_path = ledger");
    const { rows: found } = await tx.query<{ body: string; settings: string[] }>(
      "select prosrc as body, proconfig as settings from pg_proc where oid = 'balances_of(integer)'::regprocedure",
    );
    const [{ body, settings } = assert.fail()] = found;
    // As in a session of the service, which has no joins but nested loops; then what the function sets for itself.
    const session = ["enable_hashjoin=off", "enable_mergejoin=off", "enable_material=off"];
    for (const setting of [...session, ...settings]) {
      const [name, value] = setting.split("=");
      await tx.query("select set_config($1, $2, true)", [name, value]);
    }
    const { rows: plans } = await tx.query<{ "QUERY PLAN": [{ Plan: { "Node Type": string } }] }>(
      `explain (format json) ${body.replace(/\blane\b/g, "1")}`,
    );
    return plans[0]?.["QUERY PLAN"][0].Plan["Node Type"];
  });
  assert.match(plan ?? "", /^Hash/);
});

test("carrying: an account's last entry is one look-up by the whole key, also where its account alone seems as good", async () => {
  const plan = await rolledBack(admin, async (tx) => {
    await tx.query("set local search_path = ledger");
    const { lane_id } = await lane();
    // What statistics say of a lane in which all transfers are older than these: nobody has moved, everybody moved rarely.
    await tx.query(`insert into entries select n / 20, date_trunc('month', now()), 0, 5, 0, 0, n, ${lane_id}
      from generate_series(1, 20000) n`);
    await tx.query("analyze entries");
    await tx.query("set local enable_seqscan = off; set local enable_hashjoin = off; set local enable_mergejoin = off");
    await tx.query("set local enable_material = off; set local enable_bitmapscan = off");
    const since = [String(lane_id), "(now() + interval '1 minute')", "(now() + interval '2 minutes')"];
    const text = CARRY.replace(/\$(\d)/g, (_, place: string) => since[Number(place) - 1] ?? "");
    return (await tx.query<{ "QUERY PLAN": string }>(`explain ${text}`)).rows.map((row) => row["QUERY PLAN"]);
  });
  const lookups = plan.flatMap((line, at) => (/ on entries_\d/.test(line) ? [plan[at + 1] ?? ""] : []));
  assert.ok(lookups.length > 0, plan.join("\n"));
  for (const lookup of lookups) assert.match(lookup, /account_id.*recorded_at.*position/, plan.join("\n"));
});

test("append: a batch that would overdraw a guarded account is refused by the database itself", async () => {
  const { asset_id, lane_id } = await lane();
  const order = own(asset_id, [post("a", MERCHANT, FEES, 1n)]);
  const overdrawing = transact(pool, async (tx) => {
    const { state, previous } = await readState(tx, lane_id, [order]);
    if (state.lane === null || previous === null) return assert.fail();
    // An engine that takes nobody for guarded, before what it writes is told who is.
    const unguarded = state.accounts.map((account): Account => ({ ...account, no_overdraft: false }));
    const decision = decide({ ...state, accounts: unguarded }, [order]);
    assert.equal(decision.answers[0]?.accepted, true);
    await tx.prepared(APPEND, appendValues(appendOf(state.lane, previous, state, decision, null)));
  });
  await assert.rejects(overdrawing, { code: "23514", message: /below zero/ });
  assert.equal((await said(asset_id))[2]?.debits_posted, 0n);
});

test("migration: what the rows told before it counts as carried, and a release from before it can book nothing", async () => {
  const before = await mkdtemp(join(tmpdir(), "cauri-carry-"));
  for (const file of await readdir(migrations)) {
    if (file < "0019") await copyFile(join(migrations, file), join(before, file));
  }
  const old = await testDatabase("ledger", [before]);
  try {
    // Row and entry say different sums, so that it shows which of them is read.
    await old.pool.query(`insert into lanes (asset_id, book, sequence, recorded_at) values ('ast_old', 'live', 3, now());
      insert into accounts (lane_id, code, normal_side, no_overdraft, debits_posted)
        select lane_id, '${FLOAT}', 'debit', false, 7 from lanes;
      insert into entries select account_id, l.recorded_at, 0, 6, 0, 0, 0, lane_id from accounts join lanes l using (lane_id)`);
    await migrateRoom({ admin_url: old.admin_url, room: "ledger", dirs: [migrations] });
    const [float] = await readAccounts(old.pool, [{ code: FLOAT, asset_id: "ast_old", book: "live" }]);
    assert.equal(float?.debits_posted, 7n);
    const { rows: whole } = await old.pool.query("select debits_posted from lanes l, balances_of(l.lane_id)");
    assert.deepEqual(whole, [{ debits_posted: 7n }]);
    assert.deepEqual((await old.pool.query("select sequence from balance_marks")).rows, [{ sequence: 3n }]);
    assert.equal((await old.pool.query("select from pg_proc where proname = 'append_batch'")).rowCount, 0);
  } finally {
    await old.close();
    await rm(before, { recursive: true });
  }
});
