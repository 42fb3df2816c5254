// The `cauri` command line: every command of the operators' door, for people and for scripts.

import { Command, CommanderError } from "commander";
import { accountCommands } from "./account.ts";
import { corridorCommands, feeCommands } from "./corridor.ts";
import { refusedBy } from "./door.ts";
import { keyCommands } from "./key.ts";
import { ledgerCommands } from "./ledger.ts";
import { listenCommand } from "./listen.ts";
import { payoutCommands } from "./payout.ts";
import { sandboxCommands } from "./sandbox.ts";
import { triggerCommand } from "./trigger.ts";
import { webhookCommands } from "./webhook.ts";
import { withdrawalCommands } from "./withdrawal.ts";

/** Exit codes that scripts rely on. */
const FAILED = 1;
const WRONG_USAGE = 2;

const wants_json = process.argv.includes("--json");

const program = new Command("cauri")
  .description("Operates a Cauri house: accounts, keys, corridors, prices, the sandbox, the ledger, webhooks.")
  .option("--url <url>", "address of the house's admin door (else CAURI_ADMIN_URL, else the data folder's local.json)")
  .option("--token <token>", "operator token (else CAURI_OPERATOR_TOKEN, else the data folder's local.json)")
  .option("--data <folder>", "data folder of a local house (else CAURI_DATA, else .cauri)")
  .option("--json", "print exactly one JSON document")
  .configureHelp({ showGlobalOptions: true })
  .addHelpText(
    "after",
    "\nExamples:\n  cauri account list\n  cauri key create acct_01KAE8QK8Q5V6ZJ9T2N4B7C1XW --mode test --scopes all",
  );

for (const command of [
  accountCommands(),
  keyCommands(),
  corridorCommands(),
  feeCommands(),
  payoutCommands(),
  withdrawalCommands(),
  sandboxCommands(),
  ledgerCommands(),
  webhookCommands(),
  listenCommand(),
  triggerCommand(),
]) {
  program.addCommand(command);
}
inherit(program);

try {
  await program.parseAsync();
} catch (error) {
  process.exitCode = tell(error);
}

/** Subcommands end and print as the program does: commander doesn't hand these on to commands that are added ready-made. */
function inherit(command: Command): void {
  command.exitOverride().showHelpAfterError("(--help shows an example)");
  command.configureHelp({ showGlobalOptions: true });
  for (const sub of command.commands) inherit(sub);
}

/** Says what went wrong and answers the exit code; with --json standard output gets its one document here too. */
function tell(error: unknown): number {
  if (error instanceof CommanderError) {
    // Help and version were asked for, or the help of a group that lacks its command: commander has printed it.
    if (error.exitCode === 0) return 0;
    const sentence = error.code === "commander.help" ? "Name a command." : error.message.replace(/^error: /, "");
    if (wants_json) printError("invalid_request", sentence);
    return WRONG_USAGE;
  }
  const { code, message } = refusedBy(error);
  process.stderr.write(`${message}\n`);
  if (wants_json) printError(code, message);
  return FAILED;
}

function printError(code: string, message: string): void {
  process.stdout.write(`${JSON.stringify({ error: { code, message } })}\n`);
}
