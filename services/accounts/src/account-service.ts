// The RPCs of accounts: sign-up, KYB, closing, products and options. Decode, call, encode; no SQL, no rules.

import { hmacOfSecret, newSecret } from "@cauri/money/api-key";
import { newId } from "@cauri/money/ids";
import { isRefusal, type Refusal, refuse, refuseField } from "@cauri/money/refusal";
import type {
  Account as AccountMessage,
  CreateAccountRequest,
  GetAccountRequest,
  ListAccountsRequest,
  ListAccountsResponse,
  SetAccountRequest,
} from "@cauri/proto/ts/cauri/accounts/v1/accounts";
import { type Tx, transact } from "@cauri/store/pool";
import { type Account, type AccountCommand, checkSignUp, command, switched } from "./account.ts";
import {
  beginClosing,
  findAccount,
  insertAccount,
  listAccounts,
  lockAccount,
  moveAccount,
  setSwitches,
} from "./account-store.ts";
import { tellAccount, tellKey } from "./events.ts";
import type { House } from "./house.ts";
import { DEFAULT_SCOPES } from "./key.ts";
import { insertKey } from "./key-store.ts";
import { accountMessage } from "./messages.ts";
import { merchantOpenings } from "./opening.ts";
import { isWaiting, noteOpenings, placesForSignUp } from "./opening-store.ts";
import { decideClosing, openDue } from "./sweep.ts";
import { checkPage } from "./terms.ts";

const FIRST_KEY_NAME = "first key";

export const noSuchAccount = (): Refusal => refuse("not_found", "no such account");

/** Account, first key and the openings it needs stand in one transaction: there is no half of a sign-up. */
export async function createAccount(house: House, request: CreateAccountRequest): Promise<AccountMessage | Refusal> {
  const asked = checkSignUp(request);
  if (isRefusal(asked)) return asked;
  const account_id = newId("acct", house.clock());
  const key_id = newId("key", house.clock());
  const secret = newSecret("test");
  const hmac = hmacOfSecret(secret, house.pepper);
  const account = await transact(house.pool, async (tx) => {
    const places = await placesForSignUp(tx);
    const inserted = await insertAccount(tx, account_id, asked);
    await noteOpenings(tx, merchantOpenings(account_id, places));
    const key = { key_id, account_id, mode: "test", scopes: DEFAULT_SCOPES, name: FIRST_KEY_NAME, hmac } as const;
    await tellKey(tx, await insertKey(tx, key));
    return inserted;
  });
  house.wakeSweeper();
  return { ...accountMessage(account), firstKey: { keyId: key_id, secret } };
}

export async function getAccount(house: House, request: GetAccountRequest): Promise<AccountMessage | Refusal> {
  const account = await findAccount(house.pool, request.accountId);
  return account === null ? noSuchAccount() : accountMessage(account);
}

export async function listEveryAccount(
  house: House,
  request: ListAccountsRequest,
): Promise<ListAccountsResponse | Refusal> {
  const asked = checkPage(request.page, request.perPage);
  if (isRefusal(asked)) return asked;
  const { data, page, per_page, total, has_more } = await listAccounts(house.pool, asked);
  return { data: data.map(accountMessage), page, perPage: per_page, total, hasMore: has_more };
}

/** An account is never approved before its ledger accounts stand: a payment of its first second would find none. */
export async function approveAccount(house: House, request: GetAccountRequest): Promise<AccountMessage | Refusal> {
  const account = await findAccount(house.pool, request.accountId);
  if (account === null) return noSuchAccount();
  const next = command(account, "approve");
  if (isRefusal(next)) return next;
  await openDue(house, account.account_id);
  return obey(house, request.accountId, "approve", async (tx) =>
    (await isWaiting(tx, request.accountId))
      ? refuse("temporarily_unavailable", "the account's ledger accounts are still being opened", { retry_after_s: 1 })
      : null,
  );
}

export function suspendAccount(house: House, request: GetAccountRequest): Promise<AccountMessage | Refusal> {
  return obey(house, request.accountId, "suspend");
}

export function reinstateAccount(house: House, request: GetAccountRequest): Promise<AccountMessage | Refusal> {
  return obey(house, request.accountId, "reinstate");
}

/**
 * First the account's calls are refused, then the ledger is asked, then it is closed or given back; docs/decisions/0031
 * tells why in this order. A process that dies in between leaves the rest to the sweeper.
 */
export async function closeAccount(house: House, request: GetAccountRequest): Promise<AccountMessage | Refusal> {
  const account_id = request.accountId;
  const begun = await transact(house.pool, async (tx) => {
    const account = await lockAccount(tx, account_id);
    if (account === null) return noSuchAccount();
    const next = command(account, "close");
    if (isRefusal(next)) return next;
    if (account.closing_since === null) {
      await beginClosing(tx, account_id);
      await tellAccount(tx, account_id);
    }
    return account;
  });
  if (isRefusal(begun)) return begun;
  const decided = await decideClosing(house, account_id);
  return isRefusal(decided) ? decided : accountMessage(decided);
}

export async function setAccount(house: House, request: SetAccountRequest): Promise<AccountMessage | Refusal> {
  const account_id = request.accountId;
  if (request.isLive === undefined && request.products.length === 0 && request.options.length === 0) {
    return refuseField("is_live", "name at least one of is_live, products and options");
  }
  const answer = await transact(house.pool, async (tx) => {
    const account = await lockAccount(tx, account_id);
    if (account === null) return noSuchAccount();
    if (account.status === "closed") return refuse("precondition_failed", "the account is closed");
    const products = switched("products", account.products, request.products);
    if (isRefusal(products)) return products;
    const options = switched("options", account.options, request.options);
    if (isRefusal(options)) return options;
    await tellAccount(tx, account_id);
    return setSwitches(tx, account_id, { is_live: request.isLive ?? account.is_live, products, options });
  });
  return isRefusal(answer) ? answer : accountMessage(answer);
}

/** Carries out one command of the moves table under the account's row lock; `unless` may still refuse it there. */
async function obey(
  house: House,
  account_id: string,
  asked: AccountCommand,
  unless: (tx: Tx) => Promise<Refusal | null> = async () => null,
): Promise<AccountMessage | Refusal> {
  const answer = await transact(house.pool, async (tx): Promise<Account | Refusal> => {
    const account = await lockAccount(tx, account_id);
    if (account === null) return noSuchAccount();
    const next = command(account, asked);
    if (isRefusal(next)) return next;
    const refused = await unless(tx);
    if (refused !== null) return refused;
    await moveAccount(tx, account_id, account.status, next);
    await tellAccount(tx, account_id);
    return { ...account, status: next };
  });
  return isRefusal(answer) ? answer : accountMessage(answer);
}
