// The transfers behind each step of this room, with ids that follow from the operation: a step posted twice is one.
// Pure: `ledger.ts` sends them.

import {
  endOf,
  FEES_CODE,
  floatCode,
  groupOf,
  merchantCode,
  type Posting,
  type PostingGroup,
  suspenseCode,
  transferOf,
} from "@cauri/money/posting";
import type { Movement } from "./movement.ts";
import type { LedgerStep, Payout } from "./payout.ts";

type Subject = Pick<Payout, "id" | "account" | "platform_id" | "asset_id" | "amount_minor" | "fee_minor">;
export type PostedStep = Exclude<LedgerStep, "none" | "post_suspense">;

/** Amount and fee set aside together, or not at all. */
export function reserveGroup(payout: Subject): PostingGroup {
  const { id, amount_minor, fee_minor } = payout;
  const debit = merchantCode(payout.account, payout.platform_id);
  const credit = floatCode(payout.platform_id);
  const fee = { kind: "hold", debit, credit: FEES_CODE, amount_minor: fee_minor } as const;
  return groupOf(
    payout.asset_id,
    transferOf(id, "hold", { kind: "hold", debit, credit, amount_minor }),
    fee_minor === 0n ? null : transferOf(id, "hold_fee", fee),
  );
}

export function groupFor(payout: Subject, step: PostedStep): PostingGroup {
  const { id, amount_minor, asset_id } = payout;
  const float = floatCode(payout.platform_id);
  switch (step) {
    case "capture":
    case "release":
      return groupOf(asset_id, ...ends(payout, step));
    case "post_return": {
      // The fee stays: the payout was made.
      const credit = merchantCode(payout.account, payout.platform_id);
      return groupOf(asset_id, transferOf(id, "return", { kind: "post", debit: float, credit, amount_minor }));
    }
    case "post_late": {
      const debit = suspenseCode(payout.platform_id);
      return groupOf(asset_id, transferOf(id, "late", { kind: "post", debit, credit: float, amount_minor }));
    }
  }
}

function ends({ id, fee_minor }: Subject, kind: "capture" | "release"): (Posting | null)[] {
  return [endOf(id, kind, kind, "hold"), fee_minor === 0n ? null : endOf(id, `${kind}_fee`, kind, "hold_fee")];
}

/** Money that has left under a payout's name without being that payout: whose it is an operator will say. */
export function suspenseGroup(
  payout: Subject,
  mispaid: { readonly amount_minor: bigint; readonly asset_id: string },
): PostingGroup {
  const [debit, credit] = [suspenseCode(payout.platform_id), floatCode(payout.platform_id)];
  const posting = { kind: "post", debit, credit, amount_minor: mispaid.amount_minor } as const;
  return groupOf(mispaid.asset_id, transferOf(payout.id, "suspense", posting));
}

export function suspenseAccounts({ platform_id }: Subject): string[] {
  return [suspenseCode(platform_id), floatCode(platform_id)];
}

/** A transfer moves between two merchants; a rebalance leaves what the house owes between its platforms. */
export function movementGroup(movement: Movement): PostingGroup {
  const { id, kind, amount_minor, asset_id, platform_id, to_platform_id } = movement;
  const from = merchantCode(movement.account, platform_id);
  const to = merchantCode(movement.receiver, to_platform_id);
  const post = (step: string, debit: string, credit: string) =>
    transferOf(id, step, { kind: "post", debit, credit, amount_minor });
  if (kind === "transfer") return groupOf(asset_id, post("transfer", from, to));
  return groupOf(
    asset_id,
    post("leave", from, `interplatform:${platform_id}`),
    post("reach", `interplatform:${to_platform_id}`, to),
  );
}
