// The ledger's RPCs: decode, call, encode.

import { isRefusal, type Refusal, refuseField } from "@cauri/money/refusal";
import {
  type Balance,
  type LedgerAccount,
  LedgerServiceService,
  type OpenAccount,
} from "@cauri/proto/ts/cauri/ledger/v1/ledger";
import { type Service, service } from "@cauri/rpc/server";
import type { Pool } from "@cauri/store/pool";
import {
  type AccountName,
  openAccounts,
  type ReadAccount,
  readAccounts,
  readMerchantAccounts,
  readMerchantTotals,
} from "./account-store.ts";
import { chartOf } from "./chart.ts";
import type { Engine } from "./engine.ts";
import { checkAsset, readBook, readPost, writeBook, writePost, writeSide } from "./request.ts";
import { verify } from "./verify.ts";

/** Accounts in one request; accounts opens a merchant's for every platform and asset at once. */
const MAX_ACCOUNTS = 1_000;
const PER_PAGE = 25;
const MAX_PER_PAGE = 100;

export function ledgerService({ pool, engine }: { pool: Pool; engine: Engine }): Service {
  return service(LedgerServiceService, {
    listBalances: async ({ page = 1n, perPage = PER_PAGE }, { caller }) => {
      if (page < 1n) return refuseField("page", "must be at least 1");
      if (perPage < 1 || perPage > MAX_PER_PAGE) return refuseField("per_page", `must be from 1 to ${MAX_PER_PAGE}`);
      // A merchant has one account per platform and asset: the whole list is read, and a page cut from it.
      const accounts = await readMerchantAccounts(pool, caller.account, caller.mode);
      const end = Number(page) * perPage;
      const data = accounts.slice(end - perPage, end).map(writeBalance);
      return { data, page, perPage, total: BigInt(accounts.length), hasMore: accounts.length > end };
    },
    openAccounts: async (request) => {
      const names = readNames(request.accounts);
      return isRefusal(names) ? names : { opened: await openAccounts(pool, names) };
    },
    post: async (request) => {
      const groups = readPost(request);
      if (isRefusal(groups)) return groups;
      return writePost(await engine.post(groups));
    },
    getAccounts: async (request) => {
      const names = readNames(request.accounts);
      return isRefusal(names) ? names : { accounts: (await readAccounts(pool, names)).map(writeAccount) };
    },
    getMerchantTotals: async ({ accountId, book: word }) => {
      const book = readBook(word, "book");
      if (typeof book !== "string") return book;
      const { posted, pending } = await readMerchantTotals(pool, accountId, book);
      return { postedMinor: posted, pendingMinor: pending };
    },
    verify: async ({ resume }) => {
      const { transfers, entries, batches, problems, first_bad_batch } = await verify(pool, { resume });
      return {
        ...{ ok: problems.length === 0, transfers, entries, batches },
        problems: problems.map(({ sentence }) => sentence),
        firstBadBatch: first_bad_batch ?? undefined,
      };
    },
  });
}

function readNames(accounts: readonly OpenAccount[]): AccountName[] | Refusal {
  if (accounts.length > MAX_ACCOUNTS) return refuseField("accounts", `at most ${MAX_ACCOUNTS} accounts in one request`);
  const names: AccountName[] = [];
  for (const [index, account] of accounts.entries()) {
    const path = `accounts.${index}`;
    const book = readBook(account.book, `${path}.book`);
    if (typeof book !== "string") return book;
    const wrong = checkAsset(account.assetId, `${path}.asset_id`);
    if (wrong !== null) return wrong;
    if (chartOf(account.code) === null) return refuseField(`${path}.code`, "not a code of the chart of accounts");
    names.push({ code: account.code, asset_id: account.assetId, book });
  }
  return names;
}

function writeBalance(account: ReadAccount): Balance {
  return {
    assetId: account.asset_id,
    platformId: account.platform_id ?? "",
    availableMinor: account.credits_posted - account.debits_posted - account.debits_pending,
    reservedMinor: account.debits_pending,
    pendingMinor: account.credits_pending,
    updatedAt: account.updated_at,
  };
}

function writeAccount(account: ReadAccount): LedgerAccount {
  return {
    code: account.code,
    assetId: account.asset_id,
    book: writeBook(account.book),
    normalSide: writeSide(account.normal_side),
    noOverdraft: account.no_overdraft,
    debitsPendingMinor: account.debits_pending,
    debitsPostedMinor: account.debits_posted,
    creditsPendingMinor: account.credits_pending,
    creditsPostedMinor: account.credits_posted,
    updatedAt: account.updated_at,
  };
}
