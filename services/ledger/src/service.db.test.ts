// The RPCs over real gRPC on real PostgreSQL, as the other rooms call them.

import assert from "node:assert/strict";
import { join } from "node:path";
import { after, test } from "node:test";
import { isRefusal, type Refusal } from "@cauri/money/refusal";
import {
  Book,
  LedgerServiceClient,
  NormalSide,
  type Transfer,
  TransferKind,
  TransferResult,
} from "@cauri/proto/ts/cauri/ledger/v1/ledger";
import { houseCaller } from "@cauri/rpc/caller";
import { connectClient } from "@cauri/rpc/client";
import { logger } from "@cauri/rpc/log";
import { startServer } from "@cauri/rpc/server";
import { testDatabase } from "@cauri/store/testing";
import { startEngine } from "./engine.ts";
import { ledgerService } from "./service.ts";
import { FEES, FLOAT, idOf } from "./testing.ts";

const database = await testDatabase("ledger", [join(import.meta.dirname, "../migrations")]);
const { pool } = database;
const settings = { CAURI_BIND_HOST: "127.0.0.1", CAURI_RPC_PORT: 0, CAURI_RPC_TOKEN: "token", CAURI_DRAIN_MS: 1_000 };
const log = logger("ledger", "silent");
const server = await startServer({
  room: "ledger",
  settings,
  services: [ledgerService({ pool, engine: startEngine({ pool }) })],
  log,
});
const ledger = connectClient(LedgerServiceClient, { address: `127.0.0.1:${server.port}`, token: "token" });
after(async () => {
  ledger.closeChannel();
  await server.drain();
  await database.close();
});

function ok<T>(answer: T | Refusal): T {
  if (isRefusal(answer)) assert.fail(`refused: ${answer.field} ${answer.message}`);
  return answer;
}

/** The gateway answers it with 503 temporarily_unavailable. */
const RESOURCE_EXHAUSTED = 8;

const merchant = (platform: string, account = "acct_a") => `merchant:${account}:${platform}`;
const transfer = (
  word: string,
  debitCode: string,
  creditCode: string,
  amountMinor: bigint,
  more: Partial<Transfer> = {},
): Transfer => ({
  ...{ id: idOf(word), kind: TransferKind.POST, debitCode, creditCode, amountMinor, holdId: "" },
  ...{ expiresAt: undefined, effectiveAt: undefined, ...more },
});
const post = (transfers: Transfer[], book: Book = Book.TEST, assetId = "ast_xof") =>
  ledger.post({ groups: [{ book, assetId, operationId: "pay_1", transfers }] });

await ledger.openAccounts({
  accounts: [Book.TEST, Book.LIVE].flatMap((book) =>
    ["ast_xof", "ast_ghs"].flatMap((assetId) =>
      [
        FEES,
        FLOAT,
        ...["plt_a", "plt_b", "plt_c"].flatMap((p) => [merchant(p), merchant(p, "acct_b")]),
        "receivable:acct_a:plt_a",
      ].map((code) => ({ code, assetId, book })),
    ),
  ),
});

test("open accounts: a repeat opens nothing, a wrong code is refused naming its field", async () => {
  const again = { accounts: [{ code: FEES, assetId: "ast_xof", book: Book.TEST }] };
  assert.equal(ok(await ledger.openAccounts(again)).opened, 0);
  const refused = await ledger.openAccounts({
    accounts: [...again.accounts, { code: "cash", assetId: "ast_xof", book: Book.TEST }],
  });
  assert.ok(isRefusal(refused));
  assert.deepEqual([refused.refused, refused.field], ["invalid_request", "accounts.1.code"]);
});

test("post: groups are answered in their order, a malformed request is refused whole", async () => {
  const { groups } = ok(
    await ledger.post({
      groups: [
        {
          book: Book.LIVE,
          assetId: "ast_ghs",
          operationId: "pay_1",
          transfers: [transfer("g1", FLOAT, merchant("plt_a"), 9n)],
        },
        {
          book: Book.LIVE,
          assetId: "ast_xof",
          operationId: "pay_1",
          transfers: [transfer("g2", merchant("plt_a"), FEES, 1n)],
        },
        {
          book: Book.LIVE,
          assetId: "ast_ghs",
          operationId: "pay_1",
          transfers: [transfer("g3", merchant("plt_a"), FEES, 9n)],
        },
      ],
    }),
  );
  assert.deepEqual(
    groups.map(({ accepted, transfers }) => [accepted, transfers[0]?.result]),
    [
      [true, TransferResult.OK],
      [false, TransferResult.INSUFFICIENT_FUNDS],
      [true, TransferResult.OK],
    ],
  );
  const recorded = groups[0]?.transfers[0]?.recordedAt?.getTime() ?? 0;
  assert.ok(Math.abs(recorded - Date.now()) < 60_000);
  const refused = await post([transfer("bad", FLOAT, FEES, 0n)]);
  assert.ok(isRefusal(refused));
  assert.equal(refused.field, "groups.0.transfers.0.amount_minor");
});

test("post: more than may wait is a passing fault at once, and repeated as it was it stands, once", async () => {
  const engine = startEngine({ pool, max_waiting: 4 });
  const narrow = await startServer({ room: "ledger", settings, services: [ledgerService({ pool, engine })], log });
  const client = connectClient(LedgerServiceClient, { address: `127.0.0.1:${narrow.port}`, token: "token" });
  const credit = merchant("plt_c", "acct_b");
  const sent = Array.from({ length: 60 }, (_, n) => ({
    groups: [
      {
        ...{ book: Book.LIVE, assetId: "ast_ghs", operationId: "pay_busy" },
        transfers: [transfer(`busy ${n}`, FLOAT, credit, 1n)],
      },
    ],
  }));
  try {
    let left = sent;
    let refused = 0;
    while (left.length > 0) {
      const answers = await Promise.allSettled(left.map((request) => client.post(request)));
      for (const answer of answers) {
        if (answer.status === "fulfilled") assert.equal(ok(answer.value).groups[0]?.accepted, true);
        else assert.deepEqual([answer.reason.code, answer.reason.unavailable], [RESOURCE_EXHAUSTED, true]);
      }
      left = left.filter((_, index) => answers[index]?.status === "rejected");
      refused += left.length;
    }
    assert.ok(refused > 0, "nobody had to wait");
    const { accounts } = ok(
      await client.getAccounts({ accounts: [{ code: credit, assetId: "ast_ghs", book: Book.LIVE }] }),
    );
    assert.equal(accounts[0]?.creditsPostedMinor, 60n);
  } finally {
    client.closeChannel();
    await narrow.drain();
  }
});

test("list balances: the caller's accounts of its book, zeros included, in one order whatever the page", async () => {
  ok(await post([transfer("in", FLOAT, merchant("plt_b"), 100n)]));
  ok(await post([transfer("out", merchant("plt_b"), FLOAT, 30n, { kind: TransferKind.HOLD })]));
  ok(await post([transfer("coming", FLOAT, merchant("plt_b"), 55n, { kind: TransferKind.HOLD })]));
  ok(await post([transfer("theirs", FLOAT, merchant("plt_b", "acct_b"), 7n)]));
  const caller = houseCaller("acct_a", "test", "req_1");
  const list = ok(await ledger.listBalances({ page: undefined, perPage: undefined }, { caller }));
  assert.deepEqual([list.page, list.perPage, list.total, list.hasMore], [1n, 25, 6n, false]);
  assert.deepEqual(
    list.data.map((row) => [row.assetId, row.platformId, row.availableMinor, row.reservedMinor, row.pendingMinor]),
    [
      ["ast_ghs", "plt_a", 0n, 0n, 0n],
      ["ast_ghs", "plt_b", 0n, 0n, 0n],
      ["ast_ghs", "plt_c", 0n, 0n, 0n],
      ["ast_xof", "plt_a", 0n, 0n, 0n],
      ["ast_xof", "plt_b", 70n, 30n, 55n],
      ["ast_xof", "plt_c", 0n, 0n, 0n],
    ],
  );
  assert.ok(list.data.every((row) => row.updatedAt !== undefined));
  const second = ok(await ledger.listBalances({ page: 2n, perPage: 4 }, { caller }));
  assert.deepEqual(second.data, list.data.slice(4));
  assert.deepEqual([second.total, second.hasMore], [6n, false]);
  assert.equal(ok(await ledger.listBalances({ page: 1n, perPage: 4 }, { caller })).hasMore, true);
  assert.deepEqual(ok(await ledger.listBalances({ page: 99_999_999_999n, perPage: 4 }, { caller })).data, []);
  const nobody = ok(
    await ledger.listBalances({ page: 1n, perPage: 4 }, { caller: houseCaller("acct_x", "test", "req_1") }),
  );
  assert.deepEqual([nobody.data, nobody.total], [[], 0n]);
  for (const [page, perPage, field] of [
    [0n, 1, "page"],
    [1n, 0, "per_page"],
    [1n, 101, "per_page"],
  ] as const) {
    const refused = await ledger.listBalances({ page, perPage }, { caller });
    assert.ok(isRefusal(refused) && refused.field === field);
  }
});

test("get accounts: in the order asked, unknown ones left out", async () => {
  const wanted = [FLOAT, "float:plt_none", FEES].map((code) => ({ code, assetId: "ast_xof", book: Book.TEST }));
  const { accounts } = ok(await ledger.getAccounts({ accounts: wanted }));
  assert.deepEqual(
    accounts.map((one) => [one.code, one.normalSide, one.noOverdraft, one.book, one.assetId]),
    [
      [FLOAT, NormalSide.DEBIT, false, Book.TEST, "ast_xof"],
      [FEES, NormalSide.CREDIT, false, Book.TEST, "ast_xof"],
    ],
  );
  assert.deepEqual(
    [accounts[0]?.debitsPostedMinor, accounts[0]?.debitsPendingMinor, accounts[0]?.creditsPendingMinor],
    [107n, 55n, 30n],
  );
});

test("get merchant totals: zero only where nothing is left in the book", async () => {
  const totals = async (accountId: string, book: Book) => {
    const { postedMinor, pendingMinor } = ok(await ledger.getMerchantTotals({ accountId, book }));
    return [postedMinor, pendingMinor];
  };
  assert.deepEqual(await totals("acct_a", Book.TEST), [100n, 85n]);
  assert.deepEqual(await totals("acct_a", Book.LIVE), [0n, 0n]);
  assert.deepEqual(await totals("acct_none", Book.LIVE), [0n, 0n]);
});

test("verify: counts what it read and finds nothing", async () => {
  const { ok: sound, transfers, entries, batches, problems } = ok(await ledger.verify({ resume: false }));
  assert.deepEqual([sound, problems], [true, []]);
  assert.equal(entries, transfers * 2n);
  assert.ok(transfers >= 6n && batches >= 6n);
});
