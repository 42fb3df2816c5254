// The room's RPCs on a real database, before a ledger that can be made to fail. The ledger here keeps only what was asked
// of it: the real one is met in the stories.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { hmacOfSecret } from "@cauri/money/api-key";
import { systemClock } from "@cauri/money/clock";
import { isRefusal, type Refusal } from "@cauri/money/refusal";
import { AccountStatus, type Key } from "@cauri/proto/ts/cauri/accounts/v1/accounts";
import { FeeOperation } from "@cauri/proto/ts/cauri/accounts/v1/reference";
import { KeyChanged } from "@cauri/proto/ts/cauri/events/v1/events";
import { type TestDatabase, testDatabase } from "@cauri/store/testing";
import {
  approveAccount,
  closeAccount,
  createAccount,
  getAccount,
  listEveryAccount,
  reinstateAccount,
  setAccount,
  suspendAccount,
} from "./account-service.ts";
import type { House } from "./house.ts";
import { createKey, endKey, listKeysOf, resolve, rotateKey } from "./key-service.ts";
import type { Ledger } from "./ledger.ts";
import {
  getTerms,
  listAllCorridors,
  listAssets,
  listCorridorsFor,
  openOrCloseCorridor,
  setFee,
} from "./reference-service.ts";
import { advanceClock, sandboxFund } from "./sandbox-service.ts";
import { decideClosing, sweep } from "./sweep.ts";

const PEPPER = "a pepper for tests";
const SILENT = { info() {}, warn() {}, error() {} };

let db: TestDatabase;
let house: House;
let ledger: FakeLedger;

before(async () => {
  db = await testDatabase("accounts", [`${import.meta.dirname}/../migrations`]);
  ledger = new FakeLedger();
  house = {
    pool: db.pool,
    ledger: ledger as unknown as Ledger,
    pepper: PEPPER,
    live: "",
    clock: systemClock,
    log: SILENT,
    wakeSweeper: () => {},
    drain: async () => ({ done: 0n }),
  };
  await sweep(house);
});
after(() => db.close());

/** Remembers what is open, what was posted and what a merchant's live books hold. */
class FakeLedger {
  readonly open = new Set<string>();
  readonly posted = new Map<string, { credit: string; amount: bigint }>();
  readonly live_totals = new Map<string, bigint>();
  calls = 0;
  broken = false;
  /** Runs while a call is under way: where a race is made. */
  meanwhile: () => Promise<unknown> = async () => {};

  async openAccounts({ accounts }: { accounts: { code: string; assetId: string; book: number }[] }) {
    await this.#arrive();
    for (const { code, assetId, book } of accounts) this.open.add(`${code}/${assetId}/${book}`);
    return { opened: accounts.length };
  }
  async getMerchantTotals({ accountId }: { accountId: string }) {
    await this.#arrive();
    return { postedMinor: this.live_totals.get(accountId) ?? 0n, pendingMinor: 0n };
  }
  async post({
    groups,
  }: {
    groups: { assetId: string; book: number; transfers: { id: string; creditCode: string; amountMinor: bigint }[] }[];
  }) {
    await this.#arrive();
    for (const group of groups) {
      for (const transfer of group.transfers) {
        const credit = `${transfer.creditCode}/${group.assetId}/${group.book}`;
        assert.ok(this.open.has(credit), `${credit} is not open`);
        this.posted.set(transfer.id, { credit, amount: transfer.amountMinor });
      }
    }
    return { groups: groups.map(() => ({ accepted: true, transfers: [] })) };
  }
  async getAccounts({ accounts }: { accounts: { code: string; assetId: string; book: number }[] }) {
    await this.#arrive();
    const [{ code, assetId, book } = { code: "", assetId: "", book: 0 }] = accounts;
    let creditsPostedMinor = 0n;
    for (const { credit, amount } of this.posted.values())
      if (credit === `${code}/${assetId}/${book}`) creditsPostedMinor += amount;
    return { accounts: [{ creditsPostedMinor, debitsPostedMinor: 0n, debitsPendingMinor: 0n }] };
  }
  async #arrive() {
    this.calls += 1;
    if (this.broken) throw new Error("the ledger is down");
    await this.meanwhile();
  }
}

function good<T>(answer: T | Refusal): T {
  if (isRefusal(answer)) assert.fail(`refused: ${answer.refused} ${answer.field ?? ""} ${answer.message}`);
  return answer;
}

function refusedWith(answer: unknown, reason: string, field?: string): Refusal {
  if (!isRefusal(answer)) assert.fail("was not refused");
  assert.deepEqual([answer.refused, answer.field], [reason, field], answer.message);
  return answer;
}

async function signUp(name = "Baobab") {
  return good(await createAccount(house, { name, country: "CI", email: "ops@baobab.ci" }));
}

async function approved() {
  const account = await signUp();
  return good(await approveAccount(house, { accountId: account.accountId }));
}

const resolveSecret = async (secret: string | undefined) =>
  good(await resolve(house, { hmac: hmacOfSecret(secret ?? assert.fail("no secret"), PEPPER) }));

async function newKey(accountId: string, scopes: string[] = []): Promise<Key> {
  return good(await createKey(house, { accountId, mode: "test", scopes, name: "till" }));
}

async function eventsOf(account: string): Promise<{ subject: string; payload: Buffer }[]> {
  const { rows } = await db.pool.query("select subject, payload from outbox where account = $1 order by seq", [
    account,
  ]);
  return rows as { subject: string; payload: Buffer }[];
}

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

test("create_key: the secret is shown once; bad input is refused with its field", async () => {
  const { accountId } = await signUp();
  const key = await newKey(accountId, ["all"]);
  assert.equal(key.scopes.length, 5);
  assert.equal((await resolveSecret(key.secret)).keyId, key.keyId);
  const { data } = good(await listKeysOf(house, { accountId }));
  assert.deepEqual(data.map(({ keyId, secret }) => [keyId, secret])[0], [key.keyId, undefined]);
  refusedWith(await createKey(house, { accountId, mode: "prod", scopes: [] }), "invalid_request", "mode");
  refusedWith(await createKey(house, { accountId, mode: "live", scopes: ["x"] }), "invalid_request", "scopes.0");
  refusedWith(await createKey(house, { accountId: "acct_nobody", mode: "live", scopes: [] }), "not_found");
});

test("rotate_key: without an overlap the old key ends at once, with one it works until then", async () => {
  const { accountId } = await signUp();
  const first = await newKey(accountId, ["can_payout"]);
  const second = good(await rotateKey(house, { keyId: first.keyId }));
  assert.deepEqual([second.scopes, second.name, second.mode], [first.scopes, first.name, first.mode]);
  assert.equal((await resolveSecret(first.secret)).known, false);
  const third = good(await rotateKey(house, { keyId: second.keyId, overlapS: 3600n }));
  const old = await resolveSecret(second.secret);
  assert.equal(old.known, true);
  assert.ok((old.expiresAt?.getTime() ?? 0) > systemClock() + 3_500_000);
  assert.equal((await resolveSecret(third.secret)).known, true);
  await db.pool.query("update keys set expires_at = clock_timestamp() where key_id = $1", [second.keyId]);
  assert.equal((await resolveSecret(second.secret)).known, false);
  refusedWith(await rotateKey(house, { keyId: third.keyId, overlapS: 604_801n }), "invalid_request", "overlap_s");
  refusedWith(await rotateKey(house, { keyId: "key_nobody" }), "not_found");
});

test("rotate_key: of many at once exactly one leaves a successor, also with an overlap", async () => {
  const { accountId } = await signUp();
  for (const overlapS of [undefined, 60n]) {
    const { keyId } = await newKey(accountId);
    const answers = await Promise.all(
      Array.from({ length: 8 }, () => rotateKey(house, overlapS === undefined ? { keyId } : { keyId, overlapS })),
    );
    assert.equal(answers.filter((answer) => !isRefusal(answer)).length, 1);
    for (const answer of answers.filter(isRefusal)) refusedWith(answer, "precondition_failed");
  }
});

test("revoke_key: no resolve that begins after it knows the key, and a repeat answers the same", async () => {
  const { accountId } = await signUp();
  const key = await newKey(accountId);
  let ended = false;
  const late: boolean[] = [];
  const asking = Array.from({ length: 8 }, async () => {
    for (let i = 0; i < 20; i += 1) {
      const began_after = ended;
      const { known } = await resolveSecret(key.secret);
      if (began_after) late.push(known);
    }
  });
  const revoked = good(await endKey(house, { keyId: key.keyId }));
  ended = true;
  await Promise.all(asking);
  assert.ok(late.every((known) => !known));
  assert.equal((await resolveSecret(key.secret)).known, false);
  const again = good(await endKey(house, { keyId: key.keyId }));
  assert.deepEqual(again.revokedAt, revoked.revokedAt);
  refusedWith(await rotateKey(house, { keyId: key.keyId }), "precondition_failed");
  const told = (await eventsOf(accountId)).map(({ payload }) => KeyChanged.decode(payload).keyId);
  assert.ok(told.filter((key_id) => key_id === key.keyId).length >= 2);
});

test("resolve_key: an unknown HMAC is not known, a malformed one is refused", async () => {
  assert.equal((await resolveSecret(`sk_test_${"a".repeat(43)}`)).known, false);
  refusedWith(await resolve(house, { hmac: Buffer.alloc(3) }), "invalid_request", "hmac");
});

test("list_assets and list_corridors: what is seeded, as the account may use it", async () => {
  const account = await approved();
  const assets = good(await listAssets(house, {}));
  assert.deepEqual(
    assets.data.map(({ assetId, code, scale }) => [assetId, code, scale]),
    [
      ["ast_ghs", "GHS", 2],
      ["ast_xof", "XOF", 0],
    ],
  );
  const asker = { account: account.accountId, mode: "test" } as const;
  const corridors = good(await listCorridorsFor(house, {}, asker));
  assert.equal(corridors.total, 13n);
  assert.ok(corridors.data.every(({ isOpen }) => isOpen));
  const bank = corridors.data.filter(({ platformId }) => platformId === "plt_bank_ci");
  assert.deepEqual(
    bank.map(({ direction, maxAmountMinor, rails }) => [direction, maxAmountMinor, rails]),
    [[2, 50_000_000n, ["bank_transfer"]]],
  );
  const live = good(await listCorridorsFor(house, {}, { ...asker, mode: "live" }));
  assert.ok(
    live.data.every(({ isOpen }) => !isOpen),
    "nothing serves live rails",
  );
  const simulated = good(await listCorridorsFor({ ...house, live: "simulator" }, {}, { ...asker, mode: "live" }));
  assert.ok(simulated.data.every(({ isOpen }) => isOpen));
});

const COLLECTION = FeeOperation.COLLECTION;

test("get_terms: rails, bounds and the price by precedence", async () => {
  const { accountId } = await approved();
  const asker = { account: accountId, mode: "test" } as const;
  const place = { platformId: "plt_mtn_ci", assetId: "ast_xof" };
  const ask = async () => good(await getTerms(house, { operation: COLLECTION, ...place }, asker));
  const terms = await ask();
  assert.deepEqual(
    [
      terms.assetKnown,
      terms.platformKnown,
      terms.corridorKnown,
      terms.isOpen,
      terms.minAmountMinor,
      terms.maxAmountMinor,
    ],
    [true, true, true, true, 100n, 2_000_000n],
  );
  assert.deepEqual(terms.rails, [{ rail: "mtn_momo", needsPhone: true }]);
  assert.deepEqual([terms.country, terms.currency, terms.scale, terms.merchantName], ["CI", "XOF", 0, "Baobab"]);
  const set = (more: object, percentBps: number) =>
    setFee(house, { operation: COLLECTION, assetId: "ast_xof", percentBps, fixedMinor: 0n, ...more });
  assert.equal(terms.fee?.percentBps, 150);
  good(await set({ accountId }, 120));
  assert.equal((await ask()).fee?.percentBps, 120);
  good(await set({ accountId, platformId: "plt_mtn_ci" }, 110));
  good(await set({ accountId, platformId: "plt_mtn_ci" }, 105));
  assert.equal((await ask()).fee?.percentBps, 105);
  const withdrawal = good(await getTerms(house, { operation: FeeOperation.WITHDRAWAL, ...place }, asker));
  assert.deepEqual([withdrawal.corridorKnown, withdrawal.fee], [true, undefined]);
});

test("get_terms: what is unknown is told apart, an operation must be said", async () => {
  const { accountId } = await approved();
  const asker = { account: accountId, mode: "test" } as const;
  const ask = async (platformId: string, assetId: string) => {
    const terms = good(await getTerms(house, { operation: COLLECTION, platformId, assetId }, asker));
    return [terms.platformKnown, terms.assetKnown, terms.corridorKnown, terms.isOpen];
  };
  assert.deepEqual(await ask("plt_x", "ast_xof"), [false, true, false, false]);
  assert.deepEqual(await ask("plt_mtn_ci", "ast_x"), [true, false, false, false]);
  assert.deepEqual(await ask("plt_mtn_ci", "ast_ghs"), [true, true, false, false]);
  assert.deepEqual(await ask("plt_bank_ci", "ast_xof"), [true, true, false, false]);
  refusedWith(
    await getTerms(house, { operation: 0, platformId: "plt_mtn_ci", assetId: "ast_xof" }, asker),
    "invalid_request",
    "operation",
  );
});

test("set_fee: every bad value is refused with its field", async () => {
  const good_line = { operation: COLLECTION, assetId: "ast_xof", percentBps: 100, fixedMinor: 0n };
  const cases = [
    [{ operation: 0 as const }, "operation"],
    [{ assetId: "ast_x" }, "asset_id"],
    [{ accountId: "acct_x" }, "account_id"],
    [{ platformId: "plt_x" }, "platform_id"],
    [{ platformId: "plt_mtn_gh" }, "platform_id"],
    [{ percentBps: 10_001 }, "percent_bps"],
    [{ fixedMinor: -1n }, "fixed_minor"],
    [{ minMinor: 5n, maxMinor: 4n }, "min_minor"],
  ] as const;
  for (const [bad, field] of cases)
    refusedWith(await setFee(house, { ...good_line, ...bad }), "invalid_request", field);
});

test("set_corridor: closed and open for everyone, with its event", async () => {
  const corridorId = "cor_wave_sn_xof_payout";
  assert.equal(good(await openOrCloseCorridor(house, { corridorId, isOpen: false })).isOpen, false);
  const { data } = await listAllCorridors(house);
  assert.equal(data.find((corridor) => corridor.corridorId === corridorId)?.isOpen, false);
  good(await openOrCloseCorridor(house, { corridorId, isOpen: true }));
  assert.equal((await eventsOf("")).filter(({ subject }) => subject === "cauri.accounts.terms.changed").length, 2);
  refusedWith(await openOrCloseCorridor(house, { corridorId: "cor_x", isOpen: true }), "not_found");
});

test("sandbox_fund: adds up, once per request; what doesn't stand is refused with its field", async () => {
  const { accountId } = await signUp();
  const asked = { accountId, platformId: "plt_mtn_ci", assetId: "ast_xof", amountMinor: 500n };
  assert.equal(good(await sandboxFund(house, asked, "req_1")).availableMinor, 500n);
  assert.equal(good(await sandboxFund(house, asked, "req_1")).availableMinor, 500n, "the edge repeated the call");
  assert.equal(good(await sandboxFund(house, asked, "req_2")).availableMinor, 1_000n);
  assert.equal(good(await sandboxFund(house, asked, "")).availableMinor, 1_500n);
  refusedWith(await sandboxFund(house, { ...asked, amountMinor: 0n }, ""), "invalid_request", "amount_minor");
  refusedWith(await sandboxFund(house, { ...asked, platformId: "plt_x" }, ""), "invalid_request", "platform_id");
  refusedWith(await sandboxFund(house, { ...asked, assetId: "ast_x" }, ""), "invalid_request", "asset_id");
  refusedWith(await sandboxFund(house, { ...asked, assetId: "ast_ghs" }, ""), "invalid_request", "asset_id");
  refusedWith(await sandboxFund(house, { ...asked, mode: "prod" }, ""), "invalid_request", "mode");
  refusedWith(await sandboxFund(house, { ...asked, mode: "live" }, ""), "precondition_failed");
  const simulated = { ...house, live: "simulator" } as const;
  assert.equal(good(await sandboxFund(simulated, { ...asked, mode: "live" }, "")).availableMinor, 500n);
});

test("advance_clock: offsets of calls at once add up, and each is told", async () => {
  const { accountId } = await signUp();
  await Promise.all(Array.from({ length: 5 }, () => advanceClock(house, { accountId, byMs: 1_000n })));
  const moved = good(await advanceClock(house, { accountId, byMs: 86_400_000n }));
  assert.equal(moved.offsetMs, 86_405_000n);
  assert.ok(Math.abs((moved.now?.getTime() ?? 0) - systemClock() - 86_405_000) < 5_000);
  const told = (await eventsOf(accountId)).filter(({ subject }) => subject === "cauri.accounts.clock.advanced");
  assert.equal(told.length, 6);
  refusedWith(await advanceClock(house, { accountId, byMs: 0n }), "invalid_request", "by_ms");
  refusedWith(await advanceClock(house, { accountId: "acct_x", byMs: 1n }), "not_found");
});

test("a new place: spread to the house and every open account, also to those that sign up meanwhile", async () => {
  const before_it = await approved();
  await db.pool.query("insert into platforms (platform_id, name, country) values ('plt_moov_bj', 'Moov Bénin', 'BJ')");
  await db.pool.query("insert into places (platform_id, asset_id) values ('plt_moov_bj', 'ast_xof')");
  await db.pool.query(
    `insert into corridors (corridor_id, platform_id, asset_id, direction, min_amount_minor, max_amount_minor)
     values ('cor_moov_bj_xof_collection', 'plt_moov_bj', 'ast_xof', 'collection', 100, 2000000)`,
  );
  await db.pool.query("insert into corridor_rails values ('cor_moov_bj_xof_collection', 'mtn_momo', 1)");
  const asker = { account: before_it.accountId, mode: "test" } as const;
  const place = { operation: COLLECTION, platformId: "plt_moov_bj", assetId: "ast_xof" };
  assert.equal(good(await getTerms(house, place, asker)).isOpen, false, "its ledger accounts don't stand yet");
  const [, , ...meanwhile] = await Promise.all([sweep(house), sweep(house), signUp(), signUp(), signUp()]);
  await sweep(house);
  for (const { accountId } of [before_it, ...meanwhile])
    assert.ok(ledger.open.has(`merchant:${accountId}:plt_moov_bj/ast_xof/1`));
  assert.ok(ledger.open.has("float:plt_moov_bj/ast_xof/2"));
  assert.equal(good(await getTerms(house, place, asker)).isOpen, true);
});
