// A payout: its states as a table, its price, and what follows from the ledger's answer.
// Pure: every rule of the lifecycle is decided here, `create.ts` and the road of everything that goes out only carry it out.

import { checkCorridor, railsOf, type Terms } from "@cauri/money/corridor";
import type { FailureCode } from "@cauri/money/failure";
import { computeFee } from "@cauri/money/fee";
import type { Mode } from "@cauri/money/mode";
import type { OutgoingMoves } from "@cauri/money/outgoing";
import { type Refusal, refuseField } from "@cauri/money/refusal";

/**
 * The holds of amount and fee stand before a payout is `initiated`. `mispay` is a success with another amount or currency:
 * that money is booked to suspense for an operator, the payout stays where it is; so is a success after a failure, and
 * back again what the rail returns of it.
 */
export const payoutMoves = {
  initiated: {
    accept: { to: "pending", ledger: "none", event: null },
    settle: { to: "success", ledger: "capture", event: "payout.success" },
    reject: { to: "failed", ledger: "release", event: "payout.failed" },
    cancel: { to: "cancelled", ledger: "release", event: "payout.cancelled" },
    mispay: { to: "initiated", ledger: "post_suspense", event: null },
  },
  pending: {
    settle: { to: "success", ledger: "capture", event: "payout.success" },
    reject: { to: "failed", ledger: "release", event: "payout.failed" },
    mispay: { to: "pending", ledger: "post_suspense", event: null },
  },
  success: {
    return: { to: "refunded", ledger: "post_return", event: "payout.refunded" },
    mispay: { to: "success", ledger: "post_suspense", event: null },
  },
  failed: {
    settle: { to: "failed", ledger: "post_late", event: null },
    return: { to: "failed", ledger: "post_back", event: null },
    mispay: { to: "failed", ledger: "post_suspense", event: null },
  },
  cancelled: {
    settle: { to: "cancelled", ledger: "post_late", event: null },
    return: { to: "cancelled", ledger: "post_back", event: null },
    mispay: { to: "cancelled", ledger: "post_suspense", event: null },
  },
  refunded: { mispay: { to: "refunded", ledger: "post_suspense", event: null } },
} as const satisfies OutgoingMoves;

export type PayoutStatus = keyof typeof payoutMoves;

/** The sentence a merchant reads for each failure code; fixed, so that no detail of a person can slip into one. */
export const FAILURE_MESSAGES = {
  insufficient_funds: "The operator's balance is too low.",
  payer_rejected: "The operator declined the payout.",
  expired: "The payout expired before it was paid.",
  payer_not_found: "The operator does not know the sender.",
  payee_not_found: "The operator does not know this recipient.",
  limit_exceeded: "The amount exceeds a limit of the recipient's account.",
  account_blocked: "The recipient's account is blocked.",
  name_mismatch: "The name does not match the account.",
  operator_unavailable: "The operator could not be reached.",
  fraud_suspected: "The operator refused the payout on suspicion of fraud.",
  duplicate: "The operator took the payout for a duplicate.",
  unknown: "The operator gave no reason.",
} as const satisfies Record<FailureCode, string>;

/** A payout as it is stored; amounts in minor units. Of the destination there are masks only. */
export type Payout = {
  readonly id: string;
  readonly account: string;
  readonly mode: Mode;
  readonly reference: string;
  readonly client_ref: string | null;
  readonly status: PayoutStatus | "draft";
  readonly amount_minor: bigint;
  readonly fee_minor: bigint;
  readonly asset_id: string;
  readonly currency: string;
  readonly scale: number;
  readonly platform_id: string;
  readonly rail: string | null;
  readonly rails: readonly string[];
  readonly forced: boolean;
  readonly merchant_name: string;
  readonly description: string | null;
  readonly metadata: Readonly<Record<string, string>> | null;
  readonly destination: MaskedDestination;
  readonly failure_code: FailureCode | null;
  readonly version: number;
  readonly rail_version: bigint;
  readonly created_at: Date;
  readonly updated_at: Date;
  readonly completed_at: Date | null;
};

export type MaskedDestination = {
  readonly type: string;
  readonly phone?: string | undefined;
  readonly iban?: string | undefined;
  readonly accountNumber?: string | undefined;
  readonly bankCode?: string | undefined;
  readonly name?: string | undefined;
};

export type Wanted = {
  readonly amount_minor: bigint;
  readonly asset_id: string;
  readonly platform_id: string;
  readonly rail: string | undefined;
  readonly destination_type: string;
};

export type Accepted = { readonly fee_minor: bigint; readonly rails: readonly string[]; readonly forced: boolean };

/** Corridor, bounds, kind of destination, price; the vault judges the destination's details last. */
export function decidePayout(wanted: Wanted, terms: Terms): Accepted | Refusal {
  const refused = checkCorridor(wanted, terms, "payout");
  if (refused !== null) return refused;
  if (!terms.destination_types.includes(wanted.destination_type)) {
    return refuseField("destination.type", `${wanted.platform_id} pays out to ${terms.destination_types.join(", ")}`);
  }
  const rails = railsOf(terms, wanted.rail).map(({ rail }) => rail);
  return { fee_minor: computeFee(wanted.amount_minor, terms.fee), rails, forced: wanted.rail !== undefined };
}

export function isPayoutStatus(text: string): text is PayoutStatus {
  return Object.hasOwn(payoutMoves, text);
}
