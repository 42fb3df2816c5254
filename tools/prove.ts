// `npm run prove [-- ledger|webhooks|merchants --histories n --kills n]`: proofs beyond what `npm test` has time for. As many random
// histories against the plain model as one likes; mutants of the ledger's engine, each of which must be caught; kills of
// the room, its PostgreSQL and, for webhooks, its nats-server under load. A history of merchants is one merchant's life.

import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { parseArgs } from "node:util";
import { MUTANTS } from "./ledger-mutants.ts";
import { machine } from "./measure.ts";
import { runCommand, Sentence } from "./sentence.ts";

const root = dirname(import.meta.dirname);
const LEDGER = join(root, "services/ledger/src");
const WEBHOOKS = join(root, "services/webhooks/src");
const HOOK = join(import.meta.dirname, "ledger-mutants.ts");
/** Enough to catch a mutant: most fall within the first hundred. */
const HISTORIES_PER_MUTANT = 400;

/** What can be proved, in this order. */
const PROOFS = { ledger: proveLedger, webhooks: proveWebhooks, merchants: proveMerchants } as const;

async function main(args: string[]): Promise<number> {
  const options = { histories: { type: "string" }, kills: { type: "string", default: "20" } } as const;
  const { values, positionals } = parseArgs({ args, options, allowPositionals: true });
  const rooms = positionals.length === 0 ? Object.keys(PROOFS) : positionals;
  const unknown = rooms.find((room) => !Object.hasOwn(PROOFS, room));
  if (unknown !== undefined)
    throw new Sentence(`There is no proof of "${unknown}": use ledger, webhooks or merchants.`);
  console.log(machine());
  let proved = true;
  for (const room of rooms) {
    const prove = PROOFS[room as keyof typeof PROOFS];
    proved = (await prove(values.histories, values.kills)) && proved;
  }
  return proved ? 0 : 1;
}

async function proveLedger(count: string | undefined, kills: string): Promise<boolean> {
  const histories = await runTest(
    join(LEDGER, "histories.db.test.ts"),
    { CAURI_HISTORIES: count ?? "10000" },
    "inherit",
  );
  const survivors = await runMutants();
  const killed = await runTest(join(LEDGER, "ledger.crash.test.ts"), { CAURI_KILLS: kills }, "inherit");
  console.log(`ledger: histories ${said(histories)}, mutants ${said(survivors === 0)}, kills ${said(killed)}`);
  return histories && survivors === 0 && killed;
}

async function proveWebhooks(count: string | undefined, kills: string): Promise<boolean> {
  const histories = await runTest(join(WEBHOOKS, "rules.db.test.ts"), { CAURI_HISTORIES: count ?? "500" }, "inherit");
  const killed = await runTest(join(WEBHOOKS, "webhooks.crash.test.ts"), { CAURI_KILLS: kills }, "inherit");
  console.log(`webhooks: histories ${said(histories)}, kills and restarts ${said(killed)}`);
  return histories && killed;
}

async function proveMerchants(count: string | undefined): Promise<boolean> {
  const lives = await runTest(join(root, "test/merchant.db.test.ts"), { CAURI_MERCHANTS: count ?? "500" }, "inherit");
  console.log(`merchants: lives ${said(lives)}`);
  return lives;
}

/** How many mutants lived through the histories. */
async function runMutants(): Promise<number> {
  // One that changes nothing, or that no longer loads, would seem to be caught.
  for (const { name, file, from } of MUTANTS) {
    if (!readFileSync(join(LEDGER, file), "utf8").includes(from))
      throw new Sentence(`The mutant fits no more: ${name}`);
  }
  let survivors = 0;
  for (const { name } of MUTANTS) {
    const env = { CAURI_MUTANT: name, CAURI_HISTORIES: String(HISTORIES_PER_MUTANT), CAURI_SEED: "1" };
    // The histories find most of them; what is a matter of one instant is found by the engine's own tests.
    const passed =
      (await runTest(join(LEDGER, "histories.db.test.ts"), env, "ignore", HOOK)) &&
      (await runTest(join(LEDGER, "engine.db.test.ts"), env, "ignore", HOOK));
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
  const args = [...(hook === undefined ? [] : [`--import=${hook}`]), file];
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
