// What accounts asks of the ledger: opening accounts, the totals of a merchant, sandbox money. Every call may be repeated.

import { deriveId, deriveUuid } from "@cauri/money/ids";
import type { Mode } from "@cauri/money/mode";
import { isRefusal } from "@cauri/money/refusal";
import { Book, type LedgerServiceService, TransferKind, TransferResult } from "@cauri/proto/ts/cauri/ledger/v1/ledger";
import type { Promisified } from "@cauri/rpc/client";
import { floatCode, merchantCode, type Opening } from "./opening.ts";

export type Ledger = Promisified<LedgerServiceService>;

export type Funding = {
  readonly account_id: string;
  readonly platform_id: string;
  readonly asset_id: string;
  readonly mode: Mode;
  readonly amount_minor: bigint;
};

/** A ledger that doesn't answer must not hold an operator's command until its deadline. */
const CALL_TIMEOUT_MS = 4_000;

const BOOKS = { test: Book.TEST, live: Book.LIVE } as const satisfies { readonly [mode in Mode]: Book };

export async function openAccounts(ledger: Ledger, openings: readonly Opening[]): Promise<void> {
  const accounts = openings.map(({ code, asset_id, book }) => ({ code, assetId: asset_id, book: BOOKS[book] }));
  const answer = await ledger.openAccounts({ accounts }, { timeout_ms: CALL_TIMEOUT_MS });
  // The codes are ours: a refusal means that the two rooms disagree about the chart of accounts.
  if (isRefusal(answer)) throw new Error(`the ledger refused to open accounts: ${answer.message}`);
}

/** Whether a merchant has nothing in a book: neither money nor anything set aside, on whatever platform. */
export async function isEmpty(ledger: Ledger, account_id: string, mode: Mode): Promise<boolean> {
  const totals = await ledger.getMerchantTotals(
    { accountId: account_id, book: BOOKS[mode] },
    { timeout_ms: CALL_TIMEOUT_MS },
  );
  if (isRefusal(totals)) throw new Error(`the ledger refused the totals of ${account_id}: ${totals.message}`);
  return totals.postedMinor === 0n && totals.pendingMinor === 0n;
}

/**
 * Posts float -> merchant. Each request is new money, but the edge repeats one that a restart cut off: the ids follow
 * from the request and what it asks, so that the repeat posts nothing more. "not_open": the ledger accounts don't stand yet.
 */
export async function fund(ledger: Ledger, request_id: string, asked: Funding): Promise<"ok" | "not_open"> {
  const { account_id, platform_id, asset_id, mode, amount_minor } = asked;
  const step = ["fund", account_id, platform_id, asset_id, mode, amount_minor].join("/");
  const transfer = {
    id: deriveUuid(request_id, step),
    kind: TransferKind.POST,
    debitCode: floatCode(platform_id),
    creditCode: merchantCode(account_id, platform_id),
    amountMinor: amount_minor,
    holdId: "",
    expiresAt: undefined,
    effectiveAt: undefined,
  };
  const operationId = deriveId("req", request_id, step);
  const group = { book: BOOKS[mode], assetId: asset_id, operationId, transfers: [transfer] };
  const answer = await ledger.post({ groups: [group] }, { timeout_ms: CALL_TIMEOUT_MS });
  if (isRefusal(answer)) throw new Error(`the ledger refused a sandbox funding: ${answer.message}`);
  const [posted] = answer.groups;
  if (posted?.accepted) return "ok";
  const result = posted?.transfers[0]?.result;
  if (result === TransferResult.ACCOUNT_UNKNOWN) return "not_open";
  throw new Error(`the ledger answered a sandbox funding with result ${result}`);
}

/** What a merchant can use now on one platform. */
export async function available(ledger: Ledger, asked: Omit<Funding, "amount_minor">): Promise<bigint> {
  const code = merchantCode(asked.account_id, asked.platform_id);
  const wanted = { code, assetId: asked.asset_id, book: BOOKS[asked.mode] };
  const answer = await ledger.getAccounts({ accounts: [wanted] }, { timeout_ms: CALL_TIMEOUT_MS });
  if (isRefusal(answer)) throw new Error(`the ledger refused to show ${code}: ${answer.message}`);
  const [account] = answer.accounts;
  if (account === undefined) throw new Error(`the ledger does not know ${code} after a posting to it`);
  return account.creditsPostedMinor - account.debitsPostedMinor - account.debitsPendingMinor;
}
