// POST /v1/payments in a closed loop: each connection sends the next payment when it has the answer to the last one.
// A fresh house with one webhook endpoint subscribed to everything; sent by this process, whose own CPU is told too.

import { resolve } from "node:path";
import { parseArgs } from "node:util";
import { Pool } from "undici";
import { handles, merchant, paymentBody } from "../test/house.ts";
import { startReceiver } from "../test/receiver.ts";
import { cpuOf, machine, percentile, sum } from "./measure.ts";
import { analyse, printProfiles, printStatements, resetStatements } from "./profile.ts";
import { Sentence } from "./sentence.ts";
import { beginTestRun } from "./test-run.ts";

/** The most that the rate limit can be set to; so each key pays for this many payments a minute. */
const RATE_LIMIT = 900;
/** After the statistics are new every statement is planned anew. */
const SETTLE_S = 3;

type Load = {
  readonly connections: number;
  readonly seconds: number;
  /** Before it is measured, so that compilers, pools and caches are warm: a cold house needs three times the CPU. */
  readonly warm_up: number;
  readonly accounts: number;
  readonly row: string;
  readonly profile: string;
};
type Sample = { readonly status: number; readonly ms: number };

export async function benchPayments(args: readonly string[]): Promise<void> {
  const load = readLoad(args);
  console.log(`machine  ${machine()}`);
  const profile = load.profile === "" ? {} : { CAURI_PROFILE: load.profile };
  const settings = { CAURI_RATE_LIMIT: String(RATE_LIMIT), CAURI_SIM_DELAY_MS: "1000", ...profile };
  const run = await beginTestRun("bench", settings);
  try {
    const receiver = await startReceiver();
    const keys = await openKeys(load, receiver.url);
    await drive(keys, load, load.warm_up);
    const { base_url, database_url, processes } = handles();
    await analyse(database_url);
    await drive(keys, load, SETTLE_S);
    if (load.profile !== "") await resetStatements(database_url);
    const watched = { ...processes, supervisor: run.pid, "(this client)": process.pid };
    const before = cpuOf(watched);
    const began = performance.now();
    const samples = await drive(keys, load, load.seconds);
    const seconds = (performance.now() - began) / 1000;
    const after = cpuOf(watched);
    console.log(
      `load     ${load.connections} connections to ${base_url}, ${load.accounts} accounts, row ${load.row}, 1 webhook endpoint each`,
    );
    printSamples(samples, seconds);
    printCpu(before, after, samples.length, seconds);
    console.log(`webhooks ${receiver.notices.length} notices received by now`);
    if (load.profile !== "") await printStatements(database_url, samples.length);
    await receiver.close();
  } finally {
    await run.end();
  }
  if (load.profile !== "") printProfiles(load.profile);
}

function readLoad(args: readonly string[]): Load {
  const { values } = parseArgs({
    args: [...args],
    options: {
      connections: { type: "string", default: "64" },
      seconds: { type: "string", default: "20" },
      "warm-up": { type: "string", default: "25" },
      accounts: { type: "string", default: "1" },
      row: { type: "string", default: "00" },
      profile: { type: "string", default: "" },
    },
  });
  const number = (name: "connections" | "seconds" | "warm-up" | "accounts") => {
    const value = Number(values[name]);
    if (!Number.isInteger(value) || value < 1) throw new Sentence(`--${name} must be a whole number from 1.`);
    return value;
  };
  const { row } = values;
  const profile = values.profile === "" ? "" : resolve(values.profile);
  return {
    connections: number("connections"),
    seconds: number("seconds"),
    warm_up: number("warm-up"),
    accounts: number("accounts"),
    row,
    profile,
  };
}

/** One key per connection, spread over the accounts: 64 keys admit 960 payments a second. */
async function openKeys(load: Load, receiver_url: string): Promise<string[]> {
  const accounts = [];
  for (let at = 0; at < load.accounts; at += 1) {
    const account = await merchant(`Bench ${at}`);
    const answer = await account.test.post("/v1/webhooks", { url: receiver_url });
    if (answer.status !== 201) throw new Error(`the webhook endpoint was refused: ${answer.status} ${answer.text}`);
    accounts.push(account);
  }
  const keys: string[] = [];
  for (let at = 0; at < load.connections; at += 1) {
    const account = accounts[at % accounts.length];
    if (account !== undefined) keys.push((await account.key("test")).key);
  }
  return keys;
}

async function drive(keys: readonly string[], load: Load, seconds: number): Promise<Sample[]> {
  const pool = new Pool(handles().base_url, { connections: load.connections, pipelining: 1 });
  const body = JSON.stringify(paymentBody(load.row));
  const end = performance.now() + seconds * 1000;
  const samples: Sample[] = [];
  const one = async (key: string) => {
    const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
    while (performance.now() < end) {
      const began = performance.now();
      const answer = await pool.request({ method: "POST", path: "/v1/payments", headers, body });
      await answer.body.dump();
      samples.push({ status: answer.statusCode, ms: performance.now() - began });
    }
  };
  await Promise.all(keys.map(one));
  await pool.close();
  return samples;
}

function printSamples(samples: readonly Sample[], seconds: number): void {
  const statuses = new Map<number, number>();
  for (const { status } of samples) statuses.set(status, (statuses.get(status) ?? 0) + 1);
  const sorted = samples.map(({ ms }) => ms).sort((a, b) => a - b);
  const at = (share: number) => `${percentile(sorted, share).toFixed(1)} ms`;
  console.log(`rate     ${(samples.length / seconds).toFixed(1)} requests/s over ${seconds.toFixed(1)} s`);
  console.log(`latency  p50 ${at(0.5)}, p95 ${at(0.95)}, p99 ${at(0.99)}, longest ${at(1)}`);
  console.log(`answers  ${[...statuses].map(([status, count]) => `${status}: ${count}`).join(", ")}`);
}

function printCpu(
  before: Readonly<Record<string, number>>,
  after: Readonly<Record<string, number>>,
  requests: number,
  seconds: number,
): void {
  const used = Object.entries(after).map(([name, ms]) => ({ name, ms: ms - (before[name] ?? 0) }));
  const line = (name: string, ms: number) => {
    const each = (ms / requests).toFixed(3).padStart(8);
    const share = ((ms / seconds / 1000) * 100).toFixed(0).padStart(4);
    console.log(`cpu      ${name.padEnd(14)} ${each} ms per request, ${share} % of a core`);
  };
  for (const { name, ms } of used) line(name, ms);
  line("sum", sum(used.map(({ ms }) => ms)));
}
