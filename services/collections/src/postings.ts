// The transfers behind each ledger step of a payment, with ids that follow from the payment: a step posted twice is one.
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
import type { LedgerStep, Payment } from "./payment.ts";

/** Money that came in under a payment's name without being that payment. */
export type Mispaid = { readonly amount_minor: bigint; readonly asset_id: string };

type Subject = Pick<Payment, "id" | "account" | "platform_id" | "asset_id" | "amount_minor" | "fee_minor">;

/**
 * The groups of a step, in the order in which they are to be posted. A hold stands in a group of its own before its end:
 * its end is then judged alone, also where an earlier run has posted the hold.
 */
export function groupsOf(payment: Subject, step: Exclude<LedgerStep, "post_suspense" | "none">): PostingGroup[] {
  const group = (...postings: (Posting | null)[]) => groupOf(payment.asset_id, ...postings);
  const { id } = payment;
  const hold = () => group(move(payment, "hold", "hold", floatOf(payment), merchantOf(payment)));
  const captured = () => group(endOf(id, "capture", "capture", "hold"), fee(payment, "fee"));
  const released = () => group(endOf(id, "release", "release", "hold"));
  switch (step) {
    case "hold":
      return [hold()];
    case "hold_capture":
      return [hold(), captured()];
    case "hold_release":
      return [hold(), released()];
    case "capture":
      return [captured()];
    case "release":
      return [released()];
    case "post_late":
      return [group(move(payment, "late", "post", floatOf(payment), merchantOf(payment)), fee(payment, "late_fee"))];
  }
}

/** Unattributed money: into the float it certainly came, whose it is an operator will say. */
export function suspenseGroup(payment: Subject, mispaid: Mispaid): PostingGroup {
  const posting = move(payment, "suspense", "post", floatOf(payment), suspenseCode(payment.platform_id));
  return groupOf(mispaid.asset_id, { ...posting, amount_minor: mispaid.amount_minor });
}

/** The house's two accounts that unattributed money needs, which another asset's may lack. */
export function suspenseAccounts(payment: Subject): string[] {
  return [floatOf(payment), suspenseCode(payment.platform_id)];
}

/** The house's fee, out of what was just credited; a leg of zero is left out. */
function fee(payment: Subject, step: "fee" | "late_fee"): Posting | null {
  if (payment.fee_minor === 0n) return null;
  return { ...move(payment, step, "post", merchantOf(payment), FEES_CODE), amount_minor: payment.fee_minor };
}

function move(payment: Subject, step: string, kind: "post" | "hold", debit: string, credit: string): Posting {
  return transferOf(payment.id, step, { kind, debit, credit, amount_minor: payment.amount_minor });
}

function floatOf(payment: Subject): string {
  return floatCode(payment.platform_id);
}

function merchantOf(payment: Subject): string {
  return merchantCode(payment.account, payment.platform_id);
}
