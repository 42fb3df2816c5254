// `cauri withdrawal …`

import { WithdrawalSchema, WithdrawalService } from "@cauri/proto/es/cauri/payouts/v1/withdrawals_pb";
import type { Command } from "commander";
import { command, group, jsonOf } from "./command.ts";

const EXAMPLE = "WDR-7F3K9Q2MBX4T";

export function withdrawalCommands(): Command {
  return group("withdrawal", "Decide about withdrawal requests.", [
    decide(
      "approve",
      "approveWithdrawal",
      "Set the funds of a withdrawal request aside and pay it; refused for want of funds it stays requested.",
    ),
    decide("reject", "rejectWithdrawal", "Reject a withdrawal request; nothing was reserved for it."),
  ]);
}

function decide(name: string, rpc: "approveWithdrawal" | "rejectWithdrawal", description: string): Command {
  return command<{ note?: string }>(
    `${name} <request>`,
    description,
    `withdrawal ${name} ${EXAMPLE} --note "Checked against the invoice"`,
    (made) => made.option("--note <text>", "text for the merchant, at most 500 characters"),
    async ({ args, options: { note }, door }) => {
      const asked = { id: args[0] ?? "", ...(note === undefined ? {} : { note }) };
      const withdrawal = await door(WithdrawalService)[rpc](asked);
      const json = jsonOf(WithdrawalSchema, withdrawal);
      return { json, people: `Withdrawal request ${withdrawal.reference} is ${String(json["status"])}.` };
    },
  );
}
