// The transfers behind each step of an operation that sends money out, with ids that follow from the operation: a step
// posted twice is one. Pure.

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
} from "./posting.ts";

type Subject = {
  readonly id: string;
  readonly account: string;
  readonly platform_id: string;
  readonly asset_id: string;
  readonly amount_minor: bigint;
  readonly fee_minor: bigint;
};

/**
 * `post_return`: the rail sent it back, it is the merchant's again. `post_late`: it left after all, upon a failure that had
 * given the funds back. `post_back`: the rail calls it failed after its success. Of the last two an operator must say whose
 * loss or gain they are.
 */
export type OutgoingStep = "capture" | "release" | "post_return" | "post_late" | "post_back";

/** Amount and fee set aside together, or not at all. */
export function reserveGroup(operation: Subject): PostingGroup {
  const { id, amount_minor, fee_minor } = operation;
  const debit = merchantCode(operation.account, operation.platform_id);
  const credit = floatCode(operation.platform_id);
  const fee = { kind: "hold", debit, credit: FEES_CODE, amount_minor: fee_minor } as const;
  return groupOf(
    operation.asset_id,
    transferOf(id, "hold", { kind: "hold", debit, credit, amount_minor }),
    fee_minor === 0n ? null : transferOf(id, "hold_fee", fee),
  );
}

export function groupFor(operation: Subject, step: OutgoingStep): PostingGroup {
  const { id, amount_minor, asset_id } = operation;
  const float = floatCode(operation.platform_id);
  const suspense = suspenseCode(operation.platform_id);
  const post = (name: string, debit: string, credit: string) =>
    groupOf(asset_id, transferOf(id, name, { kind: "post", debit, credit, amount_minor }));
  switch (step) {
    case "capture":
    case "release":
      return groupOf(asset_id, ...ends(operation, step));
    case "post_return":
      // The fee stays: the money had been sent.
      return post("return", float, merchantCode(operation.account, operation.platform_id));
    case "post_late":
      return post("late", suspense, float);
    case "post_back":
      return post("back", float, suspense);
  }
}

function ends({ id, fee_minor }: Subject, kind: "capture" | "release"): (Posting | null)[] {
  return [endOf(id, kind, kind, "hold"), fee_minor === 0n ? null : endOf(id, `${kind}_fee`, kind, "hold_fee")];
}

/** Money that has left under an operation's name without being that operation: whose it is an operator will say. */
export function suspenseGroup(
  operation: Subject,
  mispaid: { readonly amount_minor: bigint; readonly asset_id: string },
): PostingGroup {
  const [debit, credit] = suspenseAccounts(operation);
  const posting = { kind: "post", debit, credit, amount_minor: mispaid.amount_minor } as const;
  return groupOf(mispaid.asset_id, transferOf(operation.id, "suspense", posting));
}

/** The house's two accounts that such money needs, which another asset's may lack. */
export function suspenseAccounts({ platform_id }: Pick<Subject, "platform_id">): [string, string] {
  return [suspenseCode(platform_id), floatCode(platform_id)];
}
