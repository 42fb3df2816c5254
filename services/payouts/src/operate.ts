// What operators do with a payout: cancel what has not left.

import type { OutgoingRooms } from "@cauri/events/outgoing";
import { ownWord } from "@cauri/money/outgoing";
import { parseOperationRef } from "@cauri/money/reference";
import { type Refusal, refuse } from "@cauri/money/refusal";
import { payoutKind } from "./create.ts";
import type { Payout } from "./payout.ts";

/** Only what certainly has not left: rails withholds it first, and says whether that was still possible. */
export async function cancelPayout(rooms: OutgoingRooms, id: string, request_id: string): Promise<Payout | Refusal> {
  const payout = await payoutKind.table.findBy(rooms.pool, parseOperationRef(id), null);
  if (payout === null) return noSuchPayout();
  if (payout.status === "cancelled") return payout;
  if (payout.status !== "initiated") {
    return refuse("precondition_failed", `the payout is ${payout.status} and cannot be cancelled`);
  }
  const answer = await rooms.rails.withhold(payout, request_id);
  if (answer.kind !== "word" || answer.word.source !== "withheld") {
    return refuse("precondition_failed", "the payout has left, or may have: it cannot be cancelled");
  }
  const ended = await payoutKind.applyWord(
    rooms,
    payout,
    answer.word.says === "reject" ? answer.word : ownWord("withheld", "cancel"),
    null,
  );
  if (ended.status === "cancelled") return ended;
  return refuse("precondition_failed", `the payout is ${ended.status} and cannot be cancelled`);
}

function noSuchPayout(): Refusal {
  return refuse("not_found", "no such payout");
}
