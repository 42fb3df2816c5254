// `cauri key …`

import type { Key } from "@cauri/proto/es/cauri/accounts/v1/accounts_pb";
import { KeySchema, KeyService, ListKeysResponseSchema } from "@cauri/proto/es/cauri/accounts/v1/accounts_pb";
import type { JsonObject } from "@cauri/rpc/json-form";
import { type Command, Option } from "commander";
import { cell, command, group, jsonOf, rowsOf } from "./command.ts";
import { parseSeconds, parseWords } from "./inputs.ts";
import { type Column, type Shown, table } from "./print.ts";

const EXAMPLE_ACCOUNT = "acct_01KAE8QK8Q5V6ZJ9T2N4B7C1XW";
const EXAMPLE_KEY = "key_01KAE8QK8Q5V6ZJ9T2N4B7C1XW";

const COLUMNS: readonly Column<JsonObject>[] = [
  ["KEY", (row) => cell(row, "key_id")],
  ["MODE", (row) => cell(row, "mode")],
  ["NAME", (row) => cell(row, "name")],
  ["SCOPES", (row) => cell(row, "scopes")],
  ["CREATED", (row) => cell(row, "created_at")],
  ["REVOKED", (row) => cell(row, "revoked_at")],
  ["ENDS", (row) => cell(row, "expires_at")],
];

export function keyCommands(): Command {
  return group("key", "Create, rotate, revoke and list API keys.", [create(), rotate(), revoke(), list()]);
}

function create(): Command {
  return command<{ mode: string; scopes?: readonly string[]; name?: string }>(
    "create <account>",
    "Create a key; its secret is shown this once. Possible while the account is pending.",
    `key create ${EXAMPLE_ACCOUNT} --mode test --scopes can_initiate_payment,can_read_transactions --name "web shop"`,
    (made) =>
      made
        .addOption(new Option("--mode <mode>", "test or live").choices(["test", "live"]).makeOptionMandatory())
        .option("--scopes <a,b>", "scopes separated by commas, or all (without: collect, refund and read)", parseWords)
        .option("--name <name>", "a name for people"),
    async ({ args, options: { mode, scopes = [], name }, door }) => {
      const asked = { accountId: args[0] ?? "", mode, scopes: [...scopes], ...(name === undefined ? {} : { name }) };
      return withSecret(await door(KeyService).createKey(asked), "is created");
    },
  );
}

function rotate(): Command {
  return command<{ overlap?: number }>(
    "rotate <key>",
    "Replace a key by a new one; the old one ends at once, or after the overlap.",
    `key rotate ${EXAMPLE_KEY} --overlap 24h`,
    (made) =>
      made.option(
        "--overlap <duration>",
        "how long the old key goes on working, e.g. 24h; 0 unless given",
        parseSeconds,
      ),
    async ({ args, options: { overlap }, door }) => {
      const asked = { keyId: args[0] ?? "", ...(overlap === undefined ? {} : { overlapS: BigInt(overlap) }) };
      return withSecret(await door(KeyService).rotateKey(asked), `takes the place of ${args[0]}`);
    },
  );
}

function revoke(): Command {
  return command(
    "revoke <key>",
    "End a key now, everywhere.",
    `key revoke ${EXAMPLE_KEY}`,
    (made) => made,
    async ({ args, door }) => {
      const key = await door(KeyService).revokeKey({ keyId: args[0] ?? "" });
      return { json: jsonOf(KeySchema, key), people: `Key ${key.keyId} is revoked.` };
    },
  );
}

function list(): Command {
  return command(
    "list <account>",
    "List the keys of an account, newest first, without their secrets.",
    `key list ${EXAMPLE_ACCOUNT}`,
    (made) => made,
    async ({ args, door }) => {
      const json = jsonOf(ListKeysResponseSchema, await door(KeyService).listKeys({ accountId: args[0] ?? "" }));
      return { json, people: table(rowsOf(json), COLUMNS, "No keys.") };
    },
  );
}

function withSecret(key: Key, outcome: string): Shown {
  const people = [
    `Key ${key.keyId} (${key.mode}: ${key.scopes.join(", ")}) of ${key.accountId} ${outcome}.`,
    `Secret: ${key.secret}`,
    "It is shown this once: keep it where secrets are kept.",
  ];
  return { json: jsonOf(KeySchema, key), people: people.join("\n") };
}
