// A refund as the world sees it: the contract's masked view.

import { RefundStatus as ProtoStatus, type Refund as View } from "@cauri/proto/ts/cauri/collections/v1/refunds";
import { isRefundStatus, REFUND_FAILURES, type Refund, type RefundStatus } from "./refund.ts";

/** The world has one word for a refund that is open. */
const STATUSES: Record<RefundStatus, ProtoStatus> = {
  initiated: ProtoStatus.PENDING,
  pending: ProtoStatus.PENDING,
  success: ProtoStatus.SUCCESS,
  failed: ProtoStatus.FAILED,
};

export function refundView(refund: Refund): View {
  const { status, failure_code, metadata } = refund;
  if (!isRefundStatus(status)) throw new Error(`refund ${refund.id} is a draft, which nobody sees`);
  return {
    id: refund.id,
    object: "refund",
    reference: refund.reference,
    clientRef: refund.client_ref ?? undefined,
    status: STATUSES[status],
    amountMinor: refund.amount_minor,
    feeMinor: refund.fee_minor,
    netMinor: refund.amount_minor,
    assetId: refund.asset_id,
    platformId: refund.platform_id,
    rail: refund.rail ?? undefined,
    failure: failure_code === null ? undefined : { code: failure_code, message: REFUND_FAILURES[failure_code] },
    description: undefined,
    metadata: metadata === null ? undefined : { values: { ...metadata } },
    isTest: refund.mode === "test",
    createdAt: refund.created_at,
    updatedAt: refund.updated_at,
    completedAt: refund.completed_at ?? undefined,
    paymentId: refund.payment_id,
    reason: refund.reason ?? undefined,
  };
}

/** The states behind a status in a filter; empty for a number that is none. */
export function statusesOf(status: ProtoStatus): RefundStatus[] {
  return (Object.keys(STATUSES) as RefundStatus[]).filter((state) => STATUSES[state] === status);
}
