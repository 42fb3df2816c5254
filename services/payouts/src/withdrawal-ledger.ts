// The ledger as withdrawals ask it: the same questions as all that goes out, under their own postings. People approve few of
// them, so each has a call of its own.

import type { OutgoingLedger } from "@cauri/events/outgoing-ledger";
import type { Mode } from "@cauri/money/mode";
import { suspenseAccounts, suspenseGroup } from "@cauri/money/outgoing-postings";
import { merchantCode } from "@cauri/money/posting";
import { isRefusal } from "@cauri/money/refusal";
import { bookOf, holdVerdict, type LedgerClient, postGroups, postSuspense, verdictOf } from "@cauri/rpc/posting";
import type { Withdrawal } from "./withdrawal.ts";
import { approvalGroup, withdrawalGroup } from "./withdrawal-postings.ts";

/** A look that the ledger does not answer must leave a creation the time to say so. */
const LOOK_TIMEOUT_MS = 2_500;

type Place = {
  readonly account: string;
  readonly mode: Mode;
  readonly platform_id: string;
  readonly asset_id: string;
};

export type WithdrawalLedger = OutgoingLedger & {
  /** What a merchant can use now on a platform, in minor units. */
  available(place: Place): Promise<bigint>;
};

export function openWithdrawalLedger(client: LedgerClient, spend: OutgoingLedger["spend"]): WithdrawalLedger {
  return {
    spend,
    async reserve(withdrawal: Withdrawal) {
      const answer = await spend(withdrawal, approvalGroup(withdrawal));
      return answer === "insufficient_funds" ? answer : (holdVerdict(answer) ?? "stands");
    },
    async post(withdrawal: Withdrawal, step) {
      const group = withdrawalGroup(withdrawal, step);
      if (group === null) throw new Error(`withdrawal ${withdrawal.id} has no step ${step}`);
      return verdictOf(withdrawal, [group], await postGroups(client, withdrawal, [group]));
    },
    postSuspense: (withdrawal, mispaid) =>
      postSuspense(client, withdrawal, suspenseGroup(withdrawal, mispaid), suspenseAccounts(withdrawal)),
    async available({ account, mode, platform_id, asset_id }) {
      const wanted = { code: merchantCode(account, platform_id), assetId: asset_id, book: bookOf(mode) };
      const answer = await client.getAccounts({ accounts: [wanted] }, { timeout_ms: LOOK_TIMEOUT_MS });
      if (isRefusal(answer)) throw new Error(`ledger refused to show ${wanted.code}: ${answer.refused}`);
      const [stands] = answer.accounts;
      // Accounts says that the place is open only once they stand.
      if (stands === undefined) throw new Error(`ledger does not know ${wanted.code}`);
      return stands.creditsPostedMinor - stands.debitsPostedMinor - stands.debitsPendingMinor;
    },
  };
}
