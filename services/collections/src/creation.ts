// What a merchant may create: the terms of its corridor against the body, and the price.
// Pure. The order of the checks is the order in which a merchant with several mistakes hears of them:
// client_ref, asset, platform, corridor, rail, amount against bounds, amount against fee, phone; the vault judges the
// payer's details last.

import { checkCorridor, railsOf, type Terms } from "@cauri/money/corridor";
import { computeFee } from "@cauri/money/fee";
import { type Refusal, refuseField } from "@cauri/money/refusal";

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

export function decideCreation(wanted: Wanted, terms: Terms): Accepted | Refusal {
  const refused = checkCorridor(wanted, terms, "collection");
  if (refused !== null) return refused;
  const fee_minor = computeFee(wanted.amount_minor, terms.fee);
  if (wanted.amount_minor <= fee_minor) {
    return refuseField("amount_minor", `must be more than the fee of ${fee_minor}`);
  }
  const named = railsOf(terms, wanted.rail);
  const usable = named.filter(({ needs_phone }) => wanted.has_phone || !needs_phone).map(({ rail }) => rail);
  if (usable.length === 0) return refuseField("payer.phone", `is required by ${named.map(nameOf).join(", ")}`);
  return { fee_minor, rails: usable, forced: wanted.rail !== undefined };
}

function nameOf({ rail }: { readonly rail: string }): string {
  return rail;
}
