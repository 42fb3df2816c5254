// The running house as a story sees it: its handles, a merchant of its own, and calls over HTTP.
// Nothing here reaches into a service: what a story can't learn at a door, a merchant or an operator can't either.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { appendFileSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";

const root = dirname(import.meta.dirname);

/** What `npm start` writes into `<data>/local.json`. */
export type Handles = {
  readonly base_url: string;
  /** The port of native gRPC. */
  readonly grpc_url: string;
  readonly admin_url: string;
  readonly operator_token: string;
  readonly database_url: string;
  readonly nats_url: string;
  readonly account_id: string;
  readonly test_key: string;
  readonly live_key: string;
  readonly processes: Readonly<Record<string, number>>;
};

export type Answer = {
  readonly status: number;
  readonly headers: Headers;
  // A story reads whatever fields it names; a wrong one fails its assertion.
  // biome-ignore lint/suspicious/noExplicitAny: the contract's JSON, read field by field.
  readonly body: any;
  readonly text: string;
};

/** The data folder of the house that the test setup started. */
export function dataFolder(): string {
  const folder = process.env["CAURI_TEST_HOUSE"];
  assert(folder !== undefined, "CAURI_TEST_HOUSE is not set: run stories by `npm test -- story`.");
  return folder;
}

/** The handles as they stand now: processes change when one is killed. */
export function handles(data = dataFolder()): Handles {
  return JSON.parse(readFileSync(join(data, "local.json"), "utf8")) as Handles;
}

/** Written down so that the last check of the run can look for every secret in every log. */
export function noteSecret(secret: string): string {
  const file = process.env["CAURI_TEST_SECRETS"];
  if (file !== undefined) appendFileSync(file, `${secret}\n`);
  return secret;
}

export type CallOptions = {
  readonly body?: unknown;
  readonly raw?: string | Uint8Array;
  readonly headers?: Readonly<Record<string, string>>;
  readonly base_url?: string;
};

/** One HTTP call to the public door; `key` null sends none. */
export async function call(
  key: string | null,
  method: string,
  path: string,
  options: CallOptions = {},
): Promise<Answer> {
  const headers: Record<string, string> = { ...options.headers };
  if (key !== null && headers["authorization"] === undefined) headers["authorization"] = `Bearer ${key}`;
  const payload = options.raw ?? (options.body === undefined ? undefined : JSON.stringify(options.body));
  if (payload !== undefined && headers["content-type"] === undefined) headers["content-type"] = "application/json";
  const response = await fetch((options.base_url ?? handles().base_url) + path, {
    method,
    headers,
    redirect: "manual",
    ...(payload === undefined ? {} : { body: payload as string }),
  });
  const text = await response.text();
  const isJson = (response.headers.get("content-type") ?? "").startsWith("application/json");
  return {
    status: response.status,
    headers: response.headers,
    text,
    body: isJson && text !== "" ? JSON.parse(text) : null,
  };
}

export type Api = {
  readonly key: string;
  get(path: string, headers?: Record<string, string>): Promise<Answer>;
  post(path: string, body?: unknown, headers?: Record<string, string>): Promise<Answer>;
  patch(path: string, body: unknown, headers?: Record<string, string>): Promise<Answer>;
  del(path: string): Promise<Answer>;
};

/** The public door with one key; another house's, or another gateway's, by its base URL. */
export function api(key: string, base_url?: string): Api {
  const at = base_url === undefined ? {} : { base_url };
  return {
    key,
    get: (path, headers = {}) => call(key, "GET", path, { ...at, headers }),
    post: (path, body, headers = {}) => call(key, "POST", path, { ...at, body: body ?? {}, headers }),
    patch: (path, body, headers = {}) => call(key, "PATCH", path, { ...at, body, headers }),
    del: (path) => call(key, "DELETE", path, at),
  };
}

/** One operator RPC at the admin door, by Connect's JSON. */
// biome-ignore lint/suspicious/noExplicitAny: protobuf's JSON form of whatever message the RPC returns.
export async function operate(rpc: string, message: Record<string, unknown>, data = dataFolder()): Promise<any> {
  const { admin_url, operator_token } = handles(data);
  const response = await fetch(`${admin_url}/${rpc}`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: `Bearer ${operator_token}` },
    body: JSON.stringify(message),
  });
  const body = await response.json();
  assert(response.ok, `${rpc} answered ${response.status}: ${JSON.stringify(body)}`);
  return body;
}

export type Merchant = {
  readonly account_id: string;
  readonly test: Api;
  readonly test_key_id: string;
  /** Opens a further key. */
  key(mode: "test" | "live", scopes?: readonly string[]): Promise<Api & { key_id: string }>;
};

/** An approved account of the story's own, with a test key of every scope. */
export async function merchant(name = "Story", data = dataFolder()): Promise<Merchant> {
  const account = await operate(
    "cauri.accounts.v1.AccountService/CreateAccount",
    { name, country: "CI", email: "story@example.com" },
    data,
  );
  noteSecret(account.firstKey.secret);
  await operate("cauri.accounts.v1.AccountService/ApproveAccount", { account_id: account.accountId }, data);
  const key = async (mode: "test" | "live", scopes: readonly string[] = ["all"]) => {
    const made = await operate(
      "cauri.accounts.v1.KeyService/CreateKey",
      { account_id: account.accountId, mode, scopes },
      data,
    );
    return { ...api(noteSecret(made.secret)), key_id: made.keyId as string };
  };
  const test = await key("test");
  return { account_id: account.accountId, test, test_key_id: test.key_id, key };
}

/** A collection on MTN Ivory Coast whose payer's last two digits choose the sandbox's row. */
export function paymentBody(row: string, more: Record<string, unknown> = {}): Record<string, unknown> {
  return {
    amount_minor: 10_000,
    asset_id: "ast_xof",
    platform_id: "plt_mtn_ci",
    payer: { phone: `+22505040302${row}`, name: "Awa Kone", email: "awa@example.com" },
    ...more,
  };
}

/** A payout on MTN Ivory Coast whose recipient's last two digits choose the sandbox's row. */
export function payoutBody(row: string, more: Record<string, unknown> = {}): Record<string, unknown> {
  return {
    amount_minor: 10_000,
    asset_id: "ast_xof",
    platform_id: "plt_mtn_ci",
    destination: { type: "mobile_wallet", phone: `+22505040302${row}`, name: "Awa Kone" },
    ...more,
  };
}

/** Gives a merchant sandbox money. */
export async function fund(account_id: string, amount_minor: number, platform_id = "plt_mtn_ci"): Promise<void> {
  const money = { account_id, platform_id, asset_id: "ast_xof", amount_minor: String(amount_minor) };
  await operate("cauri.accounts.v1.AccountService/SandboxFund", money);
}

/** It only ends a story that waits for ever: what a busy machine does in seconds another one does at once. */
const PATIENCE_MS = 60_000;
/** From look to look: a key may ask 300 times in a minute, and whoever waits for long must not use that up. */
const LOOK_MS = { first: 25, most: 1_000 } as const;

/** Asks until the answer satisfies, and fails with what it saw last. */
export async function eventually<T>(
  what: string,
  ask: () => Promise<T>,
  satisfied: (value: T) => boolean,
  timeout_ms = PATIENCE_MS,
): Promise<T> {
  const end = performance.now() + timeout_ms;
  for (let pause_ms: number = LOOK_MS.first; ; pause_ms = Math.min(pause_ms * 1.25, LOOK_MS.most)) {
    const value = await ask();
    if (satisfied(value)) return value;
    if (performance.now() > end)
      assert.fail(`${what}: not within ${timeout_ms} ms; last seen: ${JSON.stringify(value)}`);
    await new Promise((wake) => setTimeout(wake, pause_ms));
  }
}

/** Waits for a payment to reach a status. */
export async function paymentIs(from: Api, id: string, status: string): Promise<Answer["body"]> {
  const seen = await eventually(
    `payment ${id} is ${status}`,
    async () => (await from.get(`/v1/payments/${id}`)).body,
    (payment) => payment.status === status,
  );
  return seen;
}

/** Available, reserved and pending money of a merchant on one platform. */
export async function balance(from: Api, platform_id = "plt_mtn_ci", asset_id = "ast_xof"): Promise<Answer["body"]> {
  const answer = await from.get("/v1/balances?per_page=100");
  assert.equal(answer.status, 200, answer.text);
  return answer.body.data.find(
    (row: { platform_id: string; asset_id: string }) => row.platform_id === platform_id && row.asset_id === asset_id,
  );
}

/** Runs `cauri …` as a person would, on the house of this run. */
export function cauri(
  args: readonly string[],
  data = dataFolder(),
): Promise<{ code: number; stdout: string; stderr: string }> {
  return new Promise((settle) => {
    const bin = join(root, "cli", "bin", "cauri.js");
    execFile(process.execPath, [bin, ...args, "--data", data], { cwd: root }, (error, stdout, stderr) => {
      settle({ code: typeof error?.code === "number" ? error.code : error === null ? 0 : 1, stdout, stderr });
    });
  });
}

/** Moves an account's test clock on, until everything due has run. */
export async function advanceClock(account_id: string, by: string): Promise<void> {
  const { code, stderr } = await cauri(["sandbox", "clock", "advance", "--account", account_id, "--by", by, "--json"]);
  assert.equal(code, 0, stderr);
}
