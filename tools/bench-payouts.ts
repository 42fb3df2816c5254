// `npm run bench payouts`: POST /v1/payouts in a closed loop on a fresh house, end to end: a payout counts once it is
// `success`, so its funds were reserved, sent, called back and captured. First spread over many merchants, then all on
// one balance of one merchant.

import { resolve } from "node:path";
import { parseArgs } from "node:util";
import pg from "pg";
import { fund, handles, type Merchant, payoutBody } from "../test/house.ts";
import { startReceiver } from "../test/receiver.ts";
import { drive, openKeys, openMerchants, printCpu, printSamples, RATE_LIMIT } from "./bench-load.ts";
import { cpuOf, machine } from "./measure.ts";
import { analyse, printProfiles, printStatements, resetStatements } from "./profile.ts";
import { Sentence } from "./sentence.ts";
import { beginTestRun } from "./test-run.ts";

/** More than a run can pay out. */
const FUNDED = 1_000_000_000_000;
/** After the statistics are new every statement is planned anew. */
const SETTLE_S = 3;
/** What is still on its way after the last answer ends within the simulator's second, or the house is overrun. */
const GIVE_UP_MS = 60_000;
const LOOK_MS = 20;

type Load = {
  readonly connections: number;
  readonly seconds: number;
  readonly warm_up: number;
  /** Folder for the CPU profiles of every process; empty: none are taken. */
  readonly profile: string;
};

export async function benchPayouts(args: readonly string[]): Promise<void> {
  const load = readLoad(args);
  console.log(`machine  ${machine()}`);
  const profile = load.profile === "" ? {} : { CAURI_PROFILE: load.profile };
  const settings = { CAURI_RATE_LIMIT: String(RATE_LIMIT), CAURI_SIM_DELAY_MS: "1000", ...profile };
  const run = await beginTestRun("bench", settings);
  const db = new pg.Client({ connectionString: handles().database_url, options: "-c search_path=payouts" });
  try {
    await db.connect();
    const receiver = await startReceiver();
    const merchants = await openMerchants(load.connections, receiver.url);
    for (const { account_id } of merchants) await fund(account_id, FUNDED);
    await drive(await openKeys(merchants, load.connections), target(), load.warm_up);
    await analyse(handles().database_url);
    await drive(await openKeys(merchants, load.connections), target(), SETTLE_S);
    await untilEnded(db);
    const spread = await measure("spread", db, merchants, load, run.pid);
    const one = await measure("one balance", db, merchants.slice(0, 1), load, run.pid);
    console.log(`one balance is ${(one / spread).toFixed(2)} of the spread figure`);
    console.log(`webhooks ${receiver.notices.length} notices received by now`);
    await receiver.close();
  } finally {
    await db.end();
    await run.end();
  }
  if (load.profile !== "") printProfiles(load.profile);
}

/** Payouts that reached `success` a second, from the first call to the last one's end. */
async function measure(
  name: string,
  db: pg.Client,
  merchants: readonly Merchant[],
  load: Load,
  supervisor: number,
): Promise<number> {
  const keys = await openKeys(merchants, load.connections);
  const watched = { ...handles().processes, supervisor, "(this client)": process.pid };
  if (load.profile !== "") await resetStatements(handles().database_url);
  const paid_before = await paid(db);
  const cpu = cpuOf(watched);
  const began = performance.now();
  const samples = await drive(keys, target(), load.seconds);
  const driven = (performance.now() - began) / 1000;
  await untilEnded(db);
  const ended = (performance.now() - began) / 1000;
  const used = cpuOf(watched);
  const done = (await paid(db)) - paid_before;
  console.log(
    `\n${name}: ${load.connections} connections, ${merchants.length} merchants, row 00, 1 webhook endpoint each`,
  );
  printSamples(samples, driven);
  const created = samples.filter(({ status }) => status === 201).length;
  if (done !== created) throw new Error(`${created} payouts were created and ${done} paid`);
  const rate = done / ended;
  console.log(`end to end  ${done} paid in ${ended.toFixed(1)} s: ${rate.toFixed(1)} payouts/s`);
  printCpu(cpu, used, samples.length, ended);
  if (load.profile !== "") await printStatements(handles().database_url, samples.length);
  return rate;
}

/** The body is one, so that the client costs little; without a key each is a payout of its own. */
function target() {
  return { path: "/v1/payouts", body: JSON.stringify(payoutBody("00", { amount_minor: 1_000 })) };
}

async function untilEnded(db: pg.Client): Promise<void> {
  const until = performance.now() + GIVE_UP_MS;
  for (;;) {
    const { rows } = await db.query<{ open: number }>(
      "select count(1)::int as open from payouts where status in ('draft', 'initiated', 'pending')",
    );
    if (rows[0]?.open === 0) return;
    if (performance.now() > until) throw new Error(`${rows[0]?.open} payouts are still open`);
    await new Promise((wake) => setTimeout(wake, LOOK_MS));
  }
}

async function paid(db: pg.Client): Promise<number> {
  const { rows } = await db.query<{ paid: number }>(
    "select count(1)::int as paid from payouts where status = 'success'",
  );
  return rows[0]?.paid ?? 0;
}

function readLoad(args: readonly string[]): Load {
  const { values } = parseArgs({
    args: [...args],
    options: {
      connections: { type: "string", default: "64" },
      seconds: { type: "string", default: "20" },
      "warm-up": { type: "string", default: "25" },
      profile: { type: "string", default: "" },
    },
  });
  const number = (name: "connections" | "seconds" | "warm-up") => {
    const value = Number(values[name]);
    if (!Number.isInteger(value) || value < 1) throw new Sentence(`--${name} must be a whole number from 1.`);
    return value;
  };
  const profile = values.profile === "" ? "" : resolve(values.profile);
  return { connections: number("connections"), seconds: number("seconds"), warm_up: number("warm-up"), profile };
}
