// A refund as it is created: what can refuse it, and its kind for the road of everything that goes out.

import type { OutgoingRooms } from "@cauri/events/outgoing";
import { type Created, type CreatedKind, type Running, running } from "@cauri/events/outgoing-run";
import { checkClientRef } from "@cauri/money/corridor";
import { newReference, parseOperationRef } from "@cauri/money/reference";
import { isRefusal, type Refusal } from "@cauri/money/refusal";
import type { CreateRefundRequest } from "@cauri/proto/ts/cauri/collections/v1/refunds";
import type { Caller } from "@cauri/rpc/caller";
import { fingerprint } from "@cauri/store/fingerprint";
import { decideRefund, type Refund, refundMoves } from "./refund.ts";
import { insertRefunds, type NewRefund, refunds } from "./refund-store.ts";
import { findPaymentBy } from "./store.ts";

const ROUTE = "POST /v1/refunds";

export type Refunding = OutgoingRooms & { readonly fingerprint_key: string };

const kind: CreatedKind<Refund, NewRefund> = {
  room: "collections",
  noun: "refund",
  moves: refundMoves,
  table: refunds,
  route: ROUTE,
  insert: insertRefunds,
  nothing: "nothing was given back",
  too_little: "the available balance does not cover the refund",
};

/** Refunds, by the road of everything that goes out. */
export const refundKind: CreatedKind<Refund, NewRefund> & Running<Refund, NewRefund> = { ...kind, ...running(kind) };

export async function createRefund(
  rooms: Refunding,
  request: CreateRefundRequest,
  caller: Caller,
): Promise<Created<Refund> | Refusal> {
  const asked = {
    caller,
    client_ref: request.clientRef ?? null,
    fingerprint: fingerprint(rooms.fingerprint_key, ROUTE, request),
  };
  return await refundKind.create(rooms, asked, (id) => prepare(rooms, request, caller, id));
}

/** Everything that can be refused without a lock; what others are refunding meanwhile is decided under it. */
async function prepare(
  rooms: Refunding,
  request: CreateRefundRequest,
  { account, mode }: Caller,
  id: string,
): Promise<NewRefund | Refusal> {
  // The edge has checked that it was sent; a caller inside the house that leaves it out is a bug.
  if (request.paymentId === undefined) throw new Error("a creation came without its required fields");
  const ref_refusal = checkClientRef(request.clientRef);
  if (ref_refusal !== null) return ref_refusal;
  const payment = await findPaymentBy(rooms.pool, parseOperationRef(request.paymentId), { account, mode });
  const decided = decideRefund(payment ?? undefined, request.amountMinor);
  if (payment === null || isRefusal(decided)) return decided as Refusal;
  return {
    id,
    account,
    mode,
    reference: newReference("RFD", mode),
    client_ref: request.clientRef ?? null,
    payment_id: payment.id,
    amount_minor: request.amountMinor,
    reason: request.reason ?? null,
    metadata: request.metadata?.values ?? null,
  };
}
