// The proof: what the database refuses to change, and what `verify` says after a superuser has changed it all the same.

import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { openPool } from "@cauri/store/pool";
import { testDatabase } from "@cauri/store/testing";
import { openAccounts } from "./account-store.ts";
import { carryBalances } from "./carry-store.ts";
import { startEngine } from "./engine.ts";
import { CODES, capture, FEES, FLOAT, group, hold, idOf, MERCHANT, post, release } from "./testing.ts";
import { verify, verifyBooks } from "./verify.ts";

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

before(async () => {
  await openAccounts(
    pool,
    [...CODES, "interplatform:plt_a", "interplatform:plt_b"].map((code) => ({
      code,
      asset_id: "ast_xof",
      book: "live",
    })),
  );
  const engine = startEngine({ pool });
  const year_2100 = Date.UTC(2100, 0, 1);
  for (const transfers of [
    [post("fund", FLOAT, MERCHANT, 100n)],
    [hold("h1", MERCHANT, FLOAT, 10n), hold("h2", MERCHANT, FLOAT, 20n), hold("h3", MERCHANT, FLOAT, 5n, year_2100)],
    [capture("c1", "h1", 7n), post("fee", MERCHANT, FEES, 1n)],
    [post("too much", MERCHANT, FEES, 1_000n)],
    [
      release("r2", "h2"),
      post("b1", MERCHANT, "interplatform:plt_a", 3n),
      post("b2", "interplatform:plt_b", MERCHANT, 3n),
    ],
  ]) {
    await engine.post([group(transfers)]);
  }
  // What the rows say is what counts from here on; before it, whoever forges one forges nothing.
  await carryBalances(pool);
});

const month = new Date().toISOString().slice(0, 7).replace("-", "_");
const WHOLE = ["transfers", "entries", "refusals", "batches"];
/** A part that is named by itself is protected like the whole. */
const TABLES = [...WHOLE, ...WHOLE.map((name) => `${name}_${month}`), "taken_ids"];

test("append-only: the service's role may not change, delete or truncate the past", async () => {
  for (const table of TABLES) {
    for (const statement of [`update ${table} set lane_id = 9`, `delete from ${table}`, `truncate ${table}`]) {
      await assert.rejects(pool.query(statement), { code: "42501" }, statement);
    }
  }
  for (const statement of [
    "delete from accounts",
    "delete from lanes",
    "delete from holds",
    "update accounts set no_overdraft = false",
    "update accounts set code = 'fees2'",
    "update holds set amount = 1",
    "alter table transfers disable trigger append_only",
    "drop table transfers",
  ]) {
    await assert.rejects(pool.query(statement), { code: "42501" }, statement);
  }
});

test("append-only: the owner's role and the superuser are refused by the trigger, too", async () => {
  for (const role of ["cauri_ledger_owner", "postgres"]) {
    await admin.query(`set role ${role}`);
    try {
      for (const table of TABLES) {
        for (const statement of [`update ${table} set lane_id = 9`, `delete from ${table}`, `truncate ${table}`]) {
          await assert.rejects(admin.query(statement), /append-only/, `${role}: ${statement}`);
        }
      }
      await assert.rejects(admin.query("delete from accounts"), /append-only/);
    } finally {
      await admin.query("reset role");
    }
  }
});

test("no overdraft: the database refuses it by itself, whoever writes", async () => {
  const overdrawn = `update accounts set debits_posted = credits_posted + 1 where code = '${MERCHANT}'`;
  await assert.rejects(pool.query(overdrawn), { constraint: "accounts_no_overdraft" });
});

test("verify: finds nothing in books that nobody touched", async () => {
  const { transfers, entries, batches, problems, first_bad_batch } = await verify(pool);
  assert.deepEqual([transfers, entries, batches, problems, first_bad_batch], [9n, 18n, 5n, [], null]);
});

/** The entries of a transfer. */
function ofTransfer(word: string): string {
  return `(lane_id, recorded_at, position) in (select lane_id, recorded_at, position from transfers
    where transfer_id = '${idOf(word)}')`;
}

type Tampering = { readonly name: string; readonly sql: string; readonly finds: readonly RegExp[] };

const TAMPERINGS: readonly Tampering[] = [
  {
    name: "a changed amount",
    sql: `update transfers set amount = 200 where transfer_id = '${idOf("fund")}'`,
    finds: [
      /^batch 1 of ast_xof\/live: its hash/,
      new RegExp(`${idOf("fund")}: its entry of float:plt_a says debits_posted 100`),
    ],
  },
  {
    name: "another account",
    sql: `update transfers set credit_id = (select account_id from accounts where code = 'merchant:acct_b:plt_a')
      where transfer_id = '${idOf("fund")}'`,
    finds: [/^batch 1 .*hash/, /its entry of merchant:acct_b:plt_a is missing/],
  },
  {
    name: "a missing transfer",
    sql: `delete from transfers where transfer_id = '${idOf("fee")}'`,
    finds: [/^batch 3 .*: it recorded 2 transfers, 1 are there/, /^batch 3 .*hash/, /^entries: 18 rows .* for 16/],
  },
  {
    name: "an added transfer",
    sql: `insert into transfers (transfer_id, recorded_at, sequence, debit_id, credit_id, amount, lane_id, position, kind,
      group_id, operation_id) select gen_random_uuid(), recorded_at, sequence, debit_id, credit_id, 5, lane_id, 7, 'post',
      group_id, operation_id from transfers where transfer_id = '${idOf("fee")}'`,
    finds: [/^batch 3 .*: it recorded 2 transfers, 3 are there/, /^batch 3 .*hash/],
  },
  {
    name: "a transfer outside of every batch",
    sql: `insert into transfers (transfer_id, recorded_at, sequence, debit_id, credit_id, amount, lane_id, position, kind,
      group_id, operation_id) select gen_random_uuid(), now(), 99, debit_id, credit_id, 5, lane_id, 0, 'post',
      group_id, operation_id from transfers where transfer_id = '${idOf("fee")}'`,
    finds: [/^transfers: 10 rows are there, the batches account for 9/],
  },
  {
    name: "a swapped order",
    sql: [9, 0, 1]
      .map((to, n) => `update transfers set position = ${to} where sequence = 3 and position = ${[0, 1, 9][n]}`)
      .join(";"),
    finds: [/^batch 3 .*hash/],
  },
  {
    name: "a moved time",
    sql: `update batches set recorded_at = recorded_at + interval '1 microsecond' where sequence = 2`,
    finds: [/^batch 2 .*hash/],
  },
  {
    name: "a missing batch",
    sql: `delete from batches where sequence = 4`,
    finds: [/^batch 5 .*: it follows batch 3/, /^batch 5 .*hash/, /^refusals: 1 rows .* for 0/],
  },
  {
    name: "a missing last batch",
    sql: "delete from batches where sequence = 5",
    finds: [/^lane ast_xof\/live: it counts 5 batches, 4 are there/, /its head is not the hash of its last batch/],
  },
  {
    name: "a forged hash",
    sql: "update batches set hash = sha256(hash) where sequence = 2",
    finds: [/^batch 2 .*hash/, /^batch 3 .*hash/],
  },
  {
    name: "a forged entry",
    sql: `update entries set credits_posted = 101 where ${ofTransfer("fund")} and credits_posted = 100`,
    finds: [
      new RegExp(
        `^batch 1 .*${idOf("fund")}: its entry of ${MERCHANT} says credits_posted 101, the transfers make 100`,
      ),
    ],
  },
  {
    name: "a missing entry",
    sql: `delete from entries where ${ofTransfer("fee")} and credits_posted = 1 and debits_posted = 0`,
    finds: [/its entry of fees is missing/, /it has 1 entries instead of 2/],
  },
  {
    name: "a forged balance",
    sql: `update accounts set credits_posted = credits_posted + 50 where code = '${MERCHANT}'`,
    finds: [
      /^account merchant:acct_a:plt_a of ast_xof\/live: it says credits_posted 153.*; batch 5 of ast_xof\/live moved it last/,
      /posted debits exceed credits by -50/,
    ],
  },
  {
    name: "a balance below zero",
    sql: `alter table accounts drop constraint accounts_no_overdraft;
      update accounts set debits_posted = 500 where code = '${MERCHANT}'`,
    finds: [/it says debits_posted 500/, /it is below zero/],
  },
  {
    name: "a hold brought back to life",
    sql: `update holds set state = 'held' where hold_id = '${idOf("h2")}'`,
    finds: [new RegExp(`^hold ${idOf("h2")}: it says held, the transfers say released`)],
  },
  {
    name: "a hold that will never expire",
    sql: "delete from expiring_holds",
    finds: [/1 open holds expire, 0 of the 0 kept for it are these/],
  },
  {
    name: "a changed refusal",
    sql: `update refusals set amount = 1 where transfer_id = '${idOf("too much")}'`,
    finds: [/^batch 4 .*hash/],
  },
  {
    name: "an id that is no longer taken",
    sql: `delete from taken_ids where transfer_id = '${idOf("fee")}'`,
    finds: [
      new RegExp(`^batch 3 .*${idOf("fee")}: its id is not taken`),
      /^9 ids are taken, 10 transfers and refusals/,
    ],
  },
  {
    name: "an id taken for nothing",
    sql: "insert into taken_ids select gen_random_uuid(), recorded_at, lane_id, 77 from taken_ids limit 1",
    finds: [/^11 ids are taken, 10 transfers and refusals/],
  },
  {
    name: "an id that leads to another transfer",
    sql: `update taken_ids set position = 1 - position where transfer_id = '${idOf("fee")}'`,
    finds: [new RegExp(`^batch 3 .*${idOf("fee")}: its id is not taken`)],
  },
  {
    name: "a renamed account",
    sql: `update accounts set code = 'merchant:acct_c:plt_a' where code = '${MERCHANT}'`,
    finds: [/^batch 1 .*hash/],
  },
  {
    name: "another owner, who would see the balance as his",
    sql: `update accounts set owner = 'acct_b' where code = '${MERCHANT}'`,
    finds: [/^account merchant:acct_a:plt_a of ast_xof\/live: its row is not what its code says/],
  },
  {
    name: "an account that may suddenly be overdrawn",
    sql: `update accounts set no_overdraft = false where code = '${MERCHANT}'`,
    finds: [/^account merchant:acct_a:plt_a of ast_xof\/live: its row is not what its code says/],
  },
  {
    name: "interplatform accounts that don't add up",
    sql: "update accounts set debits_posted = 0 where code = 'interplatform:plt_b'",
    finds: [/the interplatform accounts add up to 3, not zero/],
  },
];

for (const { name, sql, finds } of TAMPERINGS) {
  test(`verify: finds ${name}`, async () => {
    // Taken back afterwards, so that each tampering starts from sound books.
    await admin.query("begin");
    try {
      await admin.query("set local session_replication_role = replica");
      await admin.query(sql);
      const found = await verifyBooks(admin);
      const problems = found.problems.map(({ sentence }) => sentence);
      // Where to look first is the first batch that any sentence names.
      const named = problems.flatMap((problem) => /\bbatch \d+ of ast_xof\/live/.exec(problem)?.[0] ?? []);
      assert.equal(found.first_bad_batch, named[0] ?? null);
      for (const wanted of finds) {
        assert.ok(
          problems.some((problem) => wanted.test(problem)),
          `${wanted} is not in:\n${problems.join("\n")}`,
        );
      }
    } finally {
      await admin.query("rollback");
    }
  });
}
