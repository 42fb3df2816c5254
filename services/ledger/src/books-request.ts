// Reading the books, in and out: what was asked becomes values or a refusal that names the field, rows become messages.

import { type Refusal, refuseField } from "@cauri/money/refusal";
import {
  type Archive,
  type BookAccount,
  type BookBalances,
  type BookedTransfer,
  type ClearingAccount,
  type Entry,
  TimeBasis,
  type TrialLane as TrialLaneMessage,
} from "@cauri/proto/ts/cauri/ledger/v1/books";
import {
  Book as BookWord,
  TransferKind as KindWord,
  TransferState as StateWord,
  TransferResult,
} from "@cauri/proto/ts/cauri/ledger/v1/ledger";
import type { AccountName } from "./account-store.ts";
import type { ArchiveRow } from "./archive-store.ts";
import { availableOf, type Balances, type TransferKind, ZERO } from "./books.ts";
import { chartOf, type NormalSide } from "./chart.ts";
import type { Basis, Before, FoundAccount, Movement, Stretch } from "./past-store.ts";
import { checkAsset, checkTime, RESULTS, readBook, STATES, UUID, writeBook, writeSide } from "./request.ts";
import type { BookedRow } from "./transfer-store.ts";
import type { ClearingRow, LaneFilter, TrialLane } from "./trial-store.ts";

const KINDS: Readonly<Record<TransferKind, KindWord>> = {
  post: KindWord.POST,
  hold: KindWord.HOLD,
  capture: KindWord.CAPTURE,
  release: KindWord.RELEASE,
  expire: KindWord.EXPIRE,
};

/** Messages tell whole milliseconds, so "as of T" ends with the millisecond that T names. */
const MILLISECOND = 1;
const DAY_MS = 86_400_000;

export function readName(request: {
  readonly code: string;
  readonly assetId: string;
  readonly book: BookWord;
}): AccountName | Refusal {
  if (chartOf(request.code) === null) return refuseField("code", "not a code of the chart of accounts");
  const wrong = checkAsset(request.assetId, "asset_id");
  if (wrong !== null) return wrong;
  const book = readBook(request.book, "book");
  return typeof book === "string" ? { code: request.code, asset_id: request.assetId, book } : book;
}

/** Null: now. */
export function readBound(at: Date | undefined, word: TimeBasis): Before | null | Refusal {
  const basis = readBasis(word);
  if (typeof basis !== "string") return basis;
  if (at === undefined) {
    return word === TimeBasis.EFFECTIVE ? refuseField("at", "is required where the effective time counts") : null;
  }
  return checkTime(at, "at") ?? { before: new Date(at.getTime() + MILLISECOND), basis };
}

export function readStretch(request: {
  readonly from: Date | undefined;
  readonly to: Date | undefined;
  readonly basis: TimeBasis;
}): Stretch | Refusal {
  const { from, to } = request;
  const basis = readBasis(request.basis);
  if (typeof basis !== "string") return basis;
  if (from === undefined) return refuseField("from", "is required");
  if (to === undefined) return refuseField("to", "is required");
  const wrong = checkTime(from, "from") ?? checkTime(to, "to");
  if (wrong !== null) return wrong;
  return from.getTime() < to.getTime() ? { from, to, basis } : refuseField("to", "must be after from");
}

/**
 * Of months that were taken away the balances at their ends are here by recorded time, and those at the ends of days by
 * effective time; whatever lies between is in their files alone.
 */
export function checkArchived({ before, basis }: Before, archived_before: Date | null): Refusal | null {
  if (archived_before === null || before >= archived_before) return null;
  const midnight = before.getTime() % DAY_MS === 0;
  if (midnight && (basis === "effective" || before.getUTCDate() === 1)) return null;
  const end = basis === "effective" ? "day" : "month";
  return refuseField(
    "at",
    `before ${archived_before.toISOString()} only the last millisecond of a ${end} is not archived`,
  );
}

export function checkStretch({ from }: Stretch, archived_before: Date | null): Refusal | null {
  if (archived_before === null || from >= archived_before) return null;
  return refuseField("from", `what was recorded before ${archived_before.toISOString()} is in archived months alone`);
}

export function readLimit(limit: number | undefined, bounds: { usual: number; most: number }): number | Refusal {
  const { usual, most } = bounds;
  if (limit === undefined) return usual;
  return limit >= 1 && limit <= most ? limit : refuseField("limit", `must be from 1 to ${most}`);
}

export function readLaneFilter(request: {
  readonly assetId?: string | undefined;
  readonly book: BookWord;
}): LaneFilter | Refusal {
  const asset_id = request.assetId || null;
  const wrong = asset_id === null ? null : checkAsset(asset_id, "asset_id");
  if (wrong !== null) return wrong;
  if (request.book === BookWord.UNSPECIFIED) return { asset_id, book: null };
  const book = readBook(request.book, "book");
  return typeof book === "string" ? { asset_id, book } : book;
}

export function readUuid(text: string, field: string): string | Refusal {
  return UUID.test(text) ? text : refuseField(field, "not a UUID in lower case");
}

export function writeBasis(basis: Basis): TimeBasis {
  return basis === "effective" ? TimeBasis.EFFECTIVE : TimeBasis.RECORDED;
}

export function writeBalances(side: NormalSide, balances: Balances): BookBalances {
  const posted = balances.credits_posted - balances.debits_posted;
  return {
    debitsPendingMinor: balances.debits_pending,
    debitsPostedMinor: balances.debits_posted,
    creditsPendingMinor: balances.credits_pending,
    creditsPostedMinor: balances.credits_posted,
    balanceMinor: side === "credit" ? posted : -posted,
    availableMinor: availableOf(side, balances),
  };
}

export function writeArchive({ anchors, ...archive }: ArchiveRow): Archive {
  return {
    ...{ month: archive.month, file: archive.file, sha256: archive.sha256.toString("hex"), bytes: archive.bytes },
    ...{ writtenAt: archive.written_at, removedAt: archive.removed_at ?? undefined },
    anchors: anchors.map(({ asset_id, book, sequence, hash, transfers }) => ({
      ...{ assetId: asset_id, book: writeBook(book), batch: sequence, hash: hash.toString("hex"), transfers },
    })),
  };
}

export function writeBookAccount(
  account: FoundAccount,
  balances: Balances,
  at: Date | undefined,
  basis: Basis | null,
): BookAccount {
  return {
    code: account.code,
    assetId: account.asset_id,
    book: writeBook(account.book),
    normalSide: writeSide(account.normal_side),
    noOverdraft: account.no_overdraft,
    balances: writeBalances(account.normal_side, balances),
    at,
    basis: writeBasis(basis ?? "recorded"),
    openedAt: account.opened_at,
  };
}

export function writeEntry({ normal_side }: FoundAccount, movement: Movement, after: Balances): Entry {
  const { change } = movement;
  return {
    transferId: movement.transfer_id,
    kind: KINDS[movement.kind],
    counterpartyCode: movement.counterparty_code,
    operationId: movement.operation_id,
    groupId: movement.group_id,
    recordedAt: movement.recorded_at,
    effectiveAt: movement.effective_at,
    debitsPendingMinor: change.debits_pending,
    debitsPostedMinor: change.debits_posted,
    creditsPendingMinor: change.credits_pending,
    creditsPostedMinor: change.credits_posted,
    after: writeBalances(normal_side, after),
  };
}

export function writeBooked(row: BookedRow): BookedTransfer {
  return {
    transferId: row.transfer_id,
    assetId: row.asset_id,
    book: writeBook(row.book),
    kind: KINDS[row.kind],
    debitCode: row.debit_code,
    creditCode: row.credit_code,
    amountMinor: row.amount,
    holdId: row.hold_id ?? undefined,
    expiresAt: row.expires_at ?? undefined,
    effectiveAt: row.effective_at ?? undefined,
    recordedAt: row.recorded_at,
    operationId: row.operation_id,
    groupId: row.group_id ?? undefined,
    batch: row.sequence,
    position: row.position,
    state: row.state === null ? StateWord.UNSPECIFIED : STATES[row.state],
    refused: row.refused === null ? TransferResult.UNSPECIFIED : RESULTS[row.refused],
  };
}

export function writeTrialLane({ asset_id, book, lines }: TrialLane): TrialLaneMessage {
  const sum = (name: keyof Balances) => lines.reduce((total, line) => total + line[name], ZERO[name]);
  const totals = {
    debitsPostedMinor: sum("debits_posted"),
    creditsPostedMinor: sum("credits_posted"),
    debitsPendingMinor: sum("debits_pending"),
    creditsPendingMinor: sum("credits_pending"),
  };
  return {
    assetId: asset_id,
    book: writeBook(book),
    lines: lines.map((line) => ({
      kind: line.kind,
      platformId: line.platform_id ?? undefined,
      accounts: line.accounts,
      balances: writeBalances(line.normal_side, line),
      normalSide: writeSide(line.normal_side),
    })),
    ...totals,
    balanced:
      totals.debitsPostedMinor === totals.creditsPostedMinor &&
      totals.debitsPendingMinor === totals.creditsPendingMinor,
  };
}

export function writeClearing(row: ClearingRow): ClearingAccount {
  return {
    code: row.code,
    assetId: row.asset_id,
    book: writeBook(row.book),
    balances: writeBalances(row.normal_side, row),
    oldestTransferId: row.oldest_transfer_id,
    oldestOperationId: row.oldest_operation_id,
    oldestRecordedAt: row.oldest_recorded_at,
  };
}

function readBasis(word: TimeBasis): Basis | Refusal {
  if (word === TimeBasis.EFFECTIVE) return "effective";
  if (word === TimeBasis.RECORDED || word === TimeBasis.UNSPECIFIED) return "recorded";
  return refuseField("basis", "must be recorded or effective");
}
