// The demo account of a local house, made at the admin door as an operator would make it: approved, live, with every
// product and option, and one key per mode with all scopes.

import type { Demo } from "./data.ts";
import { Sentence } from "./sentence.ts";

const PRODUCTS = ["instant_payment", "tontine"];
const OPTIONS = ["internal_transfers"];
const TIMEOUT_MS = 20_000;

type Door = { readonly admin_url: string; readonly operator_token: string };

/** The kept demo account where the house still knows it, else a new one. */
export async function provideDemo(door: Door, kept: Demo | undefined): Promise<Demo> {
  if (kept !== undefined && (await isKnown(door, kept.account_id))) return kept;
  const made = await operate(door, "AccountService/CreateAccount", {
    name: "Demo",
    country: "CI",
    email: "demo@example.com",
  });
  const account_id = text(made, "accountId");
  await operate(door, "AccountService/ApproveAccount", { accountId: account_id });
  await operate(door, "AccountService/SetAccount", {
    accountId: account_id,
    isLive: true,
    products: PRODUCTS.map((name) => ({ name, on: true })),
    options: OPTIONS.map((name) => ({ name, on: true })),
  });
  const key = async (mode: string) => {
    const request = { accountId: account_id, mode, scopes: ["all"], name: `demo ${mode}` };
    return text(await operate(door, "KeyService/CreateKey", request), "secret");
  };
  return { account_id, test_key: await key("test"), live_key: await key("live") };
}

async function isKnown(door: Door, accountId: string): Promise<boolean> {
  const response = await post(door, "AccountService/GetAccount", { accountId });
  return response.ok;
}

async function operate(door: Door, rpc: string, message: unknown): Promise<Record<string, unknown>> {
  const response = await post(door, rpc, message);
  const body = await response.text();
  if (!response.ok)
    throw new Sentence(`The demo account could not be made: ${rpc} answered ${response.status} ${body}`);
  return JSON.parse(body) as Record<string, unknown>;
}

/** Connect's unary protocol is plain HTTP with JSON. */
async function post({ admin_url, operator_token }: Door, rpc: string, message: unknown): Promise<Response> {
  return fetch(`${admin_url}/cauri.accounts.v1.${rpc}`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: `Bearer ${operator_token}` },
    body: JSON.stringify(message),
    signal: AbortSignal.timeout(TIMEOUT_MS),
  });
}

function text(message: Record<string, unknown>, field: string): string {
  const value = message[field];
  if (typeof value !== "string") throw new Sentence(`The admin door answered without ${field}.`);
  return value;
}
