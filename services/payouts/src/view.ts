// Operations of this room as the world sees them: the contract's masked views.

import { type Payout as PayoutView, PayoutStatus as ProtoStatus } from "@cauri/proto/ts/cauri/payouts/v1/payouts";
import {
  RebalanceStatus,
  type Rebalance as RebalanceView,
  TransferDirection,
  TransferStatus,
  type Transfer as TransferView,
} from "@cauri/proto/ts/cauri/payouts/v1/transfers";
import {
  WithdrawalStatus as ProtoWithdrawal,
  type Withdrawal as WithdrawalView,
} from "@cauri/proto/ts/cauri/payouts/v1/withdrawals";
import type { Rebalance, Transfer } from "./movement.ts";
import { FAILURE_MESSAGES, isPayoutStatus, type Payout, type PayoutStatus } from "./payout.ts";
import type { Withdrawal, WithdrawalStatus } from "./withdrawal.ts";

const STATUSES: Record<PayoutStatus, ProtoStatus> = {
  initiated: ProtoStatus.INITIATED,
  pending: ProtoStatus.PENDING,
  success: ProtoStatus.SUCCESS,
  failed: ProtoStatus.FAILED,
  cancelled: ProtoStatus.CANCELLED,
  refunded: ProtoStatus.REFUNDED,
};

const WITHDRAWAL_STATUSES: Record<WithdrawalStatus, ProtoWithdrawal> = {
  requested: ProtoWithdrawal.REQUESTED,
  approved: ProtoWithdrawal.APPROVED,
  processing: ProtoWithdrawal.PROCESSING,
  paid: ProtoWithdrawal.PAID,
  failed: ProtoWithdrawal.FAILED,
  rejected: ProtoWithdrawal.REJECTED,
};

export function viewOf(payout: Payout): PayoutView {
  const { status, failure_code } = payout;
  if (!isPayoutStatus(status)) throw new Error(`payout ${payout.id} is a draft, which nobody sees`);
  return {
    ...sharedOf(payout),
    object: "payout",
    status: STATUSES[status],
    feeMinor: payout.fee_minor,
    platformId: payout.platform_id,
    rail: payout.rail ?? undefined,
    failure: failure_code === null ? undefined : { code: failure_code, message: FAILURE_MESSAGES[failure_code] },
    description: payout.description ?? undefined,
    updatedAt: payout.updated_at,
    completedAt: payout.completed_at ?? undefined,
    destination: { ...payout.destination },
    recall: undefined,
  };
}

export function transferView(transfer: Transfer): TransferView {
  return {
    ...sharedOf(transfer),
    object: "transfer",
    status: TransferStatus.SUCCESS,
    ...atOnce(transfer),
    platformId: transfer.platform_id,
    description: transfer.description ?? undefined,
    sourceAccountId: transfer.source_account_id,
    destinationAccountId: transfer.destination_account_id,
    direction: transfer.direction === "out" ? TransferDirection.OUT : TransferDirection.IN,
  };
}

export function rebalanceView(rebalance: Rebalance): RebalanceView {
  return {
    ...sharedOf(rebalance),
    object: "rebalance",
    status: RebalanceStatus.SUCCESS,
    ...atOnce(rebalance),
    platformId: rebalance.from_platform_id,
    description: undefined,
    fromPlatformId: rebalance.from_platform_id,
    toPlatformId: rebalance.to_platform_id,
  };
}

export function withdrawalView(withdrawal: Withdrawal): WithdrawalView {
  return {
    ...sharedOf(withdrawal),
    object: "withdrawal_request",
    status: WITHDRAWAL_STATUSES[withdrawal.status],
    amountMinor: withdrawal.requested_minor,
    feeMinor: withdrawal.fee_minor,
    netMinor: withdrawal.amount_minor,
    platformId: withdrawal.from_platform_id,
    destination: { ...withdrawal.destination },
    note: withdrawal.note ?? undefined,
    decisionNote: withdrawal.decided_at === null ? undefined : (withdrawal.decision_note ?? undefined),
    decidedAt: withdrawal.decided_at ?? undefined,
    paidAt: withdrawal.paid_at ?? undefined,
    updatedAt: withdrawal.updated_at,
  };
}

/** The word of a status in a filter; null for a number that is none. */
export function statusOf(status: ProtoStatus): PayoutStatus | null {
  return wordOf(STATUSES, status);
}

export function withdrawalStatusOf(status: ProtoWithdrawal): WithdrawalStatus | null {
  return wordOf(WITHDRAWAL_STATUSES, status);
}

function wordOf<S extends string>(statuses: Record<S, number>, status: number): S | null {
  const found = (Object.keys(statuses) as S[]).find((word) => statuses[word] === status);
  return found ?? null;
}

type Shared = Pick<
  Payout,
  "id" | "reference" | "client_ref" | "amount_minor" | "asset_id" | "metadata" | "mode" | "created_at"
>;

/** What reaches the other side is the amount: a fee comes on top of it. */
function sharedOf({ id, reference, client_ref, amount_minor, asset_id, metadata, mode, created_at }: Shared) {
  return {
    id,
    reference,
    clientRef: client_ref ?? undefined,
    amountMinor: amount_minor,
    netMinor: amount_minor,
    assetId: asset_id,
    metadata: metadata === null ? undefined : { values: { ...metadata } },
    isTest: mode === "test",
    createdAt: created_at,
  };
}

/** What moves inside the house is done when it is seen: no fee, no rail, no failure. */
function atOnce({ created_at }: { readonly created_at: Date }) {
  return { feeMinor: 0n, rail: undefined, failure: undefined, updatedAt: created_at, completedAt: created_at };
}
