// The ledger as this room asks it: the steps of payouts, and what moves inside the house.

import { type OutgoingLedger, openOutgoingLedger } from "@cauri/events/outgoing-ledger";
import type { LedgerClient } from "@cauri/rpc/posting";
import type { Movement } from "./movement.ts";
import { movementGroup } from "./postings.ts";

export type Ledger = OutgoingLedger & {
  /** Moves money inside the house. */
  move(movement: Movement): Promise<"moved" | "insufficient_funds">;
};

export function openLedger(client: LedgerClient): Ledger {
  const ledger = openOutgoingLedger(client);
  return {
    ...ledger,
    async move(movement) {
      return (await ledger.spend(movement, movementGroup(movement))) === "insufficient_funds"
        ? "insufficient_funds"
        : "moved";
    },
  };
}
