// The operators' RPCs over real gRPC: what an account, its entries, a statement, a transfer and the trial balance tell.

import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { isRefusal, type Refusal } from "@cauri/money/refusal";
import { BooksServiceClient, TimeBasis } from "@cauri/proto/ts/cauri/ledger/v1/books";
import { Book, TransferKind, TransferResult, TransferState } from "@cauri/proto/ts/cauri/ledger/v1/ledger";
import { connectClient } from "@cauri/rpc/client";
import { logger } from "@cauri/rpc/log";
import { startServer } from "@cauri/rpc/server";
import { testDatabase } from "@cauri/store/testing";
import { openAccounts } from "./account-store.ts";
import { booksService } from "./books-service.ts";
import { startEngine } from "./engine.ts";
import { CODES, capture, FEES, FLOAT, group, hold, idOf, MERCHANT, order, post } from "./testing.ts";

const database = await testDatabase("ledger", [join(import.meta.dirname, "../migrations")]);
const { pool } = database;
const settings = { CAURI_BIND_HOST: "127.0.0.1", CAURI_RPC_PORT: 0, CAURI_RPC_TOKEN: "token", CAURI_DRAIN_MS: 1_000 };
const server = await startServer({
  room: "ledger",
  settings,
  services: [booksService({ pool })],
  log: logger("ledger", "silent"),
});
const books = connectClient(BooksServiceClient, { address: `127.0.0.1:${server.port}`, token: "token" });
after(async () => {
  books.closeChannel();
  await server.drain();
  await database.close();
});

function ok<T>(answer: T | Refusal): T {
  if (isRefusal(answer)) assert.fail(`refused: ${answer.field} ${answer.message}`);
  return answer;
}

const DAY_MS = 86_400_000;
const LATE_MS = Date.UTC(2026, 0, 5, 12);
const account = { code: MERCHANT, assetId: "ast_xof", book: Book.LIVE };
const now = { at: undefined, basis: TimeBasis.UNSPECIFIED };
const recorded: Date[] = [];

before(async () => {
  await openAccounts(
    pool,
    [...CODES, "receivable:acct_a:plt_a"].map((code) => ({ asset_id: "ast_xof", book: "live", code })),
  );
  const engine = startEngine({ pool });
  for (const transfers of [
    [order("post", "fund", FLOAT, MERCHANT, 100n, { effective_ms: LATE_MS })],
    [hold("h", MERCHANT, FLOAT, 30n)],
    [capture("c", "h", 20n), post("fee", MERCHANT, FEES, 1n)],
    [post("refused", MERCHANT, FEES, 1_000n)],
    [post("lost", "receivable:acct_a:plt_a", FLOAT, 4n)],
  ]) {
    const [answer] = await engine.post([group(transfers)]);
    recorded.push(new Date(Math.floor((answer?.transfers[0]?.recorded_us ?? 0) / 1000)));
    // Instants are told in milliseconds: each of the test's own is another one.
    await new Promise((resolve) => setTimeout(resolve, 3));
  }
});

test("account: now, as recorded at an instant, as effective at an instant", async () => {
  const at = async (instant: Date | undefined, basis: TimeBasis) => {
    const { balances } = ok(await books.getBookAccount({ ...account, at: instant, basis }));
    return [balances?.balanceMinor, balances?.availableMinor, balances?.debitsPendingMinor];
  };
  assert.deepEqual(await at(undefined, TimeBasis.UNSPECIFIED), [79n, 79n, 0n]);
  assert.deepEqual(await at(recorded[1], TimeBasis.RECORDED), [100n, 70n, 30n]);
  assert.deepEqual(await at(recorded[0], TimeBasis.UNSPECIFIED), [100n, 100n, 0n]);
  assert.deepEqual(await at(new Date(LATE_MS), TimeBasis.RECORDED), [0n, 0n, 0n]);
  assert.deepEqual(await at(new Date(LATE_MS), TimeBasis.EFFECTIVE), [100n, 100n, 0n]);
  assert.deepEqual(await at(new Date(LATE_MS - 1), TimeBasis.EFFECTIVE), [0n, 0n, 0n]);
});

test("entries: newest first, the pages follow each other by their cursors", async () => {
  const pages = [];
  for (let cursor: string | undefined; ; ) {
    const page = ok(await books.listEntries({ ...account, limit: 3, cursor }));
    pages.push(page.data);
    cursor = page.nextCursor;
    if (cursor === undefined) break;
  }
  assert.deepEqual(
    pages.map((page) => page.map((entry) => [entry.transferId, entry.after?.balanceMinor])),
    [
      [
        [idOf("fee"), 79n],
        [idOf("c"), 80n],
        [idOf("h"), 100n],
      ],
      [[idOf("fund"), 100n]],
    ],
  );
  const [, captured] = pages.flat();
  assert.deepEqual(
    [captured?.kind, captured?.counterpartyCode, captured?.debitsPendingMinor, captured?.debitsPostedMinor],
    [TransferKind.CAPTURE, FLOAT, -30n, 20n],
  );
});

test("statement: opening and lines make the closing, on one page or on several", async () => {
  const stretch = { ...account, from: new Date(LATE_MS), to: new Date((recorded[4]?.getTime() ?? 0) + DAY_MS) };
  for (const [basis, opening] of [
    [TimeBasis.RECORDED, 0n],
    [TimeBasis.EFFECTIVE, 0n],
  ] as const) {
    const whole = ok(await books.getStatement({ ...stretch, basis, limit: undefined, cursor: undefined }));
    assert.deepEqual(
      [whole.opening?.balanceMinor, whole.closing?.balanceMinor, whole.lines.length, whole.nextCursor],
      [opening, 79n, 4, undefined],
    );
    const lines = [];
    for (let cursor: string | undefined; ; ) {
      const page = ok(await books.getStatement({ ...stretch, basis, limit: 1, cursor }));
      lines.push(...page.lines);
      cursor = page.nextCursor;
      if (cursor === undefined) break;
    }
    assert.deepEqual(lines, whole.lines);
  }
  const later = ok(
    await books.getStatement({
      ...{ ...stretch, from: new Date(LATE_MS + 1), basis: TimeBasis.EFFECTIVE },
      ...{ limit: undefined, cursor: undefined },
    }),
  );
  assert.deepEqual([later.opening?.balanceMinor, later.lines.length], [100n, 3]);
});

test("transfer: with its group and its operation, and a refusal that is remembered", async () => {
  const found = ok(await books.getTransfer({ transferId: idOf("c") }));
  assert.deepEqual(
    [found.transfer?.kind, found.transfer?.state, found.transfer?.amountMinor, found.transfer?.debitCode],
    [TransferKind.CAPTURE, TransferState.CAPTURED, 20n, MERCHANT],
  );
  assert.deepEqual(
    found.group.map((one) => one.transferId),
    [idOf("c"), idOf("fee")],
  );
  assert.deepEqual(
    found.operation.map((one) => one.transferId),
    ["fund", "h", "c", "fee", "lost"].map(idOf),
  );
  const held = ok(await books.getTransfer({ transferId: idOf("h") }));
  assert.equal(held.transfer?.state, TransferState.CAPTURED);
  const { transfer, group: alone } = ok(await books.getTransfer({ transferId: idOf("refused") }));
  assert.deepEqual(
    [transfer?.state, transfer?.refused, alone],
    [TransferState.UNSPECIFIED, TransferResult.INSUFFICIENT_FUNDS, []],
  );
});

test("trial balance: debits equal credits in each asset and book, now and as of an instant", async () => {
  const filter = { assetId: "ast_xof", book: Book.UNSPECIFIED };
  const { data, balanced } = ok(await books.getTrialBalance({ ...filter, ...now }));
  assert.deepEqual([balanced, data.length, data[0]?.debitsPostedMinor], [true, 1, 125n]);
  const lines = data[0]?.lines.map((line) => [line.kind, line.platformId, line.accounts, line.balances?.balanceMinor]);
  assert.deepEqual(lines, [
    ["fees", undefined, 1, 1n],
    ["float", "plt_a", 1, 76n],
    ["merchant", "plt_a", 2, 79n],
    ["receivable", "plt_a", 1, 4n],
  ]);
  for (const basis of [TimeBasis.RECORDED, TimeBasis.EFFECTIVE]) {
    const then = ok(await books.getTrialBalance({ ...filter, at: recorded[1], basis }));
    assert.deepEqual(
      [then.balanced, then.data[0]?.debitsPendingMinor, then.data[0]?.debitsPostedMinor],
      [true, 30n, 100n],
    );
  }
});

test("clearing: what should be empty and is not, with its oldest item", async () => {
  const { data, hasMore } = ok(
    await books.listClearing({ assetId: undefined, book: Book.UNSPECIFIED, limit: undefined }),
  );
  assert.deepEqual(
    data.map((one) => [one.code, one.balances?.balanceMinor, one.oldestTransferId, one.oldestOperationId]),
    [["receivable:acct_a:plt_a", 4n, idOf("lost"), "pay_1"]],
  );
  assert.equal(hasMore, false);
});

test("refusals: each names its field", async () => {
  const stretch = { ...account, basis: TimeBasis.RECORDED, limit: undefined, cursor: undefined };
  const [early, late] = [new Date(LATE_MS), new Date(LATE_MS + 1)];
  const refusals: readonly [string, Promise<unknown>][] = [
    ["code", books.getBookAccount({ ...account, ...now, code: "cash" })],
    ["code", books.getBookAccount({ ...account, ...now, code: "merchant:acct_none:plt_a" })],
    ["asset_id", books.getBookAccount({ ...account, ...now, assetId: "" })],
    ["book", books.getBookAccount({ ...account, ...now, book: Book.UNSPECIFIED })],
    ["at", books.getBookAccount({ ...account, at: undefined, basis: TimeBasis.EFFECTIVE })],
    ["at", books.getBookAccount({ ...account, at: new Date(0), basis: TimeBasis.RECORDED })],
    ["limit", books.listEntries({ ...account, limit: 501, cursor: undefined })],
    ["cursor", books.listEntries({ ...account, limit: 1, cursor: "abc" })],
    ["to", books.getStatement({ ...stretch, from: early, to: early })],
    ["from", books.getStatement({ ...stretch, from: undefined, to: late })],
    ["limit", books.getStatement({ ...stretch, from: early, to: late, limit: 0 })],
    ["transfer_id", books.getTransfer({ transferId: "abc" })],
    ["transfer_id", books.getTransfer({ transferId: idOf("never") })],
    ["asset_id", books.getTrialBalance({ assetId: "a b", book: Book.UNSPECIFIED, ...now })],
    ["asset_id", books.getTrialBalance({ assetId: "ast_none", book: Book.UNSPECIFIED, ...now })],
    ["asset_id", books.getTrialBalance({ assetId: "ast_xof", book: Book.TEST, ...now })],
    ["asset_id", books.listClearing({ assetId: "ast_none", book: Book.UNSPECIFIED, limit: undefined })],
    ["limit", books.listClearing({ assetId: undefined, book: Book.UNSPECIFIED, limit: 201 })],
  ];
  for (const [index, [field, asked]] of refusals.entries()) {
    const answer = await asked;
    assert.ok(isRefusal(answer), `${index}`);
    assert.equal(answer.field, field, `${index}`);
  }
});
