// What a crash or a silent merchant left behind goes on by its kind.

import type { DueClaim } from "@cauri/store/claims";
import { type Creation, payoutKind } from "./create.ts";
import { type Moving, sweepMovement } from "./movement-create.ts";
import type { Withdrawing } from "./withdrawal-create.ts";
import { sweepApproval } from "./withdrawal-decide.ts";

export function sweep(rooms: Creation & Moving & Withdrawing, due: DueClaim): Promise<void> {
  if (due.kind === "payout") return payoutKind.sweep(rooms, due);
  return due.kind === "approval" ? sweepApproval(rooms, due) : sweepMovement(rooms, due);
}
