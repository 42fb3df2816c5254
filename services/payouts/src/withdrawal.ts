// A withdrawal request: its states as a table, its price, what may refuse it. Pure: `withdrawal-create.ts` and
// `withdrawal-decide.ts` only carry it out, the latter by the road of everything that goes out.

import type { Terms } from "@cauri/money/corridor";
import type { FailureCode } from "@cauri/money/failure";
import { computeFee } from "@cauri/money/fee";
import type { Mode } from "@cauri/money/mode";
import type { Moves } from "@cauri/money/moves";
import type { OutgoingMoves } from "@cauri/money/outgoing";
import { type Refusal, refuse, refuseField } from "@cauri/money/refusal";
import type { MaskedDestination } from "./payout.ts";

/** What a rail's word does to an approved request. A success after that end, or money that comes back, is an operator's. */
export const sentMoves = {
  approved: {
    accept: { to: "processing", ledger: "none", event: null },
    settle: { to: "paid", ledger: "capture", event: null },
    reject: { to: "failed", ledger: "release", event: null },
    mispay: { to: "approved", ledger: "post_suspense", event: null },
  },
  processing: {
    settle: { to: "paid", ledger: "capture", event: null },
    reject: { to: "failed", ledger: "release", event: null },
    mispay: { to: "processing", ledger: "post_suspense", event: null },
  },
  paid: {
    return: { to: "paid", ledger: "post_back", event: null },
    mispay: { to: "paid", ledger: "post_suspense", event: null },
  },
  failed: {
    settle: { to: "failed", ledger: "post_late", event: null },
    return: { to: "failed", ledger: "post_back", event: null },
    mispay: { to: "failed", ledger: "post_suspense", event: null },
  },
} as const satisfies OutgoingMoves;

/** A request holds nothing; a person decides, and the holds of net and fee stand before it is `approved`. */
export const withdrawalMoves = {
  requested: {
    approve: { to: "approved", ledger: "hold", event: null },
    decline: { to: "rejected", ledger: "none", event: null },
  },
  rejected: {},
  ...sentMoves,
} as const satisfies Moves;

export type WithdrawalStatus = keyof typeof withdrawalMoves;

/** A withdrawal request as it is stored; amounts in minor units. Of the settlement account there are masks only. */
export type Withdrawal = {
  readonly id: string;
  readonly account: string;
  readonly mode: Mode;
  readonly reference: string;
  readonly client_ref: string | null;
  readonly status: WithdrawalStatus;
  /** What the merchant asked for, and whose balance it is taken from. */
  readonly requested_minor: bigint;
  readonly from_platform_id: string;
  readonly fee_minor: bigint;
  /** What goes out, the request less its fee, and the settlement account's platform. */
  readonly amount_minor: bigint;
  readonly platform_id: string;
  readonly asset_id: string;
  readonly currency: string;
  readonly scale: number;
  readonly rail: string | null;
  readonly rails: readonly string[];
  readonly forced: false;
  readonly description: null;
  readonly merchant_name: string;
  readonly note: string | null;
  readonly metadata: Readonly<Record<string, string>> | null;
  readonly destination: MaskedDestination;
  /** The id under which rails keeps the raw details of that settlement account. */
  readonly kept_as: string;
  readonly decision_note: string | null;
  /** Number of the last approval that was begun. */
  readonly approval: number;
  readonly failure_code: FailureCode | null;
  /** Counts its changes. */
  readonly version: number;
  readonly rail_version: bigint;
  readonly created_at: Date;
  readonly updated_at: Date;
  readonly decided_at: Date | null;
  readonly paid_at: Date | null;
};

/** Where an account's withdrawals go, as accounts says. */
export type Settlement = {
  /** Approved and not about to be closed: only such an account's requests may be approved. */
  readonly is_active: boolean;
  /** Activated for live mode. */
  readonly is_live: boolean;
  /** Null: none is set. */
  readonly to: {
    readonly platform_id: string;
    readonly kept_as: string;
    readonly destination: MaskedDestination;
  } | null;
};

/** The fee; pricing is closed by default, so a free withdrawal needs a line that says so. */
export function priceWithdrawal(amount_minor: bigint, asset_id: string, terms: Terms): bigint | Refusal {
  if (terms.fee === null) {
    return refuse("precondition_failed", `no withdrawal fee schedule is configured for ${asset_id}`);
  }
  return computeFee(amount_minor, terms.fee);
}

/** Amount against fee, then what the settlement account's platform can be paid; a net of zero goes through no corridor. */
export function checkNet(amount_minor: bigint, fee_minor: bigint, terms: Terms): Refusal | null {
  if (amount_minor < fee_minor) return refuseField("amount_minor", `must be at least the fee of ${fee_minor}`);
  const net = amount_minor - fee_minor;
  if (net === 0n) return null;
  if (!isServed(terms)) return refuseField("asset_id", "the corridor to the settlement account is closed");
  const { min_amount_minor: min, max_amount_minor: max } = terms;
  if (net >= min && net <= max) return null;
  return refuseField("amount_minor", `less the fee of ${fee_minor} it must be between ${min} and ${max}`);
}

/** The corridor to the settlement account takes operations now. */
export function isServed(terms: Terms): boolean {
  return terms.corridor_known && terms.is_open && terms.rails.length > 0;
}

/** Whether a decision may still be made; null: it may. A decision that was made before is not made again. */
export function checkUndecided({ status }: Withdrawal, wanted: "approved" | "rejected"): Refusal | null {
  if (status === "requested") return null;
  return refuse("precondition_failed", `the withdrawal request is ${status} and cannot be ${wanted}`);
}

/** An account that is suspended, closed or not live has nothing approved. */
export function checkActive({ mode }: Pick<Withdrawal, "mode">, settlement: Settlement): Refusal | null {
  if (!settlement.is_active) return refuse("precondition_failed", "the account is not active");
  if (mode === "test" || settlement.is_live) return null;
  return refuse("precondition_failed", "the account is not activated for live mode");
}

/** The claim of one approval; its withdrawal is before the dot. */
export function approvalId({ id, approval }: Pick<Withdrawal, "id" | "approval">): string {
  return `${id}.${approval}`;
}

export function withdrawalOfApproval(operation_id: string): string {
  return operation_id.slice(0, operation_id.indexOf("."));
}
