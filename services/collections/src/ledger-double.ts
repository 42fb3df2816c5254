// The ledger's rules in memory, for the room's database tests: ids are for ever, a hold ends once, groups are all or
// nothing, a merchant sets aside no more than there is. It keeps every transfer, so that a test can read the books of one payment.

import { refuse } from "@cauri/money/refusal";
import {
  type Group,
  type LedgerServiceService,
  type Transfer,
  type TransferAnswer,
  TransferKind,
  TransferResult,
  TransferState,
} from "@cauri/proto/ts/cauri/ledger/v1/ledger";
import type { Handlers } from "@cauri/rpc/server";

type Stands = { readonly transfer: Transfer; readonly operation_id: string; state: TransferState };

export class LedgerDouble {
  readonly #stands = new Map<string, Stands>();
  readonly #refused = new Map<string, TransferResult>();
  /** Accounts that are not open. */
  readonly closed = new Set<string>();
  /** True: the next calls are not answered. */
  down = false;
  posts = 0;

  handlers(): Partial<Handlers<typeof LedgerServiceService>> {
    return {
      post: async ({ groups }) => {
        this.posts += 1;
        if (this.down) return refuse("temporarily_unavailable", "the ledger is down");
        return { groups: groups.map((group) => this.#postGroup(group)) };
      },
      openAccounts: async ({ accounts }) => {
        for (const { code, assetId } of accounts) this.closed.delete(`${code} ${assetId}`);
        return { opened: accounts.length };
      },
    };
  }

  /** What a merchant's account has: what came in less what is set aside or went out. */
  available(code: string): bigint {
    let sum = 0n;
    for (const { transfer, state } of this.#stands.values()) {
      const { kind, debitCode, creditCode, amountMinor } = transfer;
      const is_hold = kind === TransferKind.HOLD;
      if (!is_hold && kind !== TransferKind.POST) continue;
      if (debitCode === code && state !== TransferState.RELEASED) sum -= amountMinor;
      if (creditCode === code && (!is_hold || state === TransferState.CAPTURED)) sum += amountMinor;
    }
    return sum;
  }

  /** What the books hold of one payment, for the merchant and in suspense. */
  booksOf(operation_id: string): { available: bigint; pending: bigint; fees: bigint; suspense: bigint; holds: number } {
    const books = { available: 0n, pending: 0n, fees: 0n, suspense: 0n, holds: 0 };
    for (const { transfer, operation_id: of, state } of this.#stands.values()) {
      if (of !== operation_id) continue;
      if (transfer.kind === TransferKind.HOLD) {
        books.holds += 1;
        // Of a refund the hold goes the other way, out of the balance.
        const amount = transfer.debitCode.startsWith("merchant:") ? -transfer.amountMinor : transfer.amountMinor;
        if (state === TransferState.HELD) books.pending += amount;
        if (state === TransferState.CAPTURED) books.available += amount;
      }
      if (transfer.kind !== TransferKind.POST) continue;
      if (transfer.creditCode.startsWith("merchant:")) books.available += transfer.amountMinor;
      if (transfer.debitCode.startsWith("merchant:")) books.available -= transfer.amountMinor;
      if (transfer.creditCode === "fees") books.fees += transfer.amountMinor;
      if (transfer.creditCode.startsWith("suspense:")) books.suspense += transfer.amountMinor;
      if (transfer.debitCode.startsWith("suspense:")) books.suspense -= transfer.amountMinor;
    }
    return books;
  }

  #postGroup(group: Group): { accepted: boolean; transfers: TransferAnswer[] } {
    const results = group.transfers.map((transfer) => this.#judge(transfer, group.assetId));
    const accepted = results.every((result) => result === TransferResult.OK || result === TransferResult.EXISTS);
    for (const [index, transfer] of group.transfers.entries()) {
      const result = results[index];
      if (accepted && result === TransferResult.OK) this.#book(transfer, group.operationId);
      if (isRemembered(result)) this.#refused.set(transfer.id, result);
    }
    return {
      accepted,
      transfers: group.transfers.map((transfer, index) => ({
        result: results[index] ?? TransferResult.UNSPECIFIED,
        state: this.#stands.get(transfer.id)?.state ?? TransferState.UNSPECIFIED,
        recordedAt: undefined,
      })),
    };
  }

  #judge(transfer: Transfer, asset_id: string): TransferResult {
    const known = this.#stands.get(transfer.id);
    if (known !== undefined) {
      return same(known.transfer, transfer) ? TransferResult.EXISTS : TransferResult.EXISTS_DIFFERENTLY;
    }
    const refused = this.#refused.get(transfer.id);
    if (refused !== undefined) return refused;
    const codes = [transfer.debitCode, transfer.creditCode];
    if (codes.some((code) => this.closed.has(`${code} ${asset_id}`))) return TransferResult.ACCOUNT_UNKNOWN;
    if (transfer.holdId === "") {
      const is_short = transfer.kind === TransferKind.HOLD && transfer.debitCode.startsWith("merchant:");
      if (!is_short || this.available(transfer.debitCode) >= transfer.amountMinor) return TransferResult.OK;
      return TransferResult.INSUFFICIENT_FUNDS;
    }
    switch (this.#stands.get(transfer.holdId)?.state) {
      case undefined:
        return TransferResult.HOLD_UNKNOWN;
      case TransferState.CAPTURED:
        return TransferResult.HOLD_ALREADY_CAPTURED;
      case TransferState.RELEASED:
        return TransferResult.HOLD_ALREADY_RELEASED;
      default:
        return TransferResult.OK;
    }
  }

  #book(transfer: Transfer, operation_id: string): void {
    const state = transfer.kind === TransferKind.HOLD ? TransferState.HELD : TransferState.POSTED;
    this.#stands.set(transfer.id, { transfer, operation_id, state });
    const hold = this.#stands.get(transfer.holdId);
    if (hold === undefined) return;
    hold.state = transfer.kind === TransferKind.CAPTURE ? TransferState.CAPTURED : TransferState.RELEASED;
  }
}

function isRemembered(result: TransferResult | undefined): result is TransferResult {
  return (
    result === TransferResult.INSUFFICIENT_FUNDS ||
    result === TransferResult.HOLD_ALREADY_CAPTURED ||
    result === TransferResult.HOLD_ALREADY_RELEASED
  );
}

function same(a: Transfer, b: Transfer): boolean {
  return a.kind === b.kind && a.amountMinor === b.amountMinor && a.creditCode === b.creditCode && a.holdId === b.holdId;
}
