// What a crash or a silent merchant left behind goes on by its kind.

import type { DueClaim } from "@cauri/store/claims";
import { type Creation, sweepPayment } from "./create.ts";
import { type Refunding, refundKind } from "./refund-create.ts";

export function sweep(rooms: Creation, refunding: Refunding, due: DueClaim): Promise<void> {
  return due.kind === "refund" ? refundKind.sweep(refunding, due) : sweepPayment(rooms, due);
}
