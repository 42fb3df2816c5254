import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { isRefusal } from "@cauri/money/refusal";
import { AccountStatus } from "@cauri/proto/ts/cauri/accounts/v1/accounts";
import { accountMoves } from "./account.ts";
import {
  approveAccount,
  closeAccount,
  getAccount,
  listEveryAccount,
  reinstateAccount,
  setAccount,
  suspendAccount,
} from "./account-service.ts";
import { createKey } from "./key-service.ts";
import { sandboxFund } from "./sandbox-service.ts";
import { decideClosing, sweep } from "./sweep.ts";
import { good, openTestHouse, refusedWith, type TestHouse } from "./testing.ts";

let at: TestHouse;
let db: TestHouse["db"];
let house: TestHouse["house"];
let ledger: TestHouse["ledger"];
let signUp: TestHouse["signUp"];
let approved: TestHouse["approved"];
let resolveSecret: TestHouse["resolveSecret"];
let eventsOf: TestHouse["eventsOf"];

before(async () => {
  at = await openTestHouse();
  ({ db, house, ledger, signUp, approved, resolveSecret, eventsOf } = at);
});
after(() => at.db.close());

test("create_account: pending, with a first test key of the default scopes that is known at once", async () => {
  const account = await signUp();
  assert.match(account.accountId, /^acct_/);
  assert.equal(account.status, AccountStatus.PENDING);
  assert.match(account.firstKey?.secret ?? "", /^sk_test_[0-9A-Za-z]{43}$/);
  const resolved = await resolveSecret(account.firstKey?.secret);
  assert.deepEqual(
    [resolved.known, resolved.accountStatus, resolved.mode, resolved.scopes],
    [true, AccountStatus.PENDING, "test", ["can_initiate_payment", "can_refund", "can_read_transactions"]],
  );
  const shown = good(await getAccount(house, { accountId: account.accountId }));
  assert.equal(shown.firstKey, undefined);
});

test("create_account: no secret is in any row", async () => {
  const account = await signUp();
  const body = account.firstKey?.secret.slice(8) ?? "";
  for (const table of ["keys", "outbox", "accounts"]) {
    const { rows } = await db.pool.query(`select t::text as row from ${table} t`);
    assert.ok(!rows.some(({ row }) => String(row).includes(body)), table);
  }
});

test("create_account: numbers have no gaps however many sign up at once, and pages are exact", async () => {
  await Promise.all(Array.from({ length: 20 }, (_, i) => signUp(`Shop ${i}`)));
  const { rows } = await db.pool.query<{ n: bigint }>("select n from accounts order by n");
  assert.deepEqual(
    rows.map(({ n }) => n),
    rows.map((_, i) => BigInt(i + 1)),
  );
  const first = good(await listEveryAccount(house, { perPage: 7 }));
  assert.deepEqual([first.data.length, first.total, first.hasMore, first.page], [7, BigInt(rows.length), true, 1]);
  const past = good(await listEveryAccount(house, { page: 1000, perPage: 7 }));
  assert.deepEqual([past.data.length, past.total, past.hasMore], [0, BigInt(rows.length), false]);
  const seen = new Set<string>();
  for (let page = 1; ; page += 1) {
    const { data, hasMore } = good(await listEveryAccount(house, { page, perPage: 7 }));
    for (const { accountId } of data) seen.add(accountId);
    if (!hasMore) break;
  }
  assert.equal(seen.size, rows.length);
});

test("approve_account: opens the merchant's ledger accounts in both books first", async () => {
  const { accountId } = await signUp();
  assert.equal([...ledger.open].filter((code) => code.includes(accountId)).length, 0);
  const account = good(await approveAccount(house, { accountId }));
  assert.equal(account.status, AccountStatus.APPROVED);
  assert.equal([...ledger.open].filter((code) => code.includes(accountId)).length, 14);
});

test("approve_account: a ledger that fails leaves the account pending, and the sweeper makes up for it", async () => {
  const { accountId } = await signUp();
  ledger.broken = true;
  await assert.rejects(approveAccount(house, { accountId }), /the ledger is down/);
  ledger.broken = false;
  assert.equal(good(await getAccount(house, { accountId })).status, AccountStatus.PENDING);
  await sweep(house);
  const calls = ledger.calls;
  good(await approveAccount(house, { accountId }));
  assert.equal(ledger.calls, calls, "the sweeper had opened everything");
});

test("approve_account: of many at once exactly one approves, the others are told the state", async () => {
  const { accountId } = await signUp();
  const answers = await Promise.all(Array.from({ length: 8 }, () => approveAccount(house, { accountId })));
  assert.equal(answers.filter((answer) => !isRefusal(answer)).length, 1);
  for (const answer of answers.filter(isRefusal))
    assert.match(refusedWith(answer, "precondition_failed").message, /approved/);
  const changed = (await eventsOf(accountId)).filter(({ subject }) => subject === "cauri.accounts.account.changed");
  assert.equal(changed.length, 1);
});

test("suspend and reinstate: seen by the next resolve, each with its event; an unknown account is not found", async () => {
  const { accountId, firstKey } = await signUp();
  good(await approveAccount(house, { accountId }));
  good(await suspendAccount(house, { accountId }));
  assert.equal((await resolveSecret(firstKey?.secret)).accountStatus, AccountStatus.SUSPENDED);
  refusedWith(await suspendAccount(house, { accountId }), "precondition_failed");
  good(await reinstateAccount(house, { accountId }));
  assert.equal((await resolveSecret(firstKey?.secret)).accountStatus, AccountStatus.APPROVED);
  const subjects = (await eventsOf(accountId)).map(({ subject }) => subject);
  assert.deepEqual(subjects, ["cauri.accounts.key.changed", ...Array(3).fill("cauri.accounts.account.changed")]);
  refusedWith(await suspendAccount(house, { accountId: "acct_nobody" }), "not_found");
});

test("close_account: live money keeps it open, test money doesn't, a closed account's keys are unknown", async () => {
  const { accountId, firstKey } = await signUp();
  good(await approveAccount(house, { accountId }));
  good(await sandboxFund(house, { accountId, platformId: "plt_mtn_ci", assetId: "ast_xof", amountMinor: 5n }, ""));
  ledger.live_totals.set(accountId, 1n);
  refusedWith(await closeAccount(house, { accountId }), "precondition_failed");
  assert.equal(good(await getAccount(house, { accountId })).status, AccountStatus.APPROVED);
  ledger.live_totals.set(accountId, 0n);
  assert.equal(good(await closeAccount(house, { accountId })).status, AccountStatus.CLOSED);
  assert.equal((await resolveSecret(firstKey?.secret)).known, false);
  refusedWith(await closeAccount(house, { accountId }), "precondition_failed");
  refusedWith(await createKey(house, { accountId, mode: "test", scopes: [] }), "precondition_failed");
  refusedWith(await setAccount(house, { accountId, isLive: true, products: [], options: [] }), "precondition_failed");
});

test("close_account: while the ledger is asked the account's calls are refused, and no other command is heard", async () => {
  const { accountId } = await approved();
  let seen: unknown[] = [];
  ledger.meanwhile = async () => {
    const { status } = good(await getAccount(house, { accountId }));
    seen = [status, isRefusal(await suspendAccount(house, { accountId }))];
  };
  good(await closeAccount(house, { accountId }));
  ledger.meanwhile = async () => {};
  assert.deepEqual(seen, [AccountStatus.SUSPENDED, true]);
});

test("close_account: two at once end in one close; a process that dies in between leaves it to the sweeper", async () => {
  const { accountId } = await approved();
  const answers = await Promise.all([closeAccount(house, { accountId }), closeAccount(house, { accountId })]);
  assert.ok(answers.some((answer) => !isRefusal(answer) && answer.status === AccountStatus.CLOSED));
  const left = await approved();
  ledger.broken = true;
  await assert.rejects(closeAccount(house, { accountId: left.accountId }));
  ledger.broken = false;
  assert.equal(good(await getAccount(house, { accountId: left.accountId })).status, AccountStatus.SUSPENDED);
  await sweep(house);
  assert.equal(
    good(await getAccount(house, { accountId: left.accountId })).status,
    AccountStatus.SUSPENDED,
    "too early",
  );
  await db.pool.query("update accounts set closing_since = closing_since - interval '1 minute' where account_id = $1", [
    left.accountId,
  ]);
  await sweep(house);
  assert.equal(good(await getAccount(house, { accountId: left.accountId })).status, AccountStatus.CLOSED);
  assert.ok(!isRefusal(await decideClosing(house, left.accountId)), "deciding again changes nothing");
});

test("set_account: switches what is named and leaves the rest; an unknown word is refused and nothing changes", async () => {
  const { accountId } = await signUp();
  const on = (name: string) => [{ name, on: true }];
  good(
    await setAccount(house, { accountId, isLive: true, products: on("tontine"), options: on("internal_transfers") }),
  );
  refusedWith(
    await setAccount(house, { accountId, products: on("loans"), options: [] }),
    "invalid_request",
    "products.0.name",
  );
  const account = good(await setAccount(house, { accountId, products: on("instant_payment"), options: [] }));
  assert.deepEqual(
    [account.isLive, account.products, account.options],
    [true, ["instant_payment", "tontine"], ["internal_transfers"]],
  );
  refusedWith(await setAccount(house, { accountId, products: [], options: [] }), "invalid_request", "is_live");
});

test("account_moves: the table's states are the database's and the proto's", async () => {
  const text = "select pg_get_constraintdef(oid) as check from pg_constraint where conname = 'accounts_status'";
  const { rows } = await db.pool.query<{ check: string }>(text);
  const states = [...(rows[0]?.check ?? "").matchAll(/'([a-z]+)'/g)].map(([, state]) => state);
  assert.deepEqual(states, Object.keys(accountMoves));
  const words = Object.keys(AccountStatus).filter((word) => word !== "UNSPECIFIED");
  assert.deepEqual(
    states,
    words.map((word) => word.toLowerCase()),
  );
});
