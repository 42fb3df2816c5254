// Lists that are read page by page: the options that ask for one, and the line that says how to go on.

import type { JsonObject } from "@cauri/rpc/json-form";
import type { Command } from "commander";
import { cell } from "./command.ts";
import { parseWhole } from "./inputs.ts";

export type PageOptions = { limit?: number; cursor?: string };

/** The options of a page; `usual` is what the house takes where no limit is given, if a person should know. */
export function paged(made: Command, most: number, usual?: number): Command {
  return made
    .option("--limit <n>", `rows at most, 1 to ${most}${usual === undefined ? "" : ` (${usual})`}`, parseWhole)
    .option("--cursor <cursor>", "go on where a page ended");
}

export function pageOf({ limit, cursor }: PageOptions) {
  return { ...(limit === undefined ? {} : { limit }), ...(cursor === undefined ? {} : { cursor }) };
}

export function withMore(text: string, page: JsonObject): string {
  const cursor = cell(page, "next_cursor");
  return cursor === null ? text : `${text}\nMore: --cursor ${cursor}`;
}
