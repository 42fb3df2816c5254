import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { FeeOperation } from "@cauri/proto/ts/cauri/accounts/v1/reference";
import {
  getTerms,
  listAllCorridors,
  listAssets,
  listCorridorsFor,
  openOrCloseCorridor,
  setFee,
} from "./reference-service.ts";
import { sweep } from "./sweep.ts";
import { good, openTestHouse, refusedWith, type TestHouse } from "./testing.ts";

let at: TestHouse;
let db: TestHouse["db"];
let house: TestHouse["house"];
let ledger: TestHouse["ledger"];
let signUp: TestHouse["signUp"];
let approved: TestHouse["approved"];
let eventsOf: TestHouse["eventsOf"];

before(async () => {
  at = await openTestHouse();
  ({ db, house, ledger, signUp, approved, eventsOf } = at);
});
after(() => at.db.close());

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
