// The nouns of the books, as values: accounts and their balances, orders to transfer, what is known of an id, holds,
// answers. Amounts are bigint minor units; the time of the books is in microseconds, times that callers name in milliseconds.

import type { NormalSide } from "./chart.ts";

/** PostgreSQL's bigint: posted and pending of one side together never exceed it. */
export const MAX_BALANCE = 2n ** 63n - 1n;

export type Book = "live" | "test";

/** One asset in one book: no group leaves it. */
export type Lane = { readonly lane_id: number; readonly asset_id: string; readonly book: Book };

export type Balances = {
  readonly debits_pending: bigint;
  readonly debits_posted: bigint;
  readonly credits_pending: bigint;
  readonly credits_posted: bigint;
};

export const ZERO: Balances = { debits_pending: 0n, debits_posted: 0n, credits_pending: 0n, credits_posted: 0n };

export type Account = {
  readonly account_id: number;
  readonly code: string;
  readonly normal_side: NormalSide;
  readonly no_overdraft: boolean;
  readonly balances: Balances;
};

/** What callers may ask for; the ledger itself adds `expire` when a hold's time is over. */
export type OrderKind = "post" | "hold" | "capture" | "release";
export type TransferKind = OrderKind | "expire";

/** A transfer as asked for. Of a capture or release the codes may be null: they are those of its hold. */
export type TransferOrder = {
  readonly id: string;
  readonly kind: OrderKind;
  readonly debit_code: string | null;
  readonly credit_code: string | null;
  /** 0 in a release, and in a capture of the whole hold. */
  readonly amount: bigint;
  readonly hold_id: string | null;
  readonly expires_ms: number | null;
  readonly effective_ms: number | null;
};

/** Transfers accepted together or not at all, applied in this order: a later one sees the earlier ones. */
export type GroupOrder = {
  readonly asset_id: string;
  readonly book: Book;
  readonly operation_id: string;
  readonly transfers: readonly TransferOrder[];
};

/** The fields of a transfer once accounts and amount are known; they never change. */
export type TransferFields = {
  readonly lane_id: number;
  readonly kind: TransferKind;
  readonly debit_id: number;
  readonly credit_id: number;
  readonly amount: bigint;
  readonly hold_id: string | null;
  readonly expires_ms: number | null;
  readonly effective_ms: number | null;
  readonly operation_id: string;
};

export type HoldState = "held" | "captured" | "released" | "expired";

export type Hold = {
  readonly hold_id: string;
  readonly lane: Lane;
  readonly debit_id: number;
  readonly credit_id: number;
  readonly amount: bigint;
  readonly expires_ms: number | null;
  readonly state: HoldState;
  /** What a capture moved; the rest was released. */
  readonly captured: bigint;
  /** The operation that posted it: its expiry is booked under the same. */
  readonly operation_id: string;
};

/** Refusals that are answered the same for ever: a retry after one of them is a new operation with new ids. */
export const REMEMBERED = [
  "hold_already_captured",
  "hold_already_released",
  "hold_already_expired",
  "exceeds_hold",
  "insufficient_funds",
  "balance_overflow",
] as const;

export type Remembered = (typeof REMEMBERED)[number];

/** Answers to one transfer, in the order of their precedence. */
export const RESULTS = [
  "exists",
  "exists_differently",
  "account_unknown",
  "asset_mismatch",
  "book_mismatch",
  "hold_unknown",
  ...REMEMBERED,
  "group_refused",
  "ok",
] as const;

export type Result = (typeof RESULTS)[number];

/** `posted`, or what became of the hold: of the hold itself, and of the transfer that captured or released it. */
export type TransferState = "posted" | HoldState;

export type TransferAnswer = {
  readonly result: Result;
  /** Of a transfer that stands. */
  readonly state: TransferState | null;
  /** When the transfer or its remembered refusal was recorded. */
  readonly recorded_us: number | null;
};

export type GroupAnswer = { readonly accepted: boolean; readonly transfers: readonly TransferAnswer[] };

/** What the books already say about an id: a transfer that stands, or a refusal that is remembered. */
export type Known = {
  readonly fields: TransferFields;
  readonly refused: Remembered | null;
  readonly recorded_us: number;
};

export function isRemembered(result: Result): result is Remembered {
  return (REMEMBERED as readonly Result[]).includes(result);
}

/** What an account can still spend; what is set aside counts as gone. */
export function availableOf(side: NormalSide, balances: Balances): bigint {
  return side === "credit"
    ? balances.credits_posted - balances.debits_posted - balances.debits_pending
    : balances.debits_posted - balances.credits_posted - balances.credits_pending;
}
