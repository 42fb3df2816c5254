// The RPCs of PaymentService: decode, call, encode.

import { setTimeout as sleep } from "node:timers/promises";
import { driveOutgoing } from "@cauri/events/outgoing-drive";
import { newId } from "@cauri/money/ids";
import { parseOperationRef } from "@cauri/money/reference";
import { isRefusal, type Refusal, refuse, refuseField } from "@cauri/money/refusal";
import {
  type AdvancePaymentRequest,
  PaymentServiceService,
  type Payment as View,
} from "@cauri/proto/ts/cauri/collections/v1/payments";
import type { DrainRequest, DrainResponse } from "@cauri/proto/ts/cauri/shared/v1/shared";
import { houseCaller } from "@cauri/rpc/caller";
import { type Call, type Service, service } from "@cauri/rpc/server";
import { reread } from "./apply.ts";
import { type Creation, createPayment } from "./create.ts";
import type { Payment } from "./payment.ts";
import { createRefund, type Refunding, refundKind } from "./refund-create.ts";
import { findPaymentBy, listPayments } from "./store.ts";
import { statusOf, viewOf } from "./view.ts";

const DEFAULT_PER_PAGE = 25;
/** A driven payment moves within a callback and a message; its route has 15 s. */
const ADVANCE_WAIT_MS = 10_000;
const ADVANCE_LOOK_MS = 50;

export type PaymentRooms = Creation & {
  readonly refunding: Refunding;
  readonly drain: (request: DrainRequest, deadline_ms: number) => Promise<DrainResponse | Refusal>;
};

export function paymentService(rooms: PaymentRooms): Service {
  return service(PaymentServiceService, {
    createPayment: async (request, call) => {
      const created = await createPayment(rooms, request, call.caller);
      if (isRefusal(created)) return created;
      call.outcome(created.outcome);
      return viewOf(created.payment);
    },
    getPayment: async ({ id }, { caller }) => {
      const payment = await findPaymentBy(rooms.pool, parseOperationRef(id), caller);
      return payment === null ? noSuchPayment() : viewOf(payment);
    },
    listPayments: async (request, { caller }) => {
      const status = request.status === undefined ? undefined : statusOf(request.status);
      if (status === null) return refuseField("status", "unknown status");
      const found = await listPayments(rooms.pool, {
        account: caller.account,
        mode: caller.mode,
        page: Number(request.page ?? 1),
        per_page: request.perPage ?? DEFAULT_PER_PAGE,
        status,
        client_ref: request.clientRef,
        created_from: request.createdFrom,
        created_to: request.createdTo,
      });
      return {
        data: found.payments.map(viewOf),
        page: BigInt(found.page),
        perPage: found.per_page,
        total: BigInt(found.total),
        hasMore: found.has_more,
      };
    },
    advancePayment: (request, call) => advancePayment(rooms, request, call),
    drain: (request, call) => rooms.drain(request, call.deadline_ms),
  });
}

/** Drives a payment of the sandbox and answers it once it has moved. */
async function advancePayment(
  rooms: PaymentRooms,
  { id, to }: AdvancePaymentRequest,
  call: Call,
): Promise<View | Refusal> {
  const payment = await findPaymentBy(rooms.pool, parseOperationRef(id), null);
  if (payment === null) return noSuchPayment();
  if (to === "refunded") return await refundAll(rooms, payment, call);
  const stands = to === "success" || to === "failed";
  const driven = stands && canReach(payment, to) && (await rooms.rails.advance(payment, to, call.request_id));
  if (isRefusal(driven)) return driven;
  if (!driven) return refuse("precondition_failed", `the payment is ${payment.status} and cannot become ${to}`);
  return viewOf(await waitUntil(rooms, payment.id, to));
}

/** What remains is refunded as its merchant would, and the rail is driven to give it back. */
async function refundAll(rooms: PaymentRooms, payment: Payment, { request_id }: Call): Promise<View | Refusal> {
  const { account, mode, id } = payment;
  const operation = newId("re", rooms.clocks.now(account, mode).getTime());
  const caller = houseCaller(account, mode, request_id, operation);
  const created = await createRefund(rooms.refunding, { paymentId: id }, caller);
  if (isRefusal(created)) return created;
  if (created.operation.status !== "success") {
    const driven = await driveOutgoing(refundKind, rooms.refunding, { id: operation, to: "success" }, request_id);
    if (isRefusal(driven)) return driven;
  }
  return viewOf(await reread(rooms.pool, id));
}

function canReach(payment: Payment, to: "success" | "failed"): boolean {
  if (payment.status === "success" || payment.status === "refunded") return false;
  return to === "success" || payment.status === "initiated" || payment.status === "pending";
}

/** The news travel by callback and JetStream; whatever stands after the wait is answered. */
async function waitUntil({ pool }: Creation, id: string, status: Payment["status"]): Promise<Payment> {
  const until = performance.now() + ADVANCE_WAIT_MS;
  let payment = await reread(pool, id);
  while (payment.status !== status && performance.now() < until) {
    await sleep(ADVANCE_LOOK_MS);
    payment = await reread(pool, id);
  }
  return payment;
}

function noSuchPayment(): Refusal {
  return refuse("not_found", "no such payment");
}
