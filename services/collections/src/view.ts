// A payment as the world sees it: the contract's masked view, and the news of it.

import { operationEvent } from "@cauri/events/operation-event";
import { PaymentStatus as ProtoStatus, type Payment as View } from "@cauri/proto/ts/cauri/collections/v1/payments";
import type { OutboxEvent } from "@cauri/store/outbox";
import { FAILURE_MESSAGES, type Payment, type PaymentStatus } from "./payment.ts";

const STATUSES: Record<PaymentStatus, ProtoStatus> = {
  initiated: ProtoStatus.INITIATED,
  pending: ProtoStatus.PENDING,
  success: ProtoStatus.SUCCESS,
  failed: ProtoStatus.FAILED,
  cancelled: ProtoStatus.CANCELLED,
  refunded: ProtoStatus.REFUNDED,
};

/** The events of a payment; subjects are `cauri.collections.` and the event's name. */
export type PaymentEvent =
  | "payment.initiated"
  | "payment.pending"
  | "payment.success"
  | "payment.failed"
  // Inside the house alone: the catalogue tells merchants of the refunds.
  | "payment.refunded";

export function viewOf(payment: Payment): View {
  const { failure_code, payer, metadata } = payment;
  return {
    id: payment.id,
    object: "payment",
    reference: payment.reference,
    clientRef: payment.client_ref ?? undefined,
    status: STATUSES[payment.status],
    amountMinor: payment.amount_minor,
    feeMinor: payment.fee_minor,
    netMinor: payment.amount_minor - payment.fee_minor,
    assetId: payment.asset_id,
    platformId: payment.platform_id,
    rail: payment.rail ?? undefined,
    failure: failure_code === null ? undefined : { code: failure_code, message: FAILURE_MESSAGES[failure_code] },
    description: payment.description ?? undefined,
    metadata: metadata === null ? undefined : { values: { ...metadata } },
    isTest: payment.mode === "test",
    createdAt: payment.created_at,
    updatedAt: payment.updated_at,
    completedAt: payment.completed_at ?? undefined,
    paymentUrl: payment.payment_url ?? undefined,
    deepLink: payment.deep_link ?? undefined,
    qr: payment.qr ?? undefined,
    payer:
      payer === null
        ? undefined
        : { phone: payer.phone ?? undefined, name: payer.name ?? undefined, email: payer.email ?? undefined },
    refundedMinor: payment.refunded_minor,
    paymentLinkId: payment.payment_link_id ?? undefined,
    subscriptionId: payment.subscription_id ?? undefined,
    expiresAt: payment.expires_at,
  };
}

/** The word of a status in a filter; null for a number that is none. */
export function statusOf(status: ProtoStatus): PaymentStatus | null {
  const found = Object.entries(STATUSES).find(([, value]) => value === status);
  return found === undefined ? null : (found[0] as PaymentStatus);
}

/** The news of a payment's present state. */
export function eventOf(payment: Payment, event: PaymentEvent): OutboxEvent {
  return operationEvent("collections", event, payment);
}
