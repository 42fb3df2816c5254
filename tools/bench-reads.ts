// Reads of payments: one by its id in a closed loop, and deep pages of a list of many, with and without a status. The
// list is written straight into the room's table, by statements that its own counting triggers see.

import { resolve } from "node:path";
import { parseArgs } from "node:util";
import pg from "pg";
import { handles, type Merchant, merchant, paymentBody } from "../test/house.ts";
import { drive, openKeys, printCpu, printSamples, RATE_LIMIT } from "./bench-load.ts";
import { cpuOf, machine, percentile } from "./measure.ts";
import { analyse, printProfiles } from "./profile.ts";
import { Sentence } from "./sentence.ts";
import { beginTestRun } from "./test-run.ts";

/** Rows of one statement while the list is written. */
const SEED_STEP = 50_000;
const DEEP_PAGE = 1_000;
const PAGE_ROUNDS = 40;
/** Rows of a page unless a request asks for more. */
const FULL_PAGE = 25;
const LEAST_ROWS = DEEP_PAGE * FULL_PAGE * 10;

type Load = {
  readonly connections: number;
  readonly seconds: number;
  readonly warm_up: number;
  /** Payments in the list whose pages are read; with 0 only reads by id are measured. */
  readonly rows: number;
  readonly profile: string;
};

export async function benchReads(args: readonly string[]): Promise<void> {
  const load = readLoad(args);
  console.log(`machine  ${machine()}`);
  // With a window of a second a closed loop of reads does not meet the limit.
  const profile = load.profile === "" ? {} : { CAURI_PROFILE: load.profile };
  const settings = { CAURI_RATE_LIMIT: String(RATE_LIMIT), CAURI_RATE_WINDOW_S: "1", ...profile };
  const run = await beginTestRun("bench", settings);
  try {
    const account = await merchant("Bench of reads");
    const made = await account.test.post("/v1/payments", paymentBody("01"));
    if (made.status !== 201) throw new Error(`the payment was refused: ${made.status} ${made.text}`);
    await readById(account, made.body.id as string, load, run.pid);
    if (load.rows > 0) await readPages(account.test.key, account.account_id, made.body.id as string, load);
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
      seconds: { type: "string", default: "10" },
      "warm-up": { type: "string", default: "10" },
      rows: { type: "string", default: "1000000" },
      profile: { type: "string", default: "" },
    },
  });
  const number = (name: "connections" | "seconds" | "warm-up" | "rows") => {
    const value = Number(values[name]);
    const least = name === "rows" ? 0 : 1;
    if (!Number.isInteger(value) || value < least)
      throw new Sentence(`--${name} must be a whole number from ${least}.`);
    return value;
  };
  const rows = number("rows");
  if (rows > 0 && rows < LEAST_ROWS)
    throw new Sentence(`--rows must be 0 or at least ${LEAST_ROWS}: one in ten has failed.`);
  return {
    connections: number("connections"),
    seconds: number("seconds"),
    warm_up: number("warm-up"),
    rows,
    profile: values.profile === "" ? "" : resolve(values.profile),
  };
}

async function readById(account: Merchant, id: string, load: Load, supervisor: number): Promise<void> {
  const keys = await openKeys([account], load.connections);
  const target = { path: `/v1/payments/${id}` };
  await drive(keys, target, load.warm_up);
  const watched = { ...handles().processes, supervisor, "(this client)": process.pid };
  const before = cpuOf(watched);
  const began = performance.now();
  const samples = await drive(keys, target, load.seconds);
  const seconds = (performance.now() - began) / 1000;
  const after = cpuOf(watched);
  console.log(`by id    ${load.connections} connections`);
  printSamples(samples, seconds);
  printCpu(before, after, samples.length, seconds);
}

/** The deep page beside the first, turn by turn, so that both meet the same machine. */
async function readPages(key: string, account: string, like: string, load: Load): Promise<void> {
  const began = performance.now();
  await seed(account, like, load.rows);
  await analyse(handles().database_url);
  console.log(
    `list     ${load.rows} payments of one account, written in ${((performance.now() - began) / 1000).toFixed(0)} s`,
  );
  for (const filter of ["", "&status=success", "&status=failed"]) {
    const first: number[] = [];
    const deep: number[] = [];
    for (let round = 0; round < PAGE_ROUNDS; round += 1) {
      first.push(await readPage(key, 1, filter));
      deep.push(await readPage(key, DEEP_PAGE, filter));
    }
    const times = percentile(deep.toSorted(ascending), 0.5) / percentile(first.toSorted(ascending), 0.5);
    const name = filter === "" ? "no filter" : filter.slice(1);
    console.log(`pages    ${name.padEnd(14)} page 1: ${latency(first)}`);
    console.log(`pages    ${name.padEnd(14)} page ${DEEP_PAGE}: ${latency(deep)}, ${times.toFixed(2)} times page 1`);
  }
}

async function readPage(key: string, page: number, filter: string): Promise<number> {
  const began = performance.now();
  const answer = await fetch(`${handles().base_url}/v1/payments?page=${page}${filter}`, {
    headers: { authorization: `Bearer ${key}` },
  });
  const { data } = (await answer.json()) as { data: unknown[] };
  if (answer.status !== 200 || data.length !== FULL_PAGE) throw new Error(`page ${page}: ${answer.status}`);
  return performance.now() - began;
}

/** Copies of one payment, nine in ten successful, numbered on from the account's last. */
async function seed(account: string, like: string, rows: number): Promise<void> {
  const client = new pg.Client({ connectionString: handles().database_url });
  await client.connect();
  try {
    const { rows: found } = await client.query<{ column_name: string }>(
      `select column_name from information_schema.columns
        where table_schema = 'collections' and table_name = 'payments' order by ordinal_position`,
    );
    const own: Record<string, string> = {
      id: "'pay_bench_' || i",
      reference: "'PAY-BENCH-' || i",
      n: "p.n + i",
      status: "case when i % 10 = 0 then 'failed' else 'success' end",
      failure_code: "case when i % 10 = 0 then 'expired' end",
      created_at: "p.created_at + i * interval '1 millisecond'",
    };
    const names = found.map(({ column_name }) => column_name);
    const values = names.map((name) => own[name] ?? `p.${name}`);
    for (let from = 1; from <= rows; from += SEED_STEP) {
      const to = Math.min(rows, from + SEED_STEP - 1);
      await client.query(
        `insert into collections.payments (${names.join(", ")})
         select ${values.join(", ")} from collections.payments p, generate_series($2::integer, $3::integer) i where p.id = $1`,
        [like, from, to],
      );
    }
    await client.query(
      "update collections.list_heads set n = n + $2, last_at = last_at + $2 * interval '1 millisecond' where account = $1 and kind = 'payment'",
      [account, rows],
    );
  } finally {
    await client.end();
  }
}

function latency(ms: readonly number[]): string {
  const sorted = ms.toSorted(ascending);
  const at = (share: number) => `${percentile(sorted, share).toFixed(1)} ms`;
  return `p50 ${at(0.5)}, p95 ${at(0.95)}, p99 ${at(0.99)}`;
}

function ascending(a: number, b: number): number {
  return a - b;
}
