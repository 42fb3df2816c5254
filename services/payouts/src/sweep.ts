// What a crash or a silent merchant left behind goes on by its kind.

import type { DueClaim } from "@cauri/store/claims";
import { type Creation, payoutKind } from "./create.ts";
import { type Moving, sweepMovement } from "./movement-create.ts";

export function sweep(rooms: Creation & Moving, due: DueClaim): Promise<void> {
  return due.kind === "payout" ? payoutKind.sweep(rooms, due) : sweepMovement(rooms, due);
}
