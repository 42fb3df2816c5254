// `cauri ledger …`

import { LedgerService, VerifyResponseSchema } from "@cauri/proto/es/cauri/ledger/v1/ledger_pb";
import type { Command } from "commander";
import { bookCommands } from "./books.ts";
import { command, group, jsonOf } from "./command.ts";

/** As long as the RPC itself may take: a large ledger is read whole. */
const VERIFY_TIMEOUT_MS = 600_000;

export function ledgerCommands(): Command {
  return group("ledger", "Read the books and check them.", [verify(), ...bookCommands()]);
}

function verify(): Command {
  return command<{ resume?: true }>(
    "verify",
    "Recompute every balance from the transfers and check every invariant; exit 1 unless all hold.",
    "ledger verify",
    (made) => made.option("--resume", "go on where the last verification stopped or ended"),
    async ({ options, door }) => {
      const asked = { resume: options.resume === true };
      const found = await door(LedgerService).verify(asked, { timeoutMs: VERIFY_TIMEOUT_MS });
      const read = `${found.transfers} transfers, ${found.entries} entries and ${found.batches} batches were read`;
      const first = found.firstBadBatch;
      const people = found.ok
        ? `The books hold: ${read}.`
        : [
            `The books do NOT hold (${read}):`,
            ...(first === undefined ? [] : [`First bad: ${first}.`]),
            ...found.problems.map((problem) => `- ${problem}`),
          ].join("\n");
      return { json: jsonOf(VerifyResponseSchema, found), people, exit: found.ok ? 0 : 1 };
    },
  );
}
