// What a merchant may create: the terms of its corridor against the body, and the price.
// Pure. The order of the checks is the order in which a merchant with several mistakes hears of them:
// client_ref, asset, platform, corridor, rail, amount against bounds, amount against fee, phone; the vault judges the
// payer's details last.

import { computeFee, type FeeLine } from "@cauri/money/fee";
import { looksLikeOurs } from "@cauri/money/reference";
import { type Refusal, refuseField } from "@cauri/money/refusal";

export type Terms = {
  readonly asset_known: boolean;
  readonly platform_known: boolean;
  readonly corridor_known: boolean;
  readonly is_open: boolean;
  readonly min_amount_minor: bigint;
  readonly max_amount_minor: bigint;
  readonly rails: readonly { readonly rail: string; readonly needs_phone: boolean }[];
  readonly fee: FeeLine | null;
  readonly country: string;
  readonly currency: string;
  readonly scale: number;
  readonly merchant_name: string;
};

export type Wanted = {
  readonly amount_minor: bigint;
  readonly asset_id: string;
  readonly platform_id: string;
  readonly rail: string | undefined;
  readonly has_phone: boolean;
};

export type Accepted = {
  readonly fee_minor: bigint;
  /** The rails that may serve it, in the order in which they are tried. */
  readonly rails: readonly string[];
  readonly forced: boolean;
};

/** A `client_ref` with the form of our own ids or references would make a path ambiguous. */
export function checkClientRef(client_ref: string | undefined): Refusal | null {
  if (client_ref === undefined || !looksLikeOurs(client_ref)) return null;
  return refuseField("client_ref", "must not look like an identifier or reference of the platform");
}

export function decideCreation(wanted: Wanted, terms: Terms): Accepted | Refusal {
  const corridor = checkCorridor(wanted, terms);
  if (corridor !== null) return corridor;
  const named = terms.rails.filter(({ rail }) => wanted.rail === undefined || rail === wanted.rail);
  if (named.length === 0) return refuseField("rail", `not a collection rail of ${wanted.platform_id}`);
  const { min_amount_minor: min, max_amount_minor: max } = terms;
  if (wanted.amount_minor < min || wanted.amount_minor > max) {
    return refuseField("amount_minor", `must be between ${min} and ${max}`);
  }
  const fee_minor = computeFee(wanted.amount_minor, terms.fee);
  if (wanted.amount_minor <= fee_minor) {
    return refuseField("amount_minor", `must be more than the fee of ${fee_minor}`);
  }
  const usable = named.filter(({ needs_phone }) => wanted.has_phone || !needs_phone).map(({ rail }) => rail);
  if (usable.length === 0) return refuseField("payer.phone", `is required by ${named.map(nameOf).join(", ")}`);
  return { fee_minor, rails: usable, forced: wanted.rail !== undefined };
}

function checkCorridor(wanted: Wanted, terms: Terms): Refusal | null {
  if (!terms.asset_known) return refuseField("asset_id", "unknown asset");
  if (!terms.platform_known) return refuseField("platform_id", "unknown platform");
  if (!terms.corridor_known) return refuseField("platform_id", `takes no collections in ${wanted.asset_id}`);
  if (!terms.is_open || terms.rails.length === 0) {
    return refuseField("platform_id", `the corridor for collections in ${wanted.asset_id} is closed`);
  }
  return null;
}

function nameOf({ rail }: { readonly rail: string }): string {
  return rail;
}
