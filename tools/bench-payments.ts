// POST /v1/payments in a closed loop: each connection sends the next payment when it has the answer to the last one.
// A fresh house with one webhook endpoint subscribed to everything; sent by this process, whose own CPU is told too.

import { resolve } from "node:path";
import { parseArgs } from "node:util";
import { handles, paymentBody } from "../test/house.ts";
import { printChecks, readAsked } from "./bench-checks.ts";
import { drive, openKeys, openMerchants, printCpu, printSamples, RATE_LIMIT } from "./bench-load.ts";
import { startBenchReceiver } from "./bench-wire.ts";
import { cpuOf, machine, sum } from "./measure.ts";
import { analyse, printProfiles, printStatements, resetStatements } from "./profile.ts";
import { Sentence } from "./sentence.ts";
import { beginTestRun } from "./test-run.ts";

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

export async function benchPayments(args: readonly string[]): Promise<void> {
  const load = readLoad(args);
  console.log(`machine  ${machine()}`);
  const profile = load.profile === "" ? {} : { CAURI_PROFILE: load.profile };
  const settings = { CAURI_RATE_LIMIT: String(RATE_LIMIT), CAURI_SIM_DELAY_MS: "1000", ...profile };
  const run = await beginTestRun("bench", settings);
  try {
    const receiver = await startBenchReceiver(run.certs);
    const keys = await openKeys(await openMerchants(load.accounts, receiver.url), load.connections);
    const target = { path: "/v1/payments", body: JSON.stringify(paymentBody(load.row)) };
    await drive(keys, target, load.warm_up);
    const { base_url, database_url, processes } = handles();
    await analyse(database_url);
    await drive(keys, target, SETTLE_S);
    if (load.profile !== "") await resetStatements(database_url);
    const watched = { ...processes, supervisor: run.pid, "(this client)": process.pid };
    const asked = await readAsked();
    const before = cpuOf(watched);
    const heard = receiver.heard();
    const began = performance.now();
    const samples = await drive(keys, target, load.seconds);
    const seconds = (performance.now() - began) / 1000;
    const after = cpuOf(watched);
    const asked_then = await readAsked();
    const notices = receiver.heard() - heard;
    console.log(
      `load     ${load.connections} connections to ${base_url}, ${load.accounts} accounts, row ${load.row}, 1 webhook endpoint each`,
    );
    printSamples(samples, seconds);
    printCpu(before, after, samples.length, seconds);
    const request_ms = (sum(Object.values(after)) - sum(Object.values(before))) / samples.length;
    // What one endpoint does not get in time waits, and its cost with it: figures with other numbers here can't be compared.
    console.log(`webhooks ${notices} notices received, ${(notices / samples.length).toFixed(2)} per request`);
    await printChecks(asked, asked_then, samples.length, request_ms);
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
