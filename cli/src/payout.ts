// `cauri payout …`

import { PayoutSchema, PayoutService } from "@cauri/proto/es/cauri/payouts/v1/payouts_pb";
import type { Command } from "commander";
import { command, group, jsonOf } from "./command.ts";

export function payoutCommands(): Command {
  return group("payout", "Act on payouts.", [cancel()]);
}

function cancel(): Command {
  return command(
    "cancel <payout>",
    "Cancel a payout that has not left; its funds are available again.",
    "payout cancel PYT-7F3K9Q2MBX4T",
    (made) => made,
    async ({ args, door }) => {
      const payout = await door(PayoutService).cancelPayout({ id: args[0] ?? "" });
      const json = jsonOf(PayoutSchema, payout);
      return { json, people: `Payout ${payout.reference} is cancelled; its funds are available again.` };
    },
  );
}
