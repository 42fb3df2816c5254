// What an account may do where, and at which price: corridors, the precedence of fee lines, live mode. Pure.

import type { FeeLine } from "@cauri/money/fee";
import type { Mode } from "@cauri/money/mode";
import { type Refusal, refuseField } from "@cauri/money/refusal";

export type Direction = "collection" | "payout";
export type FeeOperation = "collection" | "payout" | "withdrawal";

export type Asset = { readonly asset_id: string; readonly code: string; readonly name: string; readonly scale: number };
export type Rail = { readonly rail: string; readonly needs_phone: boolean };

export type Corridor = {
  readonly corridor_id: string;
  readonly platform_id: string;
  readonly platform_name: string;
  readonly country: string;
  /** Kinds of destination that the platform can send money to. */
  readonly destination_types: readonly string[];
  readonly asset_id: string;
  readonly direction: Direction;
  /** In the order in which routing tries them. */
  readonly rails: readonly Rail[];
  readonly is_open: boolean;
  readonly min_amount_minor: bigint;
  readonly max_amount_minor: bigint;
};

/** A fee line with its key; null means everyone's, or every platform's. */
export type PricedLine = FeeLine & {
  readonly operation: FeeOperation;
  readonly asset_id: string;
  readonly account_id: string | null;
  readonly platform_id: string | null;
  readonly updated_at: Date;
};

/** What serves live rails: nothing yet, or the simulator on a local start. The words of CAURI_LIVE_RAILS. */
export type LiveRails = "" | "simulator";

export type Page<T> = {
  readonly data: readonly T[];
  readonly page: number;
  readonly per_page: number;
  readonly total: bigint;
  readonly has_more: boolean;
};

export const PER_PAGE_DEFAULT = 25;
const PER_PAGE_MAX = 100;

/** The line that prices this: account and platform, account, platform, default, in this order. */
export function pickLine(
  lines: readonly PricedLine[],
  asked: { operation: FeeOperation; asset_id: string; account_id: string | null; platform_id: string },
): PricedLine | null {
  const weight = (line: PricedLine) => (line.account_id === null ? 0 : 2) + (line.platform_id === null ? 0 : 1);
  let best: PricedLine | null = null;
  for (const line of lines) {
    if (line.operation !== asked.operation || line.asset_id !== asked.asset_id) continue;
    if (line.account_id !== null && line.account_id !== asked.account_id) continue;
    if (line.platform_id !== null && line.platform_id !== asked.platform_id) continue;
    if (best === null || weight(line) > weight(best)) best = line;
  }
  return best;
}

/** A corridor as one account sees it: live mode needs something that serves live rails, and a place needs its ledger accounts. */
export function isOpenFor(
  corridor: Corridor,
  mode: Mode,
  live: LiveRails,
  still_opening: ReadonlySet<string>,
): boolean {
  if (!corridor.is_open || corridor.rails.length === 0) return false;
  if (mode === "live" && live === "") return false;
  return !still_opening.has(placeOf(corridor));
}

/** One name for a platform and an asset together. */
export function placeOf(place: { readonly platform_id: string; readonly asset_id: string }): string {
  return `${place.platform_id}/${place.asset_id}`;
}

/** The direction of the corridor that an operation goes through: a withdrawal leaves as a payout does. */
export function directionOf(operation: FeeOperation): Direction {
  return operation === "collection" ? "collection" : "payout";
}

/** A fee line's numbers, or the refusal that names the field. */
export function checkFee(line: FeeLine, max_minor: bigint): Refusal | null {
  if (!Number.isInteger(line.percent_bps) || line.percent_bps < 0 || line.percent_bps > 10_000) {
    return refuseField("percent_bps", "must be from 0 to 10000 basis points");
  }
  for (const field of ["fixed_minor", "min_minor", "max_minor"] as const) {
    const value = line[field];
    if (value !== null && (value < 0n || value > max_minor))
      return refuseField(field, `must be from 0 to ${max_minor}`);
  }
  if (line.min_minor !== null && line.max_minor !== null && line.min_minor > line.max_minor) {
    return refuseField("min_minor", "must not be more than max_minor");
  }
  return null;
}

/** Page and rows per page with their defaults, or the refusal that names the field. */
export function checkPage(
  page: number | bigint | undefined,
  per_page: number | undefined,
): { page: number; per_page: number } | Refusal {
  const asked = { page: Number(page ?? 1), per_page: per_page ?? PER_PAGE_DEFAULT };
  if (asked.page < 1) return refuseField("page", "must be 1 or more");
  if (asked.per_page < 1 || asked.per_page > PER_PAGE_MAX) {
    return refuseField("per_page", `must be from 1 to ${PER_PAGE_MAX}`);
  }
  return asked;
}

/** One page of rows that are all at hand, as reference data is. */
export function pageOf<T>(rows: readonly T[], asked: { page: number; per_page: number }): Page<T> {
  const from = (asked.page - 1) * asked.per_page;
  return {
    data: rows.slice(from, from + asked.per_page),
    ...asked,
    total: BigInt(rows.length),
    has_more: from + asked.per_page < rows.length,
  };
}
