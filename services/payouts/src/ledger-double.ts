// The ledger's rules in memory, for the room's database tests: ids are for ever, refusals are remembered, a hold ends once,
// groups are all or nothing, a merchant never goes below zero. A test reads the books of one operation from it.

import { refuse } from "@cauri/money/refusal";
import {
  type Group,
  type LedgerServiceService,
  NormalSide,
  type Transfer,
  type TransferAnswer,
  TransferKind,
  TransferResult,
  TransferState,
} from "@cauri/proto/ts/cauri/ledger/v1/ledger";
import type { Handlers } from "@cauri/rpc/server";

type Stands = { readonly transfer: Transfer; readonly operation_id: string; state: TransferState };

const GOOD: readonly TransferResult[] = [TransferResult.OK, TransferResult.EXISTS];
const REMEMBERED: readonly TransferResult[] = [
  TransferResult.INSUFFICIENT_FUNDS,
  TransferResult.HOLD_ALREADY_CAPTURED,
  TransferResult.HOLD_ALREADY_RELEASED,
];

export class LedgerDouble {
  readonly #stands = new Map<string, Stands>();
  readonly #refused = new Map<string, TransferResult>();
  /** What merchants were given before the test began, by account code. */
  readonly #funded = new Map<string, bigint>();
  /** True: calls are not answered. */
  down = false;

  handlers(): Partial<Handlers<typeof LedgerServiceService>> {
    return {
      post: async ({ groups }) => {
        if (this.down) return refuse("temporarily_unavailable", "the ledger is down");
        return { groups: groups.map((group) => this.#postGroup(group)) };
      },
      openAccounts: async ({ accounts }) => ({ opened: accounts.length }),
      getAccounts: async ({ accounts }) => ({
        accounts: accounts.map(({ code, assetId, book }) => ({
          code,
          assetId,
          book,
          normalSide: NormalSide.CREDIT,
          noOverdraft: code.startsWith("merchant:"),
          debitsPendingMinor: 0n,
          debitsPostedMinor: 0n,
          creditsPendingMinor: 0n,
          creditsPostedMinor: this.available(code),
          updatedAt: undefined,
        })),
      }),
    };
  }

  fund(code: string, amount_minor: bigint): void {
    this.#funded.set(code, (this.#funded.get(code) ?? 0n) + amount_minor);
  }

  /** What a merchant can use now: what stands less what is set aside. */
  available(code: string): bigint {
    let sum = this.#funded.get(code) ?? 0n;
    for (const { transfer, state } of this.#stands.values()) {
      if (transfer.kind === TransferKind.HOLD && transfer.debitCode === code && state !== TransferState.RELEASED) {
        sum -= transfer.amountMinor;
      }
      if (transfer.kind === TransferKind.HOLD && transfer.creditCode === code && state === TransferState.CAPTURED) {
        sum += transfer.amountMinor;
      }
      if (transfer.kind !== TransferKind.POST) continue;
      if (transfer.debitCode === code) sum -= transfer.amountMinor;
      if (transfer.creditCode === code) sum += transfer.amountMinor;
    }
    return sum;
  }

  /** What one operation has done to each account, and what it still holds; accounts that came out even are left out. */
  booksOf(operation_id: string): { readonly moved: Record<string, number>; readonly held: number } {
    const moved: Record<string, number> = {};
    let held = 0;
    const add = (code: string, amount: bigint) => {
      moved[code] = (moved[code] ?? 0) + Number(amount);
    };
    for (const { transfer, operation_id: of, state } of this.#stands.values()) {
      if (of !== operation_id) continue;
      if (state === TransferState.HELD) held += Number(transfer.amountMinor);
      const counts = transfer.kind === TransferKind.POST || state === TransferState.CAPTURED;
      if (!counts || transfer.holdId !== "") continue;
      add(transfer.debitCode, -transfer.amountMinor);
      add(transfer.creditCode, transfer.amountMinor);
    }
    return { moved: Object.fromEntries(Object.entries(moved).filter(([, sum]) => sum !== 0)), held };
  }

  #postGroup(group: Group): { accepted: boolean; transfers: TransferAnswer[] } {
    const spent = new Map<string, bigint>();
    const results = group.transfers.map((transfer) => this.#judge(transfer, spent));
    const accepted = results.every((result) => GOOD.includes(result));
    for (const [at, transfer] of group.transfers.entries()) {
      const result = results[at] ?? TransferResult.UNSPECIFIED;
      if (accepted && result === TransferResult.OK) this.#book(transfer, group.operationId);
      if (REMEMBERED.includes(result)) this.#refused.set(transfer.id, result);
    }
    const told = (result: TransferResult) =>
      !accepted && result === TransferResult.OK ? TransferResult.GROUP_REFUSED : result;
    return {
      accepted,
      transfers: group.transfers.map(({ id }, at) => ({
        result: told(results[at] ?? TransferResult.UNSPECIFIED),
        state: this.#stands.get(id)?.state ?? TransferState.UNSPECIFIED,
        recordedAt: undefined,
      })),
    };
  }

  #judge(transfer: Transfer, spent: Map<string, bigint>): TransferResult {
    const known = this.#stands.get(transfer.id);
    if (known !== undefined) {
      return same(known.transfer, transfer) ? TransferResult.EXISTS : TransferResult.EXISTS_DIFFERENTLY;
    }
    const refused = this.#refused.get(transfer.id);
    if (refused !== undefined) return refused;
    if (transfer.holdId !== "") return this.#judgeEnd(transfer.holdId);
    const { debitCode: code } = transfer;
    if (!code.startsWith("merchant:")) return TransferResult.OK;
    const wanted = (spent.get(code) ?? 0n) + transfer.amountMinor;
    spent.set(code, wanted);
    return wanted > this.available(code) ? TransferResult.INSUFFICIENT_FUNDS : TransferResult.OK;
  }

  #judgeEnd(hold_id: string): TransferResult {
    switch (this.#stands.get(hold_id)?.state) {
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

function same(a: Transfer, b: Transfer): boolean {
  return a.kind === b.kind && a.amountMinor === b.amountMinor && a.creditCode === b.creditCode && a.holdId === b.holdId;
}
