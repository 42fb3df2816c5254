// Money that moves inside the house: a transfer to another account, a rebalance to another platform. Pure.

import type { Mode } from "@cauri/money/mode";
import { type Refusal, refuse, refuseField } from "@cauri/money/refusal";

export type MovementKind = "transfer" | "rebalance";

/** The intent of a movement. Who receives, and where: of a rebalance the account itself on another platform. */
export type Movement = {
  readonly id: string;
  readonly kind: MovementKind;
  readonly account: string;
  readonly mode: Mode;
  readonly reference: string;
  readonly client_ref: string | null;
  readonly amount_minor: bigint;
  readonly asset_id: string;
  readonly platform_id: string;
  readonly receiver: string;
  readonly to_platform_id: string;
  readonly description: string | null;
  readonly metadata: Readonly<Record<string, string>> | null;
};

/** A transfer as one of its two accounts sees it. */
export type Transfer = {
  readonly id: string;
  readonly account: string;
  readonly mode: Mode;
  readonly reference: string;
  readonly client_ref: string | null;
  readonly direction: "out" | "in";
  readonly amount_minor: bigint;
  readonly asset_id: string;
  readonly platform_id: string;
  readonly source_account_id: string;
  readonly destination_account_id: string;
  readonly description: string | null;
  readonly metadata: Readonly<Record<string, string>> | null;
  readonly created_at: Date;
};

export type Rebalance = {
  readonly id: string;
  readonly account: string;
  readonly mode: Mode;
  readonly reference: string;
  readonly client_ref: string | null;
  readonly amount_minor: bigint;
  readonly asset_id: string;
  readonly from_platform_id: string;
  readonly to_platform_id: string;
  readonly metadata: Readonly<Record<string, string>> | null;
  readonly created_at: Date;
};

/** What accounts says of the places where the money is to be held. */
export type Places = {
  readonly asset_known: boolean;
  readonly places: readonly {
    readonly platform_known: boolean;
    readonly holds_asset: boolean;
    readonly is_open: boolean;
  }[];
  readonly can_receive: boolean;
};

/** Seconds in which accounts opens what a new platform needs. */
const OPENING_RETRY_S = 1;

/** Asset, platforms in the order of their fields, then the receiver; null: nothing stands in the way. */
export function checkPlaces(kind: MovementKind, asset_id: string, given: Places): Refusal | null {
  const refused = checkKnown(
    kind === "transfer" ? ["platform_id"] : ["from_platform_id", "to_platform_id"],
    asset_id,
    given,
  );
  if (refused !== null) return refused;
  // One sentence whatever the cause: it must not tell which accounts there are.
  if (kind === "transfer" && !given.can_receive) return refuseField("destination_account_id", "cannot receive this");
  return checkOpen(given);
}

/** Asset and platforms alone, for money that leaves without a receiver in the house. */
export function checkHeld(fields: readonly string[], asset_id: string, given: Places): Refusal | null {
  return checkKnown(fields, asset_id, given) ?? checkOpen(given);
}

function checkKnown(fields: readonly string[], asset_id: string, given: Places): Refusal | null {
  if (!given.asset_known) return refuseField("asset_id", "unknown asset");
  for (const [at, field] of fields.entries()) {
    const place = given.places[at];
    if (place?.platform_known !== true) return refuseField(field, "unknown platform");
    if (!place.holds_asset) return refuseField(field, `does not hold ${asset_id}`);
  }
  return null;
}

function checkOpen(given: Places): Refusal | null {
  if (given.places.every(({ is_open }) => is_open)) return null;
  return refuse("temporarily_unavailable", "the platform's ledger accounts are still being opened", {
    retry_after_s: OPENING_RETRY_S,
  });
}
