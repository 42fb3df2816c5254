// The transfers behind each ledger step of a payment, with ids that follow from the payment: a step posted twice is one.
// Pure: `ledger.ts` sends them.

import { deriveUuid } from "@cauri/money/ids";
import type { LedgerStep, Payment } from "./payment.ts";

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

/** Money that came in under a payment's name without being that payment. */
export type Mispaid = { readonly amount_minor: bigint; readonly asset_id: string };

type Subject = Pick<Payment, "id" | "account" | "platform_id" | "asset_id" | "amount_minor" | "fee_minor">;

/**
 * The groups of a step, in the order in which they are to be posted. A hold stands in a group of its own before its end:
 * its end is then judged alone, also where an earlier run has posted the hold.
 */
export function groupsOf(payment: Subject, step: Exclude<LedgerStep, "post_suspense">): PostingGroup[] {
  const group = (...postings: (Posting | null)[]): PostingGroup => ({
    asset_id: payment.asset_id,
    postings: postings.filter((posting) => posting !== null),
  });
  switch (step) {
    case "hold":
      return [group(hold(payment))];
    case "hold_capture":
      return [group(hold(payment)), group(end(payment, "capture"), fee(payment, "fee"))];
    case "hold_release":
      return [group(hold(payment)), group(end(payment, "release"))];
    case "capture":
      return [group(end(payment, "capture"), fee(payment, "fee"))];
    case "release":
      return [group(end(payment, "release"))];
    case "post_late":
      return [group(post(payment, "late", floatOf(payment), merchantOf(payment)), fee(payment, "late_fee"))];
  }
}

/** Unattributed money: into the float it certainly came, whose it is an operator will say. */
export function suspenseGroup(payment: Subject, mispaid: Mispaid): PostingGroup {
  const suspense = `suspense:${payment.platform_id}`;
  const posting = post(payment, "suspense", floatOf(payment), suspense);
  return { asset_id: mispaid.asset_id, postings: [{ ...posting, amount_minor: mispaid.amount_minor }] };
}

/** The house's two accounts that unattributed money needs, which another asset's may lack. */
export function suspenseAccounts(payment: Subject): string[] {
  return [floatOf(payment), `suspense:${payment.platform_id}`];
}

function hold(payment: Subject): Posting {
  return {
    id: deriveUuid(payment.id, "hold"),
    kind: "hold",
    debit: floatOf(payment),
    credit: merchantOf(payment),
    amount_minor: payment.amount_minor,
    hold_id: "",
  };
}

function end(payment: Subject, kind: "capture" | "release"): Posting {
  return {
    id: deriveUuid(payment.id, kind),
    kind,
    debit: "",
    credit: "",
    amount_minor: 0n,
    hold_id: deriveUuid(payment.id, "hold"),
  };
}

/** The house's fee, out of what was just credited; a leg of zero is left out. */
function fee(payment: Subject, step: "fee" | "late_fee"): Posting | null {
  if (payment.fee_minor === 0n) return null;
  return { ...post(payment, step, merchantOf(payment), "fees"), amount_minor: payment.fee_minor };
}

function post(payment: Subject, step: string, debit: string, credit: string): Posting {
  return {
    id: deriveUuid(payment.id, step),
    kind: "post",
    debit,
    credit,
    amount_minor: payment.amount_minor,
    hold_id: "",
  };
}

function floatOf(payment: Subject): string {
  return `float:${payment.platform_id}`;
}

function merchantOf(payment: Subject): string {
  return `merchant:${payment.account}:${payment.platform_id}`;
}
