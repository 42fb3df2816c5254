// Drives an operation of the sandbox that sends money out, as the operator of its rail would.

import { setTimeout as sleep } from "node:timers/promises";
import { parseOperationRef } from "@cauri/money/reference";
import { isRefusal, type Refusal, refuse } from "@cauri/money/refusal";
import { type OutgoingKind, type OutgoingOperation, type OutgoingRooms, reread } from "./outgoing.ts";

/** A driven operation moves within a callback, a question and a message; its route has 15 s. */
const WAIT_MS = 10_000;
const LOOK_MS = 50;

/** What a driven outcome is called in the table of moves. */
const NEWS = { success: "settle", failed: "reject", refunded: "return" } as const;

/** Answers the operation once it has moved, or whatever stands after the wait; refused where no such arrow is drawn. */
export async function driveOutgoing<O extends OutgoingOperation>(
  kind: OutgoingKind<O>,
  rooms: OutgoingRooms,
  { id, to }: { readonly id: string; readonly to: string },
  request_id: string,
): Promise<O | Refusal> {
  const operation = await kind.table.findBy(rooms.pool, parseOperationRef(id), null);
  if (operation === null) return refuse("not_found", `no such ${kind.noun}`);
  const driven = canReach(kind, operation.status, to) && (await rooms.rails.advance(operation, to, request_id));
  if (isRefusal(driven)) return driven;
  if (!driven) {
    return refuse("precondition_failed", `the ${kind.noun} is ${operation.status} and cannot become ${to}`);
  }
  const until = performance.now() + WAIT_MS;
  let now = await reread(kind, rooms.pool, operation.id);
  // The news travel by callback and JetStream.
  while (now.status !== to && performance.now() < until) {
    await sleep(LOOK_MS);
    now = await reread(kind, rooms.pool, operation.id);
  }
  return now;
}

function canReach<O>({ moves }: OutgoingKind<O>, status: string, to: string): boolean {
  if (!Object.hasOwn(NEWS, to) || !Object.hasOwn(moves, status) || status === to) return false;
  return moves[status]?.[NEWS[to as keyof typeof NEWS]]?.to === to;
}
