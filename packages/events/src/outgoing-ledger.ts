// Posts the ledger steps of operations that send money out and reads the judge's verdict. Posting a step again changes
// nothing: the ids follow from the operation.

import {
  groupFor,
  type OutgoingStep,
  reserveGroup,
  suspenseAccounts,
  suspenseGroup,
} from "@cauri/money/outgoing-postings";
import type { PostingGroup, Verdict } from "@cauri/money/posting";
import { type GroupAnswer, TransferResult } from "@cauri/proto/ts/cauri/ledger/v1/ledger";
import {
  type Booked,
  holdVerdict,
  type LedgerClient,
  openPoster,
  postSuspense,
  resultOf,
  resultWord,
  verdictOf,
} from "@cauri/rpc/posting";

/** Whose money goes out, and from where. */
export type Outgoer = Booked & {
  readonly platform_id: string;
  readonly asset_id: string;
  readonly amount_minor: bigint;
  readonly fee_minor: bigint;
};

export type OutgoingLedger = {
  /** Sets amount and fee aside, or tells that the balance is too low, or how the holds were ended before. */
  reserve(operation: Outgoer): Promise<Verdict | "insufficient_funds">;
  post(operation: Outgoer, step: OutgoingStep): Promise<Verdict>;
  /** Books money that left under an operation's name without being it; false: another such sum is booked. */
  postSuspense(operation: Outgoer, mispaid: { amount_minor: bigint; asset_id: string }): Promise<boolean>;
  /** Posts what takes from a balance; its answer, or that the balance is too low. */
  spend(operation: Booked, group: PostingGroup): Promise<GroupAnswer | "insufficient_funds">;
};

/** The accounts there are being opened, or the ledger cannot be had: the same request may pass later. */
class LedgerWaits extends Error {
  readonly unavailable = true;
}

export function openOutgoingLedger(client: LedgerClient): OutgoingLedger {
  const send = openPoster(client);
  const spend: OutgoingLedger["spend"] = async (operation, group) => {
    const [answer] = await send({ operation, groups: [group] });
    if (answer?.accepted === true) return answer;
    if (resultOf(answer) === TransferResult.INSUFFICIENT_FUNDS) return "insufficient_funds";
    const sentence = `ledger: money of ${operation.id} was not moved: ${resultWord(answer)}`;
    if (resultOf(answer) === TransferResult.ACCOUNT_UNKNOWN) throw new LedgerWaits(sentence);
    throw new Error(sentence);
  };
  return {
    spend,
    async reserve(operation) {
      const answer = await spend(operation, reserveGroup(operation));
      return answer === "insufficient_funds" ? answer : (holdVerdict(answer) ?? "stands");
    },
    async post(operation, step) {
      const groups = [groupFor(operation, step)];
      return verdictOf(operation, groups, await send({ operation, groups }));
    },
    postSuspense: (operation, mispaid) =>
      postSuspense(client, operation, suspenseGroup(operation, mispaid), suspenseAccounts(operation)),
  };
}
