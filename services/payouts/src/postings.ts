// The transfers behind what moves inside the house, with ids that follow from the operation: a step posted twice is one.
// Pure. Those of payouts are in packages/money, with everything else that goes out.

import { groupOf, merchantCode, type PostingGroup, transferOf } from "@cauri/money/posting";
import type { Movement } from "./movement.ts";

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
