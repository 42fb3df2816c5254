// Post, in and out: the message as sent becomes orders or a refusal that names the field, answers become the message.
// Whatever passes here can be judged; nothing malformed reaches the engine.

import { type Refusal, refuse, refuseField } from "@cauri/money/refusal";
import {
  Book as BookWord,
  type Group,
  NormalSide as NormalSideWord,
  type PostRequest,
  type PostResponse,
  type Transfer,
  type TransferAnswer as TransferAnswerMessage,
  TransferKind,
  TransferResult,
  TransferState as TransferStateWord,
} from "@cauri/proto/ts/cauri/ledger/v1/ledger";
import type {
  Book,
  GroupAnswer,
  GroupOrder,
  OrderKind,
  Result,
  TransferAnswer,
  TransferOrder,
  TransferState,
} from "./books.ts";
import { isCode, NAME, type NormalSide } from "./chart.ts";

/** Bound one group's share of a batch, and one request's share of the queue. */
export const MAX_GROUP = 64;
export const MAX_POST = 1_000;

/** Lower case, so that one transfer has one spelling. */
export const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;
const OPERATION = /^[A-Za-z0-9_.:-]{1,100}$/;
/** Times outside of these years are mistakes of a unit; PostgreSQL could not even store the farthest. */
const EARLIEST_MS = Date.UTC(2000, 0, 1);
const LATEST_MS = Date.UTC(2200, 0, 1);

const KINDS: ReadonlyMap<TransferKind, OrderKind> = new Map([
  [TransferKind.POST, "post"],
  [TransferKind.HOLD, "hold"],
  [TransferKind.CAPTURE, "capture"],
  [TransferKind.RELEASE, "release"],
]);

const BOOKS: ReadonlyMap<BookWord, Book> = new Map([
  [BookWord.LIVE, "live"],
  [BookWord.TEST, "test"],
]);

export const RESULTS: Readonly<Record<Result, TransferResult>> = {
  exists: TransferResult.EXISTS,
  exists_differently: TransferResult.EXISTS_DIFFERENTLY,
  account_unknown: TransferResult.ACCOUNT_UNKNOWN,
  asset_mismatch: TransferResult.ASSET_MISMATCH,
  book_mismatch: TransferResult.BOOK_MISMATCH,
  hold_unknown: TransferResult.HOLD_UNKNOWN,
  hold_already_captured: TransferResult.HOLD_ALREADY_CAPTURED,
  hold_already_released: TransferResult.HOLD_ALREADY_RELEASED,
  hold_already_expired: TransferResult.HOLD_ALREADY_EXPIRED,
  exceeds_hold: TransferResult.EXCEEDS_HOLD,
  insufficient_funds: TransferResult.INSUFFICIENT_FUNDS,
  balance_overflow: TransferResult.BALANCE_OVERFLOW,
  group_refused: TransferResult.GROUP_REFUSED,
  ok: TransferResult.OK,
};

export const STATES: Readonly<Record<TransferState, TransferStateWord>> = {
  posted: TransferStateWord.POSTED,
  held: TransferStateWord.HELD,
  captured: TransferStateWord.CAPTURED,
  released: TransferStateWord.RELEASED,
  expired: TransferStateWord.EXPIRED,
};

/** The groups of a request in its order, or the refusal of the first field that is wrong. */
export function readPost(request: PostRequest): readonly GroupOrder[] | Refusal {
  const size = request.groups.reduce((sum, group) => sum + group.transfers.length, 0);
  if (size > MAX_POST) return refuseField("groups", `at most ${MAX_POST} transfers in one request, not ${size}`);
  const orders: GroupOrder[] = [];
  for (const [index, group] of request.groups.entries()) {
    const order = readGroup(group, `groups.${index}`);
    if ("refused" in order) return order;
    orders.push(order);
  }
  return orders.length > 0 ? orders : refuseField("groups", "at least one group");
}

export function writePost(answers: readonly GroupAnswer[]): PostResponse {
  return {
    groups: answers.map(({ accepted, transfers }) => ({ accepted, transfers: transfers.map(writeAnswer) })),
  };
}

/** `live` or `test`, or the refusal of the field. */
export function readBook(book: BookWord, field: string): Book | Refusal {
  return BOOKS.get(book) ?? refuseField(field, "must be live or test");
}

export function writeBook(book: Book): BookWord {
  return book === "live" ? BookWord.LIVE : BookWord.TEST;
}

export function writeSide(side: NormalSide): NormalSideWord {
  return side === "debit" ? NormalSideWord.DEBIT : NormalSideWord.CREDIT;
}

/** Says what is wrong with an asset's id, or null. */
export function checkAsset(asset_id: string, field: string): Refusal | null {
  return NAME.test(asset_id) ? null : refuseField(field, "not an asset id");
}

function readGroup(group: Group, path: string): GroupOrder | Refusal {
  const book = readBook(group.book, `${path}.book`);
  if (typeof book !== "string") return book;
  const wrongAsset = checkAsset(group.assetId, `${path}.asset_id`);
  if (wrongAsset !== null) return wrongAsset;
  if (!OPERATION.test(group.operationId)) return refuseField(`${path}.operation_id`, "not an operation id");
  if (group.transfers.length === 0) return refuseField(`${path}.transfers`, "at least one transfer");
  if (group.transfers.length > MAX_GROUP) {
    return refuseField(`${path}.transfers`, `at most ${MAX_GROUP} transfers in one group`);
  }
  const transfers: TransferOrder[] = [];
  const ids = new Set<string>();
  for (const [index, transfer] of group.transfers.entries()) {
    const order = readTransfer(transfer, `${path}.transfers.${index}`);
    if ("refused" in order) return order;
    if (ids.has(order.id)) return refuseField(`${path}.transfers.${index}.id`, "twice in one group");
    ids.add(order.id);
    transfers.push(order);
  }
  return { asset_id: group.assetId, book, operation_id: group.operationId, transfers };
}

function readTransfer(transfer: Transfer, path: string): TransferOrder | Refusal {
  const kind = KINDS.get(transfer.kind);
  if (!UUID.test(transfer.id)) return refuseField(`${path}.id`, "not a UUID in lower case");
  if (kind === undefined) return refuseField(`${path}.kind`, "must be post, hold, capture or release");
  const ends = kind === "capture" || kind === "release";
  const wrong =
    checkCode(transfer.debitCode, ends, `${path}.debit_code`) ??
    checkCode(transfer.creditCode, ends, `${path}.credit_code`) ??
    checkAmount(kind, transfer.amountMinor, `${path}.amount_minor`) ??
    checkHoldId(transfer.holdId, ends, `${path}.hold_id`) ??
    checkTime(transfer.expiresAt, `${path}.expires_at`) ??
    checkTime(transfer.effectiveAt, `${path}.effective_at`);
  if (wrong !== null) return wrong;
  if (transfer.debitCode !== "" && transfer.debitCode === transfer.creditCode) {
    return refuseField(`${path}.credit_code`, "the account debited is credited too");
  }
  if (transfer.expiresAt !== undefined && kind !== "hold") {
    return refuseField(`${path}.expires_at`, "only a hold expires");
  }
  return {
    id: transfer.id,
    kind,
    debit_code: transfer.debitCode || null,
    credit_code: transfer.creditCode || null,
    amount: transfer.amountMinor,
    hold_id: transfer.holdId || null,
    expires_ms: transfer.expiresAt?.getTime() ?? null,
    effective_ms: transfer.effectiveAt?.getTime() ?? null,
  };
}

function checkCode(code: string, optional: boolean, field: string): Refusal | null {
  if (code === "" && optional) return null;
  return isCode(code) ? null : refuseField(field, "not a code of the chart of accounts");
}

function checkAmount(kind: OrderKind, amount: bigint, field: string): Refusal | null {
  if (kind === "release")
    return amount === 0n ? null : refuseField(field, "a release has no amount: it frees the hold");
  if (amount < 0n) return refuseField(field, "must not be negative");
  if (amount === 0n && kind !== "capture") return refuseField(field, "must be more than zero; leave a leg of zero out");
  return null;
}

function checkHoldId(hold_id: string, required: boolean, field: string): Refusal | null {
  if (required) return UUID.test(hold_id) ? null : refuseField(field, "not a UUID in lower case");
  return hold_id === "" ? null : refuseField(field, "only a capture or release names a hold");
}

export function checkTime(time: Date | undefined, field: string): Refusal | null {
  if (time === undefined) return null;
  // Also false for a date that is none (NaN).
  const isSane = time.getTime() >= EARLIEST_MS && time.getTime() < LATEST_MS;
  return isSane ? null : refuse("invalid_request", "not a time between the years 2000 and 2200", { field });
}

function writeAnswer({ result, state, recorded_us }: TransferAnswer): TransferAnswerMessage {
  return {
    result: RESULTS[result],
    state: state === null ? TransferStateWord.UNSPECIFIED : STATES[state],
    recordedAt: recorded_us === null ? undefined : new Date(Math.floor(recorded_us / 1000)),
  };
}
