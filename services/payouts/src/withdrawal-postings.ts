// The transfers behind a withdrawal's steps, with ids that follow from it. Pure: `withdrawal-ledger.ts` sends them.

import type { OutgoingStep } from "@cauri/money/outgoing-postings";
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
import type { Withdrawal } from "./withdrawal.ts";

type Subject = Pick<
  Withdrawal,
  "id" | "account" | "from_platform_id" | "platform_id" | "asset_id" | "amount_minor" | "fee_minor" | "approval"
>;

/**
 * Net and fee set aside together, or not at all. The ledger remembers a refusal for ever, so each approval asks under ids
 * of its own. Where the settlement account is on another platform, the net waits in the clearing between the two.
 */
export function approvalGroup(withdrawal: Subject): PostingGroup {
  const { id, approval, asset_id, amount_minor, fee_minor, from_platform_id } = withdrawal;
  const debit = merchantCode(withdrawal.account, from_platform_id);
  const hold = (step: string, credit: string, held_minor: bigint) =>
    held_minor === 0n ? null : transferOf(id, step, { kind: "hold", debit, credit, amount_minor: held_minor });
  return groupOf(
    asset_id,
    hold(
      `hold ${approval}`,
      crosses(withdrawal) ? clearingCode(from_platform_id) : floatCode(from_platform_id),
      amount_minor,
    ),
    hold(`hold_fee ${approval}`, FEES_CODE, fee_minor),
  );
}

/** The steps of what was approved; null: a withdrawal has no such step. */
export function withdrawalGroup(withdrawal: Subject, step: OutgoingStep): PostingGroup | null {
  const { id, asset_id, amount_minor, platform_id } = withdrawal;
  const [float, suspense] = [floatCode(platform_id), suspenseCode(platform_id)];
  const post = (name: string, debit: string, credit: string) =>
    transferOf(id, name, { kind: "post", debit, credit, amount_minor });
  switch (step) {
    case "capture": {
      const leaves = crosses(withdrawal) && amount_minor > 0n;
      return groupOf(
        asset_id,
        ...ends(withdrawal, "capture"),
        leaves ? post("leave", clearingCode(platform_id), float) : null,
      );
    }
    case "release":
      return groupOf(asset_id, ...ends(withdrawal, "release"));
    case "post_late":
      return groupOf(asset_id, post("late", suspense, float));
    case "post_back":
      return groupOf(asset_id, post("back", float, suspense));
    default:
      return null;
  }
}

function crosses({ from_platform_id, platform_id }: Subject): boolean {
  return from_platform_id !== platform_id;
}

function ends(withdrawal: Subject, kind: "capture" | "release"): (Posting | null)[] {
  const { id, approval, amount_minor, fee_minor } = withdrawal;
  return [
    amount_minor === 0n ? null : endOf(id, kind, kind, `hold ${approval}`),
    fee_minor === 0n ? null : endOf(id, `${kind}_fee`, kind, `hold_fee ${approval}`),
  ];
}

function clearingCode(platform_id: string): string {
  return `interplatform:${platform_id}`;
}
