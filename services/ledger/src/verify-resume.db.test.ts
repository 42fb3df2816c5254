// Verification that goes on where it was: cut off in the middle, after new batches, and what it trusts by doing so.

import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { openPool } from "@cauri/store/pool";
import { testDatabase } from "@cauri/store/testing";
import { openAccounts } from "./account-store.ts";
import { carryBalances } from "./carry-store.ts";
import { GENESIS, hashBatch } from "./chain.ts";
import { startEngine } from "./engine.ts";
import { checkNew } from "./monitor.ts";
import { CODES, capture, FEES, FLOAT, group, hold, idOf, MERCHANT, post, release } from "./testing.ts";
import { verify } from "./verify.ts";
import { readBatches, readEntries, readLaneAccounts, readLanes, readRefusals, readTransfers } from "./verify-store.ts";

const database = await testDatabase("ledger", [join(import.meta.dirname, "../migrations")]);
const { pool } = database;
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

before(async () => {
  await openAccounts(
    pool,
    CODES.map((code) => ({ code, asset_id: "ast_xof", book: "live" })),
  );
  await postAll(
    [post("fund", FLOAT, MERCHANT, 100n)],
    [hold("h1", MERCHANT, FLOAT, 10n), hold("h2", MERCHANT, FLOAT, 20n)],
    [capture("c1", "h1", 7n), post("fee", MERCHANT, FEES, 1n)],
    [post("too much", MERCHANT, FEES, 1_000n)],
  );
});

/** Tampers as a superuser and takes it back afterwards. */
async function tampered(change: string, back: string, work: () => Promise<void>): Promise<void> {
  await admin.query("set session_replication_role = replica");
  try {
    await admin.query(change);
    await work();
  } finally {
    await admin.query(back);
    await admin.query("reset session_replication_role");
  }
}

test("verify: cut off after a chunk, it goes on from there and reads the rest alone", async () => {
  const cut = new Error("cut off");
  const onChunk = () => {
    throw cut;
  };
  await assert.rejects(verify(pool, { chunk_rows: 1, onChunk }), cut);
  const rest = await verify(pool, { resume: true });
  assert.deepEqual([rest.batches < 4n, rest.batches > 0n, rest.problems], [true, true, []]);
});

test("verify: with nothing new, going on reads nothing and still checks the sums", async () => {
  const { transfers, batches, problems } = await verify(pool, { resume: true });
  assert.deepEqual([transfers, batches, problems], [0n, 0n, []]);
  await carryBalances(pool);
  const forged = `update accounts set credits_posted = credits_posted + 5 where code = '${MERCHANT}'`;
  await tampered(forged, forged.replace("+ 5", "- 5"), async () => {
    const found = await verify(pool, { resume: true });
    assert.ok(
      found.problems.some(({ sentence }) => /^account merchant:acct_a:plt_a .*credits_posted 105/.test(sentence)),
    );
  });
});

test("verify: new batches may end holds from before the mark", async () => {
  await postAll([release("r2", "h2")], [post("more", MERCHANT, FEES, 2n)]);
  const { transfers, problems } = await verify(pool, { resume: true });
  assert.deepEqual([transfers, problems], [2n, []]);
});

test("verify: a change after the mark is found and named, and again by whoever goes on from the mark", async () => {
  await postAll([post("new", MERCHANT, FEES, 3n)]);
  const change = (amount: number) => `update transfers set amount = ${amount} where transfer_id = '${idOf("new")}'`;
  await tampered(change(4), change(3), async () => {
    for (let round = 0; round < 2; round += 1) {
      const found = await verify(pool, { resume: true });
      assert.equal(found.first_bad_batch, "batch 7 of ast_xof/live");
      assert.ok(found.problems.some(({ invariant }) => invariant === "chain"));
      assert.ok(found.problems.some(({ invariant }) => invariant === "entries"));
    }
  });
  assert.deepEqual((await verify(pool, { resume: true })).problems, []);
});

test("verify: a batch that was verified before and is another one now is found by its mark", async () => {
  const change = "update batches set hash = sha256(hash) where sequence = 7";
  const { rows } = await admin.query("select encode(hash, 'hex') as hash from batches where sequence = 7");
  const back = `update batches set hash = decode('${(rows[0] as { hash: string }).hash}', 'hex') where sequence = 7`;
  await tampered(change, back, async () => {
    const found = await verify(pool, { resume: true });
    assert.ok(found.problems.some(({ sentence }) => /^batch 7 .*no longer the batch that was verified/.test(sentence)));
  });
});

/** What a thorough forger would do: computes the whole chain anew over what he changed. */
async function rechain(): Promise<void> {
  const [lane] = await readLanes(admin);
  assert.ok(lane !== undefined);
  const accounts = await readLaneAccounts(admin, lane.lane_id);
  const codes = new Map(accounts.map((account) => [Number(account.account_id), account.code]));
  let previous: Buffer = GENESIS;
  for (const batch of await readBatches(admin, lane.lane_id, 0n, 100)) {
    const stretch = { lane_id: lane.lane_id, from: batch.recorded_at, to: batch.recorded_at };
    const transfers = await readTransfers(admin, stretch);
    const refusals = await readRefusals(admin, stretch);
    const { asset_id, book } = lane;
    const recorded_us = Number(batch.recorded_us);
    previous = hashBatch(
      { previous, asset_id, book, sequence: batch.sequence, recorded_us, transfers, refusals },
      (account_id) => codes.get(account_id) ?? "",
    );
    await admin.query("update batches set hash = $2 where sequence = $1", [batch.sequence, previous]);
  }
  await admin.query("update lanes set head = $1", [previous]);
}

test("verify: a chain computed anew over a forged past is sound by itself, and betrayed by the anchors", async () => {
  const change = (operation: string) =>
    `update transfers set operation_id = '${operation}' where transfer_id = '${idOf("fund")}'`;
  await tampered(change("pay_2"), change("pay_1"), async () => {
    await rechain();
    const { problems, first_bad_batch } = await verify(pool);
    assert.ok(problems.length > 0);
    assert.ok(problems.every(({ sentence }) => /its hash is not the one that was proved before$/.test(sentence)));
    assert.equal(first_bad_batch, "batch 4 of ast_xof/live");
  });
  await admin.query("set session_replication_role = replica");
  await rechain();
  await admin.query("reset session_replication_role");
  assert.deepEqual((await verify(pool)).problems, []);
});

test("entries of a stretch: the same by their time and, where the stretch is long, by their transfers", async () => {
  const [lane] = await readLanes(admin);
  assert.ok(lane !== undefined);
  const batches = await readBatches(admin, lane.lane_id, 0n, 100);
  const [from, to] = [batches[0]?.recorded_at ?? "", batches.at(-1)?.recorded_at ?? ""];
  const read = async (begin: string) => {
    const rows = await readEntries(admin, { lane_id: lane.lane_id, from: begin, to });
    return rows.map((row) => Object.values(row).join()).sort();
  };
  const by_time = await read(from);
  assert.equal(by_time.length, 2 * batches.reduce((sum, { transfers }) => sum + transfers, 0));
  assert.deepEqual(await read("2020-01-01"), by_time);
});

test("anchors: the past that was proved cannot be changed by the service", async () => {
  for (const statement of ["update anchors set sequence = 1", "delete from anchors", "truncate anchors"]) {
    await assert.rejects(pool.query(statement), { code: "42501" }, statement);
    await assert.rejects(admin.query(statement), /append-only/, statement);
  }
});

test("check new and verify: while transfers arrive in old and new lanes they find nothing", async () => {
  let posting = true;
  const callers = ["ast_xof", "ast_ghs"].map(async (asset_id, caller) => {
    const lane = { asset_id, book: "live" } as const;
    for (let n = 0; posting; n += 1) {
      if (n === 3)
        await openAccounts(
          pool,
          CODES.map((code) => ({ code, ...lane })),
        );
      const [one, two] = [`${caller} ${n} h`, `${caller} ${n} p`];
      await engine.post([group([hold(one, FLOAT, MERCHANT, 5n), post(two, FLOAT, FEES, 1n)], lane)]);
      await new Promise((resolve) => setTimeout(resolve, 2));
      await engine.post([group([n % 2 === 0 ? capture(`${one} c`, one, 2n) : release(`${one} r`, one)], lane)]);
    }
  });
  try {
    for (let round = 0; round < 4; round += 1) {
      assert.deepEqual(await checkNew(pool), []);
      assert.deepEqual((await verify(pool, { chunk_rows: 20 })).problems, []);
      assert.deepEqual((await verify(pool, { resume: true })).problems, []);
    }
  } finally {
    posting = false;
    await Promise.all(callers);
  }
});
