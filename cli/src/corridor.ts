// `cauri corridor …` and `cauri fee …`: what everyone may use, and at which price.

import type { Message } from "@bufbuild/protobuf";
import {
  CorridorSchema,
  FeeLineSchema,
  FeeOperation,
  ListCorridorsResponseSchema,
  ListFeesResponseSchema,
  ReferenceService,
} from "@cauri/proto/es/cauri/accounts/v1/reference_pb";
import type { JsonObject } from "@cauri/rpc/json-form";
import { type Command, InvalidArgumentError, Option } from "commander";
import { cell, command, group, jsonOf, rowsOf } from "./command.ts";
import { parseMinor, parseWhole } from "./inputs.ts";
import { type Column, type Shown, table } from "./print.ts";

const EXAMPLE_CORRIDOR = "cor_mtn_ci_xof_collection";

const OPERATIONS = {
  collection: FeeOperation.COLLECTION,
  payout: FeeOperation.PAYOUT,
  withdrawal: FeeOperation.WITHDRAWAL,
} as const;

const CORRIDOR_COLUMNS: readonly Column<JsonObject>[] = [
  ["CORRIDOR", (row) => cell(row, "corridor_id")],
  ["PLATFORM", (row) => cell(row, "platform_id")],
  ["ASSET", (row) => cell(row, "asset_id")],
  ["DIRECTION", (row) => cell(row, "direction")],
  ["RAILS", (row) => cell(row, "rails")],
  ["OPEN", (row) => cell(row, "is_open")],
  ["MIN", (row) => cell(row, "min_amount_minor")],
  ["MAX", (row) => cell(row, "max_amount_minor")],
  ["FEE", (row) => priceOf((row["fee"] ?? {}) as JsonObject)],
];

const FEE_COLUMNS: readonly Column<JsonObject>[] = [
  ["OPERATION", (row) => cell(row, "operation")],
  ["ASSET", (row) => cell(row, "asset_id")],
  ["ACCOUNT", (row) => cell(row, "account_id") ?? "everyone"],
  ["PLATFORM", (row) => cell(row, "platform_id") ?? "all"],
  ["PRICE", priceOf],
  ["SINCE", (row) => cell(row, "updated_at")],
];

export function corridorCommands(): Command {
  return group("corridor", "List corridors, open and close them for everyone.", [
    listCorridors(),
    setOpen("open", true),
    setOpen("close", false),
  ]);
}

export function feeCommands(): Command {
  return group("fee", "Set and list prices.", [setFee(), listFees()]);
}

function listCorridors(): Command {
  return command(
    "list",
    "List every corridor, open and closed.",
    "corridor list",
    (made) => made,
    async ({ door }) => {
      const json = jsonOf(ListCorridorsResponseSchema, await door(ReferenceService).listAllCorridors({}));
      return { json, people: table(rowsOf(json), CORRIDOR_COLUMNS, "No corridors.") };
    },
  );
}

function setOpen(name: string, isOpen: boolean): Command {
  const description = isOpen
    ? "Let a corridor take operations again."
    : "Let a corridor take no further operations, for everyone and at once.";
  return command(
    `${name} <corridor>`,
    description,
    `corridor ${name} ${EXAMPLE_CORRIDOR}`,
    (made) => made,
    async ({ args, door }) => {
      const corridor = await door(ReferenceService).setCorridor({ corridorId: args[0] ?? "", isOpen });
      const people = `Corridor ${corridor.corridorId} is ${corridor.isOpen ? "open" : "closed"}.`;
      return { json: jsonOf(CorridorSchema, corridor), people };
    },
  );
}

type FeeOptions = {
  operation: keyof typeof OPERATIONS;
  asset: string;
  account?: string;
  platform?: string;
  percentBps?: number;
  fixedMinor?: bigint;
  minMinor?: bigint;
  maxMinor?: bigint;
};

function setFee(): Command {
  return command<FeeOptions>(
    "set",
    "Set a fee line for operations to come: account and platform, then account, then platform, then the default decide.",
    "fee set --operation collection --asset ast_xof --percent-bps 150 --fixed-minor 0 --min-minor 25",
    (made) =>
      made
        .addOption(
          new Option("--operation <operation>", "what it prices")
            .choices(Object.keys(OPERATIONS))
            .makeOptionMandatory(),
        )
        .requiredOption("--asset <asset>", "asset, e.g. ast_xof")
        .option("--account <account>", "for this account alone")
        .option("--platform <platform>", "for this platform alone")
        .option("--percent-bps <n>", "percent in basis points: 150 is 1.5 %", parseWhole)
        .option("--fixed-minor <n>", "fixed part in minor units", parseMinor)
        .option("--min-minor <n>", "least fee in minor units", parseMinor)
        .option("--max-minor <n>", "most fee in minor units", parseMinor),
    async ({ options, door }) => {
      const { operation, asset, account, platform, percentBps, fixedMinor, minMinor, maxMinor } = options;
      // A line without a price would make the operation free by an oversight; a free one is said, by a zero.
      if (percentBps === undefined && fixedMinor === undefined) {
        throw new InvalidArgumentError("Name --percent-bps, --fixed-minor or both; write 0 for a free operation.");
      }
      const line = await door(ReferenceService).setFee({
        operation: OPERATIONS[operation],
        assetId: asset,
        percentBps: percentBps ?? 0,
        fixedMinor: fixedMinor ?? 0n,
        ...(account === undefined ? {} : { accountId: account }),
        ...(platform === undefined ? {} : { platformId: platform }),
        ...(minMinor === undefined ? {} : { minMinor }),
        ...(maxMinor === undefined ? {} : { maxMinor }),
      });
      return shownLine(line);
    },
  );
}

function listFees(): Command {
  return command(
    "list",
    "List every fee line.",
    "fee list",
    (made) => made,
    async ({ door }) => {
      const json = jsonOf(ListFeesResponseSchema, await door(ReferenceService).listFees({}));
      return { json, people: table(rowsOf(json), FEE_COLUMNS, "No fee lines.") };
    },
  );
}

function shownLine(line: Message): Shown {
  const json = jsonOf(FeeLineSchema, line);
  return { json, people: table([json], FEE_COLUMNS, "") };
}

/** A price in words: `1.50 % + 25, at least 10, at most 500`. */
function priceOf(fee: JsonObject): string {
  const bps = Number(fee["percent_bps"] ?? 0);
  const parts = [`${(bps / 100).toFixed(2)} %${fee["fixed_minor"] ? ` + ${fee["fixed_minor"]}` : ""}`];
  if (typeof fee["min_minor"] === "number") parts.push(`at least ${fee["min_minor"]}`);
  if (typeof fee["max_minor"] === "number") parts.push(`at most ${fee["max_minor"]}`);
  return parts.join(", ");
}
