// Posts the ledger steps of payments and reads the judge's verdict. Posting a step again changes nothing: the ids follow
// from the payment.

import type { Verdict } from "@cauri/money/posting";
import {
  LEDGER_TIMEOUT_MS,
  type LedgerClient,
  type PostingOrder,
  postAll,
  postSuspense,
  verdictOf,
} from "@cauri/rpc/posting";
import { coalesce } from "@cauri/store/coalescer";
import type { LedgerStep, Payment } from "./payment.ts";
import { groupsOf, type Mispaid, suspenseAccounts, suspenseGroup } from "./postings.ts";

/** Steps of one call, how many may wait for the next one, and how many calls are under way: one decided, one booked. */
const MAX_BATCH = 100;
const MAX_WAITING = 2_000;
const CALLS = 2;

export type Ledger = {
  post(payment: Payment, step: Exclude<LedgerStep, "post_suspense">): Promise<Verdict>;
  /** Books money that came in under a payment's name without being that payment; false: another such sum is booked. */
  postSuspense(payment: Payment, mispaid: Mispaid): Promise<boolean>;
};

export function openLedger(client: LedgerClient): Ledger {
  // Steps of the same moment share a call. A repeat is safe, so one that the ledger does not take fails alone.
  const send = coalesce({
    run: (orders: PostingOrder[]) => postAll(client, orders),
    max_batch: MAX_BATCH,
    max_waiting: MAX_WAITING,
    max_wait_ms: LEDGER_TIMEOUT_MS,
    retry_alone: true,
    lanes: CALLS,
  });
  return {
    async post(payment, step) {
      const groups = groupsOf(payment, step);
      return verdictOf(payment, groups, await send({ operation: payment, groups }));
    },
    postSuspense: (payment, mispaid) =>
      postSuspense(client, payment, suspenseGroup(payment, mispaid), suspenseAccounts(payment)),
  };
}
