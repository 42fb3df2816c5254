// `npm run prove [-- --histories n --kills n]`: proofs of the ledger beyond what `npm test` has time for. As many histories
// as one likes; mutants of the engine, each of which must be caught; kills of the ledger and of PostgreSQL under load.

import { spawn } from "node:child_process";
import { dirname, join } from "node:path";
import { parseArgs } from "node:util";
import { MUTANTS } from "./ledger-mutants.ts";
import { machine } from "./measure.ts";
import { runCommand } from "./sentence.ts";

const root = dirname(import.meta.dirname);
const LEDGER = join(root, "services/ledger/src");
const HOOK = join(import.meta.dirname, "ledger-mutants.ts");
/** Enough to catch a mutant: most fall within the first hundred. */
const HISTORIES_PER_MUTANT = 400;

async function main(args: string[]): Promise<number> {
  const options = {
    histories: { type: "string", default: "10000" },
    kills: { type: "string", default: "20" },
  } as const;
  const { values } = parseArgs({ args, options });
  console.log(machine());
  const histories = await runTest("histories.db.test.ts", { CAURI_HISTORIES: values.histories }, "inherit");
  const survivors = await runMutants();
  const kills = await runTest("ledger.crash.test.ts", { CAURI_KILLS: values.kills }, "inherit");
  console.log(`histories ${said(histories)}, mutants ${said(survivors === 0)}, kills ${said(kills)}`);
  return histories && survivors === 0 && kills ? 0 : 1;
}

/** How many mutants lived through the histories. */
async function runMutants(): Promise<number> {
  let survivors = 0;
  for (const { name } of MUTANTS) {
    const env = { CAURI_MUTANT: name, CAURI_HISTORIES: String(HISTORIES_PER_MUTANT), CAURI_SEED: "1" };
    // The histories find most of them; what is a matter of one instant is found by the engine's own tests.
    const passed =
      (await runTest("histories.db.test.ts", env, "ignore", HOOK)) &&
      (await runTest("engine.db.test.ts", env, "ignore", HOOK));
    if (passed) survivors += 1;
    console.log(`${passed ? "ALIVE " : "caught"} ${name}`);
  }
  return survivors;
}

function runTest(
  file: string,
  env: Readonly<Record<string, string>>,
  stdio: "inherit" | "ignore",
  hook?: string,
): Promise<boolean> {
  const args = [...(hook === undefined ? [] : [`--import=${hook}`]), join(LEDGER, file)];
  return new Promise((settle, reject) => {
    const child = spawn(process.execPath, args, { cwd: root, stdio, env: { ...process.env, ...env } });
    child.on("error", reject);
    child.on("exit", (code) => settle(code === 0));
  });
}

function said(proved: boolean): string {
  return proved ? "proved" : "FAILED";
}

await runCommand(() => main(process.argv.slice(2)));
