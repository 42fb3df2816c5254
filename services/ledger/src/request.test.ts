// What a malformed request is told: the field, and why.

import assert from "node:assert/strict";
import { test } from "node:test";
import {
  Book,
  type Group,
  NormalSide,
  type Transfer,
  TransferKind,
  TransferResult,
  TransferState,
} from "@cauri/proto/ts/cauri/ledger/v1/ledger";
import { RESULTS } from "./books.ts";
import { chartOf } from "./chart.ts";
import { MAX_GROUP, MAX_POST, readPost, writePost, writeSide } from "./request.ts";
import { FEES, FLOAT, idOf, MERCHANT } from "./testing.ts";

const transfer = (more: Partial<Transfer> = {}): Transfer => ({
  ...{ id: idOf("a"), kind: TransferKind.POST, debitCode: FLOAT, creditCode: MERCHANT, amountMinor: 1n },
  ...{ holdId: "", expiresAt: undefined, effectiveAt: undefined, ...more },
});
const groupOf = (transfers: Transfer[], more: Partial<Group> = {}): Group => ({
  ...{ book: Book.LIVE, assetId: "ast_xof", operationId: "pay_1", transfers, ...more },
});
const capture = (more: Partial<Transfer> = {}) =>
  transfer({
    ...{ kind: TransferKind.CAPTURE, debitCode: "", creditCode: "", amountMinor: 0n, holdId: idOf("h") },
    ...more,
  });

function fieldOf(groups: Group[]): string | undefined {
  const read = readPost({ groups });
  return "refused" in read ? read.field : undefined;
}

test("read post: what is well-formed becomes orders", () => {
  const at = new Date("2026-11-20T18:53:00.000Z");
  const read = readPost({
    groups: [
      groupOf([
        transfer({ kind: TransferKind.HOLD, expiresAt: at }),
        capture({ id: idOf("b"), effectiveAt: at }),
        capture({ id: idOf("c"), kind: TransferKind.RELEASE }),
      ]),
    ],
  });
  assert.deepEqual(read, [
    {
      ...{ asset_id: "ast_xof", book: "live", operation_id: "pay_1" },
      transfers: [
        {
          ...{ id: idOf("a"), kind: "hold", debit_code: FLOAT, credit_code: MERCHANT, amount: 1n },
          ...{ hold_id: null, expires_ms: at.getTime(), effective_ms: null },
        },
        {
          ...{ id: idOf("b"), kind: "capture", debit_code: null, credit_code: null, amount: 0n },
          ...{ hold_id: idOf("h"), expires_ms: null, effective_ms: at.getTime() },
        },
        {
          ...{ id: idOf("c"), kind: "release", debit_code: null, credit_code: null, amount: 0n },
          ...{ hold_id: idOf("h"), expires_ms: null, effective_ms: null },
        },
      ],
    },
  ]);
});

const WRONG: readonly (readonly [name: string, field: string, transfer: Transfer])[] = [
  ["no id", "id", transfer({ id: "" })],
  ["an id that is no UUID", "id", transfer({ id: "pay_1" })],
  ["an id in upper case", "id", transfer({ id: idOf("a").toUpperCase() })],
  ["no kind", "kind", transfer({ kind: TransferKind.UNSPECIFIED })],
  ["a kind of the future", "kind", transfer({ kind: 9 as TransferKind })],
  ["no debit code", "debit_code", transfer({ debitCode: "" })],
  ["an unknown code", "credit_code", transfer({ creditCode: "savings" })],
  ["a wrong code in a capture", "debit_code", capture({ debitCode: "savings" })],
  ["one account on both sides", "credit_code", transfer({ creditCode: FLOAT })],
  ["amount 0", "amount_minor", transfer({ amountMinor: 0n })],
  ["a negative amount", "amount_minor", transfer({ amountMinor: -1n })],
  ["a negative capture", "amount_minor", capture({ amountMinor: -1n })],
  ["a release with an amount", "amount_minor", capture({ kind: TransferKind.RELEASE, amountMinor: 1n })],
  ["a post that names a hold", "hold_id", transfer({ holdId: idOf("h") })],
  ["a capture without its hold", "hold_id", capture({ holdId: "" })],
  ["a post that expires", "expires_at", transfer({ expiresAt: new Date() })],
  ["an expiry that is no time", "expires_at", transfer({ kind: TransferKind.HOLD, expiresAt: new Date(Number.NaN) })],
  ["a time before the house", "effective_at", transfer({ effectiveAt: new Date("1970-01-01T00:00:00Z") })],
  ["a time in the far future", "effective_at", transfer({ effectiveAt: new Date("9999-01-01T00:00:00Z") })],
];
for (const [name, field, wrong] of WRONG) {
  test(`read post: ${name} is refused naming ${field}`, () => {
    assert.equal(fieldOf([groupOf([transfer({ id: idOf("first") }), wrong])]), `groups.0.transfers.1.${field}`);
  });
}

test("read post: what is wrong with a group is refused naming its field", () => {
  assert.equal(fieldOf([]), "groups");
  assert.equal(fieldOf([groupOf([transfer()], { book: Book.UNSPECIFIED })]), "groups.0.book");
  assert.equal(fieldOf([groupOf([transfer()], { assetId: "" })]), "groups.0.asset_id");
  assert.equal(
    fieldOf([groupOf([transfer()]), groupOf([transfer()], { operationId: "a b" })]),
    "groups.1.operation_id",
  );
  assert.equal(fieldOf([groupOf([])]), "groups.0.transfers");
  assert.equal(fieldOf([groupOf([transfer(), transfer()])]), "groups.0.transfers.1.id");
});

test("read post: 64 transfers make a group and 1,000 a request, not one more", () => {
  const many = (count: number, from: number) =>
    Array.from({ length: count }, (_, index) => transfer({ id: idOf(`t${from + index}`) }));
  assert.equal(fieldOf([groupOf(many(MAX_GROUP, 0))]), undefined);
  assert.equal(fieldOf([groupOf(many(MAX_GROUP + 1, 0))]), "groups.0.transfers");
  const groups = Array.from({ length: MAX_POST / 50 }, (_, index) => groupOf(many(50, index * 50)));
  assert.equal(fieldOf(groups), undefined);
  assert.equal(fieldOf([...groups, groupOf([transfer()])]), "groups");
});

test("write post: every result has its own word on the wire", () => {
  const answers = RESULTS.map((result) => ({ result, state: null, recorded_us: null }));
  const written = writePost([{ accepted: false, transfers: answers }]);
  const words = written.groups[0]?.transfers.map((answer) => answer.result) ?? [];
  assert.equal(new Set(words).size, RESULTS.length);
  assert.equal(words.length, Object.keys(TransferResult).length - 1);
  assert.ok(!words.includes(TransferResult.UNSPECIFIED));
});

test("write post: the state and the time of what stands, to the millisecond", () => {
  const stands = { result: "exists", state: "captured", recorded_us: 1_795_259_471_912_999 } as const;
  assert.deepEqual(writePost([{ accepted: true, transfers: [stands] }]).groups[0]?.transfers[0], {
    result: TransferResult.EXISTS,
    state: TransferState.CAPTURED,
    recordedAt: new Date(1_795_259_471_912),
  });
});

test("chart: a code tells its side, its owner and whether it may be overdrawn; anything else is no code", () => {
  const told = (code: string) => {
    const { normal_side, no_overdraft, owner, platform_id } = chartOf(code) ?? assert.fail(code);
    return [normal_side, no_overdraft, owner, platform_id];
  };
  assert.deepEqual(told("merchant:acct_1:plt_a"), ["credit", true, "acct_1", "plt_a"]);
  assert.deepEqual(told("receivable:acct_1:plt_a"), ["debit", false, "acct_1", "plt_a"]);
  assert.deepEqual(told("pot:ton_1"), ["credit", true, null, null]);
  assert.deepEqual(told("float:plt_a"), ["debit", false, null, "plt_a"]);
  assert.deepEqual(told("interplatform:plt_a"), ["credit", false, null, "plt_a"]);
  assert.deepEqual(told("suspense:plt_a"), ["credit", false, null, "plt_a"]);
  assert.deepEqual(told("costs:plt_a"), ["debit", false, null, "plt_a"]);
  assert.deepEqual(told(FEES), ["credit", false, null, null]);
  for (const code of [
    "",
    "fees:x",
    "merchant:a",
    "merchant::p",
    "merchant:a:p:x",
    "merchant:a b:p",
    "float:",
    "toString",
    "cash",
  ]) {
    assert.equal(chartOf(code), null, code);
  }
  assert.equal(writeSide("debit"), NormalSide.DEBIT);
});
