// Posts the ledger steps of payments and reads the judge's verdict. Posting a step again changes nothing: the ids follow
// from the payment.

import type { Verdict } from "@cauri/money/posting";
import { type LedgerClient, openPoster, postSuspense, verdictOf } from "@cauri/rpc/posting";
import type { LedgerStep, Payment } from "./payment.ts";
import { groupsOf, type Mispaid, suspenseAccounts, suspenseGroup } from "./postings.ts";

export type Ledger = {
  post(payment: Payment, step: Exclude<LedgerStep, "post_suspense" | "none">): Promise<Verdict>;
  /** Books money that came in under a payment's name without being that payment; false: another such sum is booked. */
  postSuspense(payment: Payment, mispaid: Mispaid): Promise<boolean>;
};

export function openLedger(client: LedgerClient): Ledger {
  const send = openPoster(client);
  return {
    async post(payment, step) {
      const groups = groupsOf(payment, step);
      return verdictOf(payment, groups, await send({ operation: payment, groups }));
    },
    postSuspense: (payment, mispaid) =>
      postSuspense(client, payment, suspenseGroup(payment, mispaid), suspenseAccounts(payment)),
  };
}
