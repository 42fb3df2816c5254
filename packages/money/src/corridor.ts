// The terms under which a room takes an operation, and the checks that every kind of it has in common. Pure. The order of
// the checks is the order in which a merchant with several mistakes hears of them.

import type { FeeLine } from "./fee.ts";
import { looksLikeOurs } from "./reference.ts";
import { type Refusal, refuseField } from "./refusal.ts";

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
  /** Where the platform can send money to. */
  readonly destination_types: readonly string[];
};

type Wanted = {
  readonly amount_minor: bigint;
  readonly asset_id: string;
  readonly platform_id: string;
  readonly rail: string | undefined;
};

/** A `client_ref` with the form of our own ids or references would make a path ambiguous. */
export function checkClientRef(client_ref: string | undefined): Refusal | null {
  if (client_ref === undefined || !looksLikeOurs(client_ref)) return null;
  return refuseField("client_ref", "must not look like an identifier or reference of the platform");
}

/** Asset, platform, corridor, rail, bounds. `noun` is what the corridor carries: collections, payouts. */
export function checkCorridor(wanted: Wanted, terms: Terms, noun: "collection" | "payout"): Refusal | null {
  const { asset_id, platform_id, rail, amount_minor } = wanted;
  if (!terms.asset_known) return refuseField("asset_id", "unknown asset");
  if (!terms.platform_known) return refuseField("platform_id", "unknown platform");
  if (!terms.corridor_known) return refuseField("platform_id", `takes no ${noun}s in ${asset_id}`);
  if (!terms.is_open || terms.rails.length === 0) {
    return refuseField("platform_id", `the corridor for ${noun}s in ${asset_id} is closed`);
  }
  if (rail !== undefined && !terms.rails.some((served) => served.rail === rail)) {
    return refuseField("rail", `not a ${noun} rail of ${platform_id}`);
  }
  const { min_amount_minor: min, max_amount_minor: max } = terms;
  if (amount_minor < min || amount_minor > max) return refuseField("amount_minor", `must be between ${min} and ${max}`);
  return null;
}

/** The rails that may serve it, in the order in which they are tried: the named one alone, or all. */
export function railsOf(terms: Terms, rail: string | undefined): Terms["rails"] {
  return terms.rails.filter((served) => rail === undefined || served.rail === rail);
}
