// How a command runs: its arguments go to an action that speaks to the door and answers what is to be shown.

import type { DescMessage, Message } from "@bufbuild/protobuf";
import { type JsonObject, toJsonForm } from "@cauri/rpc/json-form";
import { Command, InvalidArgumentError } from "commander";
import { type Door, openDoor, type Where } from "./door.ts";
import type { Shown } from "./print.ts";

/** What an action gets: the arguments in their order, the options by name, the operators' door. */
export type Given<O> = {
  readonly args: readonly string[];
  readonly options: O & Where & ForScripts;
  readonly door: Door;
};

/** One JSON document is asked for. */
export type ForScripts = { readonly json?: true };

/** A group of commands: `cauri account …`. */
export function group(name: string, description: string, commands: readonly Command[]): Command {
  const command = new Command(name).description(description);
  for (const sub of commands) command.addCommand(sub);
  return command;
}

/**
 * One command; `example` is what its help shows, without the leading `cauri`. An action that goes on and on has shown
 * everything by itself and answers null.
 */
export function command<O extends object>(
  usage: string,
  description: string,
  example: string,
  build: (command: Command) => Command,
  action: (given: Given<O>) => Promise<Shown | null>,
): Command {
  const [name = "", ...args] = usage.split(" ");
  const made = new Command(name).description(description).allowExcessArguments(false);
  for (const argument of args) made.argument(argument);
  return build(made)
    .addHelpText("after", `\nExample:\n  cauri ${example}`)
    .action(async (...given: unknown[]) => {
      const self = given.at(-1) as Command;
      const options = self.optsWithGlobals<O & Where & ForScripts>();
      const run = async () => action({ args: self.args, options, door: openDoor(options, process.env) });
      const shown = await run().catch((error: unknown) => {
        // Options that are each well formed and don't go together: told as commander tells its own findings.
        if (error instanceof InvalidArgumentError) self.error(`error: ${error.message}`);
        throw error;
      });
      if (shown === null) return;
      process.stdout.write(options.json ? `${JSON.stringify(shown.json, null, 2)}\n` : `${shown.people}\n`);
      process.exitCode = shown.exit ?? 0;
    });
}

/** An answer of the house in the contract's form. */
export function jsonOf(desc: DescMessage, message: Message): JsonObject {
  return toJsonForm(desc, message);
}

/** A field of an answer as it is printed: texts, numbers, switches; a list as its words. */
export function cell(row: JsonObject, field: string): string | number | boolean | null {
  const value = row[field];
  if (Array.isArray(value)) return value.join(", ");
  return typeof value === "object" || value === undefined ? null : value;
}

/** The rows of a list answer. */
export function rowsOf(list: JsonObject): readonly JsonObject[] {
  return Array.isArray(list["data"]) ? (list["data"] as JsonObject[]) : [];
}
