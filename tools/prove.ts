// `npm run prove [-- ledger|webhooks|merchants --histories n --kills n]`: proofs beyond what `npm test` has time for. As many random
// histories against the plain model as one likes; mutants of the ledger's engine and of the road on which money leaves, each of
// which must be caught; kills of the room, its PostgreSQL and, for webhooks, its nats-server under load. A history of
// merchants is one merchant's life.

import { spawn } from "node:child_process";
import { dirname, join } from "node:path";
import { parseArgs } from "node:util";
import { LEDGER_MUTANTS } from "./ledger-mutants.ts";
import { machine } from "./measure.ts";
import { MONEY_OUT_MUTANTS } from "./money-out-mutants.ts";
import { checkMutants, type Mutant } from "./mutants.ts";
import { runCommand, Sentence } from "./sentence.ts";

const root = dirname(import.meta.dirname);
const LEDGER = join(root, "services/ledger/src");
const WEBHOOKS = join(root, "services/webhooks/src");
const MERCHANTS = join(root, "test/merchant.db.test.ts");
const HOOK = join(import.meta.dirname, "mutants.ts");
/** Enough to catch a mutant: most fall within the first hundred, of merchants' lives within the first thirty. */
const HISTORIES_PER_MUTANT = 400;
const LIVES_PER_MUTANT = 200;

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
  const env = { CAURI_HISTORIES: String(HISTORIES_PER_MUTANT), CAURI_SEED: "1" };
  // The histories find most of them; what is a matter of one instant is found by the engine's own.
  const tests = ["histories", "engine", "lane", "carry"].map((name) => join(LEDGER, `${name}.db.test.ts`));
  const survivors = await runMutants(LEDGER_MUTANTS, tests, env);
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
  const lives = await runTest(MERCHANTS, { CAURI_MERCHANTS: count ?? "500" }, "inherit");
  const env = { CAURI_MERCHANTS: String(LIVES_PER_MUTANT), CAURI_SEED: "1" };
  const survivors = await runMutants(MONEY_OUT_MUTANTS, [MERCHANTS], env);
  console.log(`merchants: lives ${said(lives)}, mutants ${said(survivors === 0)}`);
  return lives && survivors === 0;
}

/** How many mutants lived through their tests; one that names its own test is put to that alone. */
async function runMutants(
  mutants: readonly Mutant[],
  tests: readonly string[],
  env: Readonly<Record<string, string>>,
): Promise<number> {
  checkMutants(mutants);
  let survivors = 0;
  for (const { name, caught_by } of mutants) {
    let passed = true;
    for (const test of caught_by === undefined ? tests : [join(root, caught_by)]) {
      passed &&= await runTest(test, { ...env, CAURI_MUTANT: name }, "ignore", HOOK);
    }
    if (passed) survivors += 1;
    console.log(`${passed ? "ALIVE " : "caught"} ${name}${caught_by === undefined ? "" : ` (${caught_by})`}`);
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
