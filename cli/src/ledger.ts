// `cauri ledger …`

import { LedgerService, VerifyResponseSchema } from "@cauri/proto/es/cauri/ledger/v1/ledger_pb";
import type { Command } from "commander";
import { command, group, jsonOf } from "./command.ts";

/** As long as the RPC itself may take: a large ledger is read whole. */
const VERIFY_TIMEOUT_MS = 600_000;

export function ledgerCommands(): Command {
  return group("ledger", "Check the books.", [verify()]);
}

function verify(): Command {
  return command(
    "verify",
    "Recompute every balance from the transfers and check every invariant; exit 1 unless all hold.",
    "ledger verify",
    (made) => made,
    async ({ door }) => {
      const found = await door(LedgerService).verify({}, { timeoutMs: VERIFY_TIMEOUT_MS });
      const read = `${found.transfers} transfers, ${found.entries} entries and ${found.batches} batches were read`;
      const people = found.ok
        ? `The books hold: ${read}.`
        : [`The books do NOT hold (${read}):`, ...found.problems.map((problem) => `- ${problem}`)].join("\n");
      return { json: jsonOf(VerifyResponseSchema, found), people, exit: found.ok ? 0 : 1 };
    },
  );
}
