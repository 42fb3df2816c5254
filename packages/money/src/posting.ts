// Transfers as a room asks the ledger for them, and what the ledger's answer means for an operation. Pure: ids follow from
// the operation and the step, so that a step posted twice is one; `posting.ts` of packages/rpc sends them.

import { deriveUuid } from "./ids.ts";

export type Posting = {
  readonly id: string;
  readonly kind: "post" | "hold" | "capture" | "release";
  readonly debit: string;
  readonly credit: string;
  /** 0 in a capture of the whole hold and in a release. */
  readonly amount_minor: bigint;
  readonly hold_id: string;
};

/** Transfers accepted together or not at all. */
export type PostingGroup = { readonly asset_id: string; readonly postings: readonly Posting[] };

/** What the ledger says of a step: it stands, or the hold had already been ended the other way. */
export type Verdict = "stands" | "hold_captured" | "hold_released";

/** A hold or a plain transfer between two accounts of the chart, as one step of an operation. */
export function transferOf(
  operation_id: string,
  step: string,
  posting: Pick<Posting, "kind" | "debit" | "credit" | "amount_minor">,
): Posting {
  return { id: deriveUuid(operation_id, step), hold_id: "", ...posting };
}

/** The end of the hold that `hold_step` of the same operation has made, in whole. */
export function endOf(operation_id: string, step: string, kind: "capture" | "release", hold_step: string): Posting {
  const hold_id = deriveUuid(operation_id, hold_step);
  return { id: deriveUuid(operation_id, step), kind, debit: "", credit: "", amount_minor: 0n, hold_id };
}

/** A group of what is not null; a leg of zero is left out of its group. */
export function groupOf(asset_id: string, ...postings: readonly (Posting | null)[]): PostingGroup {
  return { asset_id, postings: postings.filter((posting) => posting !== null) };
}

export function merchantCode(account: string, platform_id: string): string {
  return `merchant:${account}:${platform_id}`;
}

export function floatCode(platform_id: string): string {
  return `float:${platform_id}`;
}

export function suspenseCode(platform_id: string): string {
  return `suspense:${platform_id}`;
}

export const FEES_CODE = "fees";
