// Posts the ledger steps of this room and reads the judge's verdict. Posting a step again changes nothing: the ids follow
// from the operation.

import type { PostingGroup, Verdict } from "@cauri/money/posting";
import type { GroupAnswer } from "@cauri/proto/ts/cauri/ledger/v1/ledger";
import { TransferResult } from "@cauri/proto/ts/cauri/ledger/v1/ledger";
import {
  type Booked,
  holdVerdict,
  LEDGER_TIMEOUT_MS,
  type LedgerClient,
  type PostingOrder,
  postAll,
  postSuspense,
  resultOf,
  resultWord,
  verdictOf,
} from "@cauri/rpc/posting";
import { coalesce } from "@cauri/store/coalescer";
import type { Movement } from "./movement.ts";
import type { Payout } from "./payout.ts";
import { groupFor, movementGroup, type PostedStep, reserveGroup, suspenseAccounts, suspenseGroup } from "./postings.ts";

/** Steps of one call, how many may wait for the next one, and how many calls are under way: one decided, one booked. */
const MAX_BATCH = 100;
const MAX_WAITING = 2_000;
const CALLS = 2;

export type Ledger = {
  /** Sets amount and fee aside, or tells that the balance is too low, or how the holds were ended before. */
  reserve(payout: Payout): Promise<Verdict | "insufficient_funds">;
  post(payout: Payout, step: PostedStep): Promise<Verdict>;
  /** Books money that left under a payout's name without being that payout; false: another such sum is booked. */
  postSuspense(payout: Payout, mispaid: { amount_minor: bigint; asset_id: string }): Promise<boolean>;
  /** Moves money inside the house. */
  move(movement: Movement): Promise<"moved" | "insufficient_funds">;
};

/** The accounts there are being opened, or the ledger cannot be had: the same request may pass later. */
class LedgerWaits extends Error {
  readonly unavailable = true;
}

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
  const spend = async (operation: Booked, group: PostingGroup): Promise<GroupAnswer | "insufficient_funds"> => {
    const [answer] = await send({ operation, groups: [group] });
    if (answer?.accepted === true) return answer;
    if (resultOf(answer) === TransferResult.INSUFFICIENT_FUNDS) return "insufficient_funds";
    const sentence = `ledger: money of ${operation.id} was not moved: ${resultWord(answer)}`;
    if (resultOf(answer) === TransferResult.ACCOUNT_UNKNOWN) throw new LedgerWaits(sentence);
    throw new Error(sentence);
  };
  return {
    async reserve(payout) {
      const answer = await spend(payout, reserveGroup(payout));
      return answer === "insufficient_funds" ? answer : (holdVerdict(answer) ?? "stands");
    },
    async post(payout, step) {
      const groups = [groupFor(payout, step)];
      return verdictOf(payout, groups, await send({ operation: payout, groups }));
    },
    postSuspense: (payout, mispaid) =>
      postSuspense(client, payout, suspenseGroup(payout, mispaid), suspenseAccounts(payout)),
    async move(movement) {
      return (await spend(movement, movementGroup(movement))) === "insufficient_funds" ? "insufficient_funds" : "moved";
    },
  };
}
