// `cauri account …`

import type { Message } from "@bufbuild/protobuf";
import {
  AccountSchema,
  AccountService,
  ListAccountsResponseSchema,
} from "@cauri/proto/es/cauri/accounts/v1/accounts_pb";
import type { JsonObject } from "@cauri/rpc/json-form";
import { type Command, InvalidArgumentError, Option } from "commander";
import { cell, command, group, jsonOf, rowsOf } from "./command.ts";
import { parseOnOff, parseSwitch, parseWhole, type Switch } from "./inputs.ts";
import { type Column, facts, type Shown, table } from "./print.ts";

const EXAMPLE_ACCOUNT = "acct_01KAE8QK8Q5V6ZJ9T2N4B7C1XW";
const NO_OPTIONS = (command: Command) => command;

const COLUMNS: readonly Column<JsonObject>[] = [
  ["ACCOUNT", (row) => cell(row, "account_id")],
  ["NAME", (row) => cell(row, "name")],
  ["COUNTRY", (row) => cell(row, "country")],
  ["STATUS", (row) => cell(row, "status")],
  ["LIVE", (row) => cell(row, "is_live")],
  ["PRODUCTS", (row) => cell(row, "products")],
  ["OPTIONS", (row) => cell(row, "options")],
  ["CREATED", (row) => cell(row, "created_at")],
];

export function accountCommands(): Command {
  return group("account", "Sign accounts up, approve, suspend, close and set them.", [
    create(),
    move("approve", "approveAccount", "Accept the KYB file: the account's keys work from now on.", "is approved"),
    move(
      "suspend",
      "suspendAccount",
      "Refuse the account's calls at once; what is in flight runs to its end.",
      "is suspended",
    ),
    move("reinstate", "reinstateAccount", "End a suspension.", "is approved again"),
    move("close", "closeAccount", "Close an account for ever; its live balances and holds must be zero.", "is closed"),
    show(),
    list(),
    set(),
    group("settlement", "The account's own account elsewhere, to which its withdrawals go.", [setSettlement()]),
  ]);
}

function create(): Command {
  return command<{ name: string; country: string; email: string }>(
    "create",
    "Sign an account up. Its first test key is shown once.",
    'account create --name "Baobab SARL" --country CI --email ops@baobab.ci',
    (made) =>
      made
        .requiredOption("--name <name>", "name of the business")
        .requiredOption("--country <code>", "ISO 3166-1 alpha-2 country code, e.g. CI")
        .requiredOption("--email <address>", "contact"),
    async ({ options: { name, country, email }, door }) => {
      const account = await door(AccountService).createAccount({ name, country, email });
      const people = [
        `Account ${account.accountId} (${account.name}) is signed up and waits for approval.`,
        `First test key ${account.firstKey?.keyId}: ${account.firstKey?.secret}`,
        "The secret is shown this once. It admits no call before the account is approved.",
      ];
      return { json: jsonOf(AccountSchema, account), people: people.join("\n") };
    },
  );
}

type Move = "approveAccount" | "suspendAccount" | "reinstateAccount" | "closeAccount";

function move(name: string, rpc: Move, description: string, outcome: string): Command {
  return command(`${name} <account>`, description, `account ${name} ${EXAMPLE_ACCOUNT}`, NO_OPTIONS, async (given) => {
    const account = await given.door(AccountService)[rpc]({ accountId: given.args[0] ?? "" });
    return {
      json: jsonOf(AccountSchema, account),
      people: `Account ${account.accountId} (${account.name}) ${outcome}.`,
    };
  });
}

function show(): Command {
  const description = "Show one account.";
  return command("show <account>", description, `account show ${EXAMPLE_ACCOUNT}`, NO_OPTIONS, async ({ args, door }) =>
    shown(await door(AccountService).getAccount({ accountId: args[0] ?? "" })),
  );
}

function list(): Command {
  return command<{ page?: number; perPage?: number }>(
    "list",
    "List the accounts, newest first.",
    "account list --per-page 100",
    (made) =>
      made
        .option("--page <n>", "page, from 1", parseWhole)
        .option("--per-page <n>", "rows per page, at most 100", parseWhole),
    async ({ options: { page, perPage }, door }) => {
      const asked = { ...(page === undefined ? {} : { page }), ...(perPage === undefined ? {} : { perPage }) };
      const json = jsonOf(ListAccountsResponseSchema, await door(AccountService).listAccounts(asked));
      const people = table(rowsOf(json), COLUMNS, "No accounts on this page.");
      const more =
        json["has_more"] === true ? `\n(page ${json["page"]} of ${json["total"]} accounts: --page shows more)` : "";
      return { json, people: people + more };
    },
  );
}

function set(): Command {
  return command<{ live?: boolean; product?: readonly Switch[]; option?: readonly Switch[] }>(
    "set <account>",
    "Set live activation, products and options; what is not named stays.",
    `account set ${EXAMPLE_ACCOUNT} --live on --product instant_payment=on --product tontine=on --option internal_transfers=on`,
    (made) =>
      made
        .option("--live <on|off>", "activation for live mode", parseOnOff)
        .option("--product <name=on|off>", "instant_payment or tontine; may be repeated", parseSwitch)
        .option("--option <name=on|off>", "internal_transfers; may be repeated", parseSwitch),
    async ({ args, options, door }) => {
      const { live, product = [], option = [] } = options;
      if (live === undefined && product.length === 0 && option.length === 0) {
        throw new InvalidArgumentError("Name at least one of --live, --product and --option.");
      }
      const account = await door(AccountService).setAccount({
        accountId: args[0] ?? "",
        products: [...product],
        options: [...option],
        ...(live === undefined ? {} : { isLive: live }),
      });
      return shown(account);
    },
  );
}

type Destination = {
  type: string;
  phone?: string;
  iban?: string;
  accountNumber?: string;
  bankCode?: string;
  name?: string;
};

function setSettlement(): Command {
  return command<Destination & { platform: string }>(
    "set <account>",
    "Set where the account's withdrawals go; requests that stand keep the destination they were made with.",
    `account settlement set ${EXAMPLE_ACCOUNT} --platform plt_mtn_ci --type mobile_wallet --phone +2250504030200 --name "Awa Kone"`,
    (made) =>
      made
        .requiredOption("--platform <platform>", "platform that holds it, e.g. plt_mtn_ci")
        .addOption(
          new Option("--type <type>", "kind of destination")
            .choices(["mobile_wallet", "bank_account"])
            .makeOptionMandatory(),
        )
        .option("--phone <phone>", "phone of a wallet, E.164")
        .option("--iban <iban>", "IBAN of a bank account")
        .option("--account-number <number>", "account number, where there is no IBAN")
        .option("--bank-code <code>", "bank code beside an account number")
        .option("--name <name>", "name of the holder"),
    async ({ args, options, door }) => {
      const { platform, type, phone, iban, accountNumber, bankCode, name } = options;
      const given = Object.entries({ phone, iban, accountNumber, bankCode, name });
      const destination = { type, ...Object.fromEntries(given.filter(([, value]) => value !== undefined)) };
      const account = await door(AccountService).setSettlement({
        accountId: args[0] ?? "",
        platformId: platform,
        destination,
      });
      return {
        json: jsonOf(AccountSchema, account),
        people: `Withdrawals of ${account.accountId} (${account.name}) go to its ${type.replace("_", " ")} on ${platform}.`,
      };
    },
  );
}

function shown(account: Message): Shown {
  const json = jsonOf(AccountSchema, account);
  const fields = ["account_id", "name", "country", "email", "status", "is_live", "products", "options", "created_at"];
  return { json, people: facts(fields.map((field) => [field, cell(json, field)])) };
}
