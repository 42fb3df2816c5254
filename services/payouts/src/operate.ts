// What operators do with a payout: cancel what has not left, drive one of the sandbox.

import { setTimeout as sleep } from "node:timers/promises";
import { ownWord } from "@cauri/money/outgoing";
import { parseOperationRef } from "@cauri/money/reference";
import { isRefusal, type Refusal, refuse } from "@cauri/money/refusal";
import { applyWord, type Rooms, reread } from "./apply.ts";
import type { Payout, PayoutStatus } from "./payout.ts";
import { findPayoutBy } from "./store.ts";

/** A driven payout moves within a callback, a question and a message; its route has 15 s. */
const ADVANCE_WAIT_MS = 10_000;
const ADVANCE_LOOK_MS = 50;

/** Only what certainly has not left: rails withholds it first, and says whether that was still possible. */
export async function cancelPayout(rooms: Rooms, id: string, request_id: string): Promise<Payout | Refusal> {
  const payout = await findPayoutBy(rooms.pool, parseOperationRef(id), null);
  if (payout === null) return noSuchPayout();
  if (payout.status === "cancelled") return payout;
  if (payout.status !== "initiated") {
    return refuse("precondition_failed", `the payout is ${payout.status} and cannot be cancelled`);
  }
  const answer = await rooms.rails.withhold(payout, request_id);
  if (answer.kind !== "word" || answer.word.source !== "withheld") {
    return refuse("precondition_failed", "the payout has left, or may have: it cannot be cancelled");
  }
  const ended = await applyWord(
    rooms,
    payout,
    answer.word.says === "reject" ? answer.word : ownWord("withheld", "cancel"),
    null,
  );
  if (ended.status === "cancelled") return ended;
  return refuse("precondition_failed", `the payout is ${ended.status} and cannot be cancelled`);
}

/** Drives a payout of the sandbox and answers it once it has moved. */
export async function advancePayout(
  rooms: Rooms,
  { id, to }: { readonly id: string; readonly to: string },
  request_id: string,
): Promise<Payout | Refusal> {
  const payout = await findPayoutBy(rooms.pool, parseOperationRef(id), null);
  if (payout === null) return noSuchPayout();
  const driven = canReach(payout, to) && (await rooms.rails.advance(payout, to, request_id));
  if (isRefusal(driven)) return driven;
  if (!driven) return refuse("precondition_failed", `the payout is ${payout.status} and cannot become ${to}`);
  return await waitUntil(rooms, payout.id, to);
}

function canReach({ status }: Payout, to: string): to is PayoutStatus {
  if (to === "refunded") return status === "success";
  return (to === "success" || to === "failed") && (status === "initiated" || status === "pending");
}

/** The news travel by callback and JetStream; whatever stands after the wait is answered. */
async function waitUntil({ pool }: Rooms, id: string, status: PayoutStatus): Promise<Payout> {
  const until = performance.now() + ADVANCE_WAIT_MS;
  let payout = await reread(pool, id);
  while (payout.status !== status && performance.now() < until) {
    await sleep(ADVANCE_LOOK_MS);
    payout = await reread(pool, id);
  }
  return payout;
}

function noSuchPayout(): Refusal {
  return refuse("not_found", "no such payout");
}
