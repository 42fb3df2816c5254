// `cauri ledger account|entries|statement|transfer|trial-balance|clearing|archives`: the books, now and as of any instant.

import type { Timestamp } from "@bufbuild/protobuf/wkt";
import {
  BookAccountSchema,
  BooksService,
  ListArchivesResponseSchema,
  ListClearingResponseSchema,
  ListEntriesResponseSchema,
  StatementSchema,
  TimeBasis,
  TransferRecordSchema,
  TrialBalanceSchema,
} from "@cauri/proto/es/cauri/ledger/v1/books_pb";
import { Book } from "@cauri/proto/es/cauri/ledger/v1/ledger_pb";
import type { JsonObject } from "@cauri/rpc/json-form";
import { type Command, Option } from "commander";
import { cell, command, jsonOf, rowsOf } from "./command.ts";
import { parseInstant, parseWhole } from "./inputs.ts";
import { type PageOptions, paged, pageOf, withMore } from "./page.ts";
import { type Column, facts, table } from "./print.ts";

const EXAMPLE_CODE = "merchant:acct_01KAE8QK8Q5V6ZJ9T2N4B7C1XW:plt_mtn_ci";

const BOOKS = { live: Book.LIVE, test: Book.TEST } as const;
const BASES = { recorded: TimeBasis.RECORDED, effective: TimeBasis.EFFECTIVE } as const;

/** As long as the RPC itself may take: it reads every account. */
const TRIAL_TIMEOUT_MS = 60_000;

type AccountOptions = { asset: string; mode: keyof typeof BOOKS };
type PastOptions = { at?: Timestamp; by?: keyof typeof BASES };
type LaneOptions = { asset?: string; mode?: keyof typeof BOOKS };

export function bookCommands(): readonly Command[] {
  return [account(), entries(), statement(), transfer(), trialBalance(), clearing(), archives()];
}

function account(): Command {
  return command<AccountOptions & PastOptions>(
    "account <code>",
    "Show an account's balances, now or as of an instant.",
    `ledger account ${EXAMPLE_CODE} --asset ast_xof --mode test --at 2026-11-20T18:53:00Z`,
    (made) => past(named(made)),
    async ({ args, options, door }) => {
      const answer = await door(BooksService).getBookAccount({ ...nameOf(args, options), ...pastOf(options) });
      const json = jsonOf(BookAccountSchema, answer);
      const people = facts([
        ["Account", cell(json, "code")],
        ["Asset", `${cell(json, "asset_id")}, ${cell(json, "book")}`],
        ["As of", cell(json, "at") === null ? "now" : `${cell(json, "at")}, by ${cell(json, "basis")} time`],
        ["Balance", `${sum(json, "balances", "balance_minor")} (${cell(json, "normal_side")})`],
        ["Available", sum(json, "balances", "available_minor")],
        ["Debits", sidesOf(json, "debits")],
        ["Credits", sidesOf(json, "credits")],
        ["May be overdrawn", !cell(json, "no_overdraft")],
      ]);
      return { json, people };
    },
  );
}

function entries(): Command {
  return command<AccountOptions & PageOptions>(
    "entries <code>",
    "List an account's entries, newest first.",
    `ledger entries ${EXAMPLE_CODE} --asset ast_xof --mode test --limit 20`,
    (made) => paged(named(made), 500),
    async ({ args, options, door }) => {
      const answer = await door(BooksService).listEntries({ ...nameOf(args, options), ...pageOf(options) });
      const json = jsonOf(ListEntriesResponseSchema, answer);
      const before = cell(json, "archived_before");
      const archived = before === null ? "" : `\nEntries recorded before ${before} are in archived months.`;
      return { json, people: withMore(table(rowsOf(json), ENTRY_COLUMNS, "No entries."), json) + archived };
    },
  );
}

function statement(): Command {
  return command<AccountOptions & PageOptions & { from: Timestamp; to: Timestamp; by?: keyof typeof BASES }>(
    "statement <code>",
    "Show what happened on an account between two instants: opening, lines, closing.",
    `ledger statement ${EXAMPLE_CODE} --asset ast_xof --mode test --from 2026-11-01 --to 2026-12-01 --by effective`,
    (made) =>
      paged(named(made), 1000)
        .requiredOption("--from <time>", "its first instant, e.g. 2026-11-01 or 2026-11-01T08:00:00Z", parseInstant)
        .requiredOption("--to <time>", "the first instant after it", parseInstant)
        .addOption(byOption()),
    async ({ args, options, door }) => {
      const { from, to, by } = options;
      const asked = { ...nameOf(args, options), ...pageOf(options), from, to, basis: BASES[by ?? "recorded"] };
      const json = jsonOf(StatementSchema, await door(BooksService).getStatement(asked));
      const lines = Array.isArray(json["lines"]) ? (json["lines"] as JsonObject[]) : [];
      const people = [
        `${args[0]} from ${cell(json, "from")} to before ${cell(json, "to")}, by ${cell(json, "basis")} time`,
        `Opening  ${sum(json, "opening", "balance_minor")}, available ${sum(json, "opening", "available_minor")}`,
        withMore(table(lines, ENTRY_COLUMNS, "No lines."), json),
        `Closing  ${sum(json, "closing", "balance_minor")}, available ${sum(json, "closing", "available_minor")}`,
      ];
      return { json, people: people.join("\n") };
    },
  );
}

function transfer(): Command {
  return command(
    "transfer <id>",
    "Show a transfer, or the refusal remembered for its id, with its group and its operation.",
    "ledger transfer 0199a8c2-5d0e-8f4b-9c1d-2f6a7b8c9d0e",
    (made) => made,
    async ({ args, door }) => {
      const json = jsonOf(TransferRecordSchema, await door(BooksService).getTransfer({ transferId: args[0] ?? "" }));
      const one = json["transfer"] as JsonObject;
      const outcome = cell(one, "state") ?? `refused: ${cell(one, "refused")}`;
      const people = [
        facts([
          ["Transfer", cell(one, "transfer_id")],
          [
            "What",
            `${cell(one, "kind")} of ${cell(one, "amount_minor")} ${cell(one, "asset_id")}, ${cell(one, "book")}`,
          ],
          ["Debit", cell(one, "debit_code")],
          ["Credit", cell(one, "credit_code")],
          ["Outcome", outcome],
          ["Ends hold", cell(one, "hold_id")],
          ["Expires", cell(one, "expires_at")],
          ["Recorded", `${cell(one, "recorded_at")}, batch ${cell(one, "batch")}, place ${cell(one, "position")}`],
          ["Effective", cell(one, "effective_at")],
          ["Operation", cell(one, "operation_id")],
        ]),
        "",
        "Its group:",
        table(listOf(json, "group"), TRANSFER_COLUMNS, "None: it was refused."),
        "",
        "Its operation:",
        table(listOf(json, "operation"), TRANSFER_COLUMNS, "No transfer stands."),
      ];
      return { json, people: people.join("\n") };
    },
  );
}

function trialBalance(): Command {
  return command<LaneOptions & PastOptions>(
    "trial-balance",
    "Show the sums per kind of account in each asset and book, now or as of an instant; exit 1 unless debits equal credits.",
    "ledger trial-balance --asset ast_xof --mode live --at 2026-11-30T23:59:59.999Z --by effective",
    (made) => past(laned(made)),
    async ({ options, door }) => {
      const asked = { ...laneOf(options), ...pastOf(options) };
      const answer = await door(BooksService).getTrialBalance(asked, { timeoutMs: TRIAL_TIMEOUT_MS });
      const json = jsonOf(TrialBalanceSchema, answer);
      const lanes = rowsOf(json).map((lane) =>
        [
          `${cell(lane, "asset_id")}, ${cell(lane, "book")}`,
          table(listOf(lane, "lines"), TRIAL_COLUMNS, "No accounts."),
          `Debits ${cell(lane, "debits_posted_minor")}, credits ${cell(lane, "credits_posted_minor")}; set aside: debits ` +
            `${cell(lane, "debits_pending_minor")}, credits ${cell(lane, "credits_pending_minor")}` +
            `${lane["balanced"] === true ? "" : " - these do NOT balance"}`,
        ].join("\n"),
      );
      return { json, people: lanes.join("\n\n") || "No accounts are open.", exit: answer.balanced ? 0 : 1 };
    },
  );
}

function clearing(): Command {
  return command<LaneOptions & { limit?: number }>(
    "clearing",
    "List the accounts that should be empty and are not, the oldest open item first.",
    "ledger clearing --mode live",
    (made) => laned(made).option("--limit <n>", "accounts at most, 1 to 200 (50)", parseWhole),
    async ({ options, door }) => {
      const { limit } = options;
      const asked = { ...laneOf(options), ...(limit === undefined ? {} : { limit }) };
      const json = jsonOf(ListClearingResponseSchema, await door(BooksService).listClearing(asked));
      const more = json["has_more"] === true ? "\nThere are more: see --limit." : "";
      return { json, people: table(rowsOf(json), CLEARING_COLUMNS, "All clearing accounts are empty.") + more };
    },
  );
}

function archives(): Command {
  return command(
    "archives",
    "List the archived months: their files, and where each lane's chain stood at their end.",
    "ledger archives",
    (made) => made,
    async ({ door }) => {
      const json = jsonOf(ListArchivesResponseSchema, await door(BooksService).listArchives({}));
      const lines = rowsOf(json).flatMap((archive) =>
        listOf(archive, "anchors").map((anchor) => ({ ...archive, ...anchor })),
      );
      return { json, people: table(lines, ARCHIVE_COLUMNS, "No month is archived.") };
    },
  );
}

const ARCHIVE_COLUMNS: readonly Column<JsonObject>[] = [
  ["MONTH", (row) => cell(row, "month")],
  ["ASSET", (row) => cell(row, "asset_id")],
  ["BOOK", (row) => cell(row, "book")],
  ["LAST BATCH", (row) => cell(row, "batch")],
  ["HASH", (row) => cell(row, "hash")],
  ["WRITTEN", (row) => cell(row, "written_at")],
  ["TAKEN AWAY", (row) => cell(row, "removed_at")],
  ["FILE", (row) => cell(row, "file")],
];

const ENTRY_COLUMNS: readonly Column<JsonObject>[] = [
  ["RECORDED", (row) => cell(row, "recorded_at")],
  ["EFFECTIVE", (row) => (cell(row, "effective_at") === cell(row, "recorded_at") ? null : cell(row, "effective_at"))],
  ["KIND", (row) => cell(row, "kind")],
  ["DEBIT", (row) => cell(row, "debits_posted_minor")],
  ["CREDIT", (row) => cell(row, "credits_posted_minor")],
  ["HELD DEBIT", (row) => cell(row, "debits_pending_minor")],
  ["HELD CREDIT", (row) => cell(row, "credits_pending_minor")],
  ["BALANCE", (row) => sum(row, "after", "balance_minor")],
  ["AVAILABLE", (row) => sum(row, "after", "available_minor")],
  ["OTHER SIDE", (row) => cell(row, "counterparty_code")],
  ["OPERATION", (row) => cell(row, "operation_id")],
  ["TRANSFER", (row) => cell(row, "transfer_id")],
];

const TRANSFER_COLUMNS: readonly Column<JsonObject>[] = [
  ["RECORDED", (row) => cell(row, "recorded_at")],
  ["KIND", (row) => cell(row, "kind")],
  ["AMOUNT", (row) => cell(row, "amount_minor")],
  ["DEBIT", (row) => cell(row, "debit_code")],
  ["CREDIT", (row) => cell(row, "credit_code")],
  ["STATE", (row) => cell(row, "state")],
  ["TRANSFER", (row) => cell(row, "transfer_id")],
];

const TRIAL_COLUMNS: readonly Column<JsonObject>[] = [
  ["KIND", (row) => cell(row, "kind")],
  ["PLATFORM", (row) => cell(row, "platform_id")],
  ["ACCOUNTS", (row) => cell(row, "accounts")],
  ["DEBITS", (row) => sum(row, "balances", "debits_posted_minor")],
  ["CREDITS", (row) => sum(row, "balances", "credits_posted_minor")],
  ["HELD DEBITS", (row) => sum(row, "balances", "debits_pending_minor")],
  ["HELD CREDITS", (row) => sum(row, "balances", "credits_pending_minor")],
  ["BALANCE", (row) => sum(row, "balances", "balance_minor")],
  ["SIDE", (row) => cell(row, "normal_side")],
];

const CLEARING_COLUMNS: readonly Column<JsonObject>[] = [
  ["ACCOUNT", (row) => cell(row, "code")],
  ["ASSET", (row) => cell(row, "asset_id")],
  ["BOOK", (row) => cell(row, "book")],
  ["BALANCE", (row) => sum(row, "balances", "balance_minor")],
  ["OLDEST", (row) => cell(row, "oldest_recorded_at")],
  ["OPERATION", (row) => cell(row, "oldest_operation_id")],
  ["TRANSFER", (row) => cell(row, "oldest_transfer_id")],
];

function named(made: Command): Command {
  return made
    .requiredOption("--asset <asset>", "asset, e.g. ast_xof")
    .addOption(new Option("--mode <mode>", "book").choices(Object.keys(BOOKS)).default("live"));
}

function laned(made: Command): Command {
  return made
    .option("--asset <asset>", "this asset alone")
    .addOption(new Option("--mode <mode>", "this book alone").choices(Object.keys(BOOKS)));
}

function past(made: Command): Command {
  return made
    .option(
      "--at <time>",
      "as of this instant, e.g. 2026-11-20T18:53:00Z; a day alone is its first instant",
      parseInstant,
    )
    .addOption(byOption());
}

function byOption(): Option {
  return new Option(
    "--by <time>",
    "the time that counts: as recorded, or as effective in the world (recorded)",
  ).choices(Object.keys(BASES));
}

function nameOf(args: readonly string[], { asset, mode }: AccountOptions) {
  return { code: args[0] ?? "", assetId: asset, book: BOOKS[mode] };
}

function pastOf({ at, by }: PastOptions) {
  return { ...(at === undefined ? {} : { at }), ...(by === undefined ? {} : { basis: BASES[by] }) };
}

function laneOf({ asset, mode }: LaneOptions) {
  return { ...(asset === undefined ? {} : { assetId: asset }), ...(mode === undefined ? {} : { book: BOOKS[mode] }) };
}

function sidesOf(json: JsonObject, side: "debits" | "credits"): string {
  const pending = sum(json, "balances", `${side}_pending_minor`);
  return `${sum(json, "balances", `${side}_posted_minor`)}, and ${pending} set aside`;
}

function sum(row: JsonObject, balances: string, name: string): number {
  return Number(((row[balances] ?? {}) as JsonObject)[name]);
}

function listOf(json: JsonObject, field: string): readonly JsonObject[] {
  return Array.isArray(json[field]) ? (json[field] as JsonObject[]) : [];
}
