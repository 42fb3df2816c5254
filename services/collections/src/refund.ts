// A refund: its states as a table, and how much of a payment may be given back.
// Pure: every rule of the lifecycle is decided here, the road of everything that goes out only carries it out.

import type { FailureCode } from "@cauri/money/failure";
import type { Mode } from "@cauri/money/mode";
import type { OutgoingMoves } from "@cauri/money/outgoing";
import { type Refusal, refuse, refuseField } from "@cauri/money/refusal";
import type { PaymentStatus } from "./payment.ts";

/**
 * The hold of the amount stands before a refund is `initiated`, which the world sees as pending: no rail has it yet. A rail
 * that calls a success failed afterwards, or pays after a failure, changes no state: the money is booked against suspense
 * for an operator. `mispay` is a success with another amount or currency: likewise, and the refund waits on.
 */
export const refundMoves = {
  initiated: {
    accept: { to: "pending", ledger: "none", event: null },
    settle: { to: "success", ledger: "capture", event: "refund.success" },
    reject: { to: "failed", ledger: "release", event: "refund.failed" },
    mispay: { to: "initiated", ledger: "post_suspense", event: null },
  },
  pending: {
    settle: { to: "success", ledger: "capture", event: "refund.success" },
    reject: { to: "failed", ledger: "release", event: "refund.failed" },
    mispay: { to: "pending", ledger: "post_suspense", event: null },
  },
  success: {
    return: { to: "success", ledger: "post_back", event: null },
    mispay: { to: "success", ledger: "post_suspense", event: null },
  },
  failed: {
    settle: { to: "failed", ledger: "post_late", event: null },
    return: { to: "failed", ledger: "post_back", event: null },
    mispay: { to: "failed", ledger: "post_suspense", event: null },
  },
} as const satisfies OutgoingMoves;

export type RefundStatus = keyof typeof refundMoves;

/** The sentence a merchant reads for each failure code; fixed, so that no payer detail can slip into one. */
export const REFUND_FAILURES = {
  insufficient_funds: "The operator's balance is too low.",
  payer_rejected: "The operator declined the refund.",
  expired: "The refund expired before it was made.",
  payer_not_found: "The operator does not know this payer any more.",
  payee_not_found: "The operator does not know this payer any more.",
  limit_exceeded: "The amount exceeds a limit of the payer's account.",
  account_blocked: "The payer's account is blocked.",
  name_mismatch: "The name does not match the account.",
  operator_unavailable: "The operator could not be reached.",
  fraud_suspected: "The operator refused the refund on suspicion of fraud.",
  duplicate: "The operator took the refund for a duplicate.",
  unknown: "The operator gave no reason.",
} as const satisfies Record<FailureCode, string>;

/** A refund as it is stored; amounts in minor units. */
export type Refund = {
  readonly id: string;
  readonly account: string;
  readonly mode: Mode;
  readonly reference: string;
  readonly client_ref: string | null;
  readonly payment_id: string;
  readonly status: RefundStatus | "draft";
  readonly amount_minor: bigint;
  /** Always 0: a refund has no fee, and the collection's is not given back. */
  readonly fee_minor: bigint;
  readonly asset_id: string;
  readonly currency: string;
  readonly scale: number;
  readonly platform_id: string;
  readonly rail: string | null;
  readonly rails: readonly string[];
  readonly forced: true;
  readonly merchant_name: string;
  /** Text for the payer: there is none. */
  readonly description: null;
  readonly reason: string | null;
  readonly metadata: Readonly<Record<string, string>> | null;
  readonly gives_back: { readonly operation_id: string; readonly reference: string };
  readonly failure_code: FailureCode | null;
  readonly version: number;
  readonly rail_version: bigint;
  readonly created_at: Date;
  readonly updated_at: Date;
  readonly completed_at: Date | null;
};

/** What of a payment decides about its refund. */
export type Refundable = {
  readonly status: PaymentStatus;
  readonly amount_minor: bigint;
  readonly refunded_minor: bigint;
  readonly refunding_minor: bigint;
};

/** The amount of a refund; where none is named it is what remains. Decided under the payment's lock. */
export function decideRefund(payment: Refundable | undefined, wanted: bigint | undefined): bigint | Refusal {
  if (payment === undefined) return refuseField("payment_id", "no such payment");
  const { status } = payment;
  if (status !== "success" && status !== "refunded") {
    return refuse("precondition_failed", `the payment is ${status}: only a successful one can be refunded`);
  }
  const rest = payment.amount_minor - payment.refunded_minor - payment.refunding_minor;
  if (rest === 0n) return refuse("precondition_failed", "nothing of the payment is left to refund");
  if (wanted !== undefined && wanted > rest) {
    return refuseField("amount_minor", `must be at most ${rest}, which is what remains of the payment`);
  }
  return wanted ?? rest;
}

export function isRefundStatus(text: string): text is RefundStatus {
  return Object.hasOwn(refundMoves, text);
}
