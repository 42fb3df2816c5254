// For tests: short ways to write orders, and histories of groups for properties.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import type { Pool } from "@cauri/store/pool";
import fc from "fast-check";
import { openAccounts } from "./account-store.ts";
import { findLane } from "./batch-store.ts";
import type { Book, GroupOrder, OrderKind, TransferOrder } from "./books.ts";

export const FLOAT = "float:plt_a";
export const FEES = "fees";
export const MERCHANT = "merchant:acct_a:plt_a";
export const OTHER = "merchant:acct_b:plt_a";
export const CODES = [FLOAT, FEES, MERCHANT, OTHER] as const;

/** The id of a transfer that a test calls by a word. */
export function idOf(word: string): string {
  const hex = createHash("sha256").update(word).digest("hex");
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20, 32)].join("-");
}

export function order(
  kind: OrderKind,
  word: string,
  debit_code: string | null,
  credit_code: string | null,
  amount: bigint,
  more: Partial<TransferOrder> = {},
): TransferOrder {
  const rest = { hold_id: null, expires_ms: null, effective_ms: null };
  return { id: idOf(word), kind, debit_code, credit_code, amount, ...rest, ...more };
}

export const post = (word: string, debit: string, credit: string, amount: bigint) =>
  order("post", word, debit, credit, amount);
export const hold = (word: string, debit: string, credit: string, amount: bigint, expires_ms: number | null = null) =>
  order("hold", word, debit, credit, amount, { expires_ms });
export const capture = (word: string, hold_word: string, amount = 0n) =>
  order("capture", word, null, null, amount, { hold_id: idOf(hold_word) });
export const release = (word: string, hold_word: string) =>
  order("release", word, null, null, 0n, { hold_id: idOf(hold_word) });

export function group(transfers: readonly TransferOrder[], more: Partial<GroupOrder> = {}): GroupOrder {
  return { asset_id: "ast_xof", book: "live", operation_id: "pay_1", transfers, ...more };
}

/** A group with ids of its own lane's: ids are global, and the words of tests are few. */
export function own(asset_id: string, transfers: readonly TransferOrder[]): GroupOrder {
  const id = (text: string) => idOf(`${asset_id}/${text}`);
  return group(
    transfers.map((one) => ({ ...one, id: id(one.id), hold_id: one.hold_id === null ? null : id(one.hold_id) })),
    { asset_id },
  );
}

/** Opens a live lane with the usual accounts and `more`; returns its number. */
export async function openLane(pool: Pool, asset_id: string, more: readonly string[] = []): Promise<number> {
  await openAccounts(
    pool,
    [...CODES, ...more].map((code) => ({ code, asset_id, book: "live" as const })),
  );
  return (await findLane(pool, asset_id, "live")) ?? assert.fail(`no lane of ${asset_id}`);
}

/** A batch of a history: groups of one lane, `after_ms` later than the batch before. */
export type Step = { readonly after_ms: number; readonly groups: readonly GroupOrder[] };

export const LANES: readonly { asset_id: string; book: Book }[] = [
  { asset_id: "ast_xof", book: "live" },
  { asset_id: "ast_xof", book: "test" },
  { asset_id: "ast_ghs", book: "live" },
];

/** Few ids, accounts and amounts, so that histories are full of repeats, conflicts, races for funds and dead holds. */
export function histories(options: { words: number; steps: number; start_ms: number }): fc.Arbitrary<Step[]> {
  const word = fc.integer({ min: 1, max: options.words }).map((n) => `w${n}`);
  const code = fc.constantFrom(...CODES, MERCHANT, MERCHANT, "merchant:acct_none:plt_a");
  const amount = fc.bigInt({ min: 1n, max: 6n });
  const instant = fc.integer({ min: 0, max: 40 }).map((ms) => options.start_ms + ms);
  const pair = fc.tuple(code, code).filter(([a, b]) => a !== b);
  const created = fc
    .tuple(fc.constantFrom("post" as const, "hold" as const), word, pair, amount, fc.option(instant, { freq: 2 }))
    .map(([kind, name, [debit, credit], sum, expires_ms]) =>
      order(kind, name, debit, credit, sum, { expires_ms: kind === "hold" ? expires_ms : null }),
    );
  const funding = fc.tuple(word, amount).map(([name, sum]) => post(name, FLOAT, MERCHANT, sum * 2n));
  const captured = fc
    .tuple(word, word, fc.option(amount, { freq: 2 }), fc.option(pair, { freq: 1, nil: [null, null] }))
    .map(([name, of, sum, [debit, credit]]) => order("capture", name, debit, credit, sum ?? 0n, { hold_id: idOf(of) }));
  const released = fc.tuple(word, word).map(([name, of]) => release(name, of));
  const transfers = fc.uniqueArray(fc.oneof(created, created, funding, captured, captured, released), {
    minLength: 1,
    maxLength: 4,
    selector: (one) => one.id,
  });
  const operation_id = fc.constantFrom("pay_1", "pay_1", "pay_1", "pay_2");
  const lane = fc.oneof(
    { weight: 6, arbitrary: fc.constant(LANES[0]) },
    { weight: 1, arbitrary: fc.constantFrom(...LANES) },
  );
  // Beside that chaos holds of their own words, one to a group, so that many of them stand and are ended.
  const few = fc.integer({ min: 1, max: 4 }).map((n) => `h${n}`);
  const held = fc
    .tuple(few, fc.constantFrom([FLOAT, MERCHANT], [MERCHANT, FEES], [FLOAT, OTHER]), amount, fc.option(instant))
    .map(([name, [debit = FLOAT, credit = FEES], sum, end]) => hold(name, debit, credit, sum, end));
  const ended = fc
    .tuple(fc.integer({ min: 1, max: 8 }), few, fc.option(amount), fc.boolean())
    .map(([n, of, sum, captures]) => (captures ? capture(`e${n}`, of, sum ?? 0n) : release(`e${n}`, of)));
  const single = fc.oneof(held, held, ended, ended, funding).map((one) => [one]);
  const groups = fc.array(fc.tuple(operation_id, fc.oneof(transfers, single)), { minLength: 1, maxLength: 4 });
  const step = fc
    .record({ after_ms: fc.integer({ min: 0, max: 8 }), lane, groups })
    .map(({ after_ms, lane: at, groups: of }) => ({
      after_ms,
      groups: of.map(([operation, orders]) => group(orders, { ...at, operation_id: operation })),
    }));
  return fc.array(step, { minLength: 1, maxLength: options.steps });
}
