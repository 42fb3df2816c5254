// `npm run bench [-- name options]`: measures one thing on a fresh house and prints what it was measured on. Without a
// name it tells which benches there are.

import { benchEdge } from "./bench-edge.ts";
import { benchLedger, benchLedgerGrowth } from "./bench-ledger.ts";
import { benchMemory } from "./bench-memory.ts";
import { benchPayments } from "./bench-payments.ts";
import { benchPayouts } from "./bench-payouts.ts";
import { benchReads } from "./bench-reads.ts";
import { benchStart } from "./bench-start.ts";
import { benchWebhooks } from "./bench-webhooks.ts";
import { runCommand, Sentence } from "./sentence.ts";

type Bench = { readonly what: string; readonly run: (args: readonly string[]) => Promise<void> };

const BENCHES: Readonly<Record<string, Bench>> = {
  edge: {
    what: "what a check of the rate limit costs beside a payment; whether refusals tell keys apart",
    run: benchEdge,
  },
  ledger: { what: "transfers per second of the ledger's engine, and by gRPC", run: benchLedger },
  "ledger-growth": { what: "whether the ledger stays as fast over 10 M transfers", run: benchLedgerGrowth },
  memory: { what: "memory of each process over ten minutes of payments", run: benchMemory },
  payments: { what: "POST /v1/payments, closed loop, 64 connections", run: benchPayments },
  payouts: { what: "POST /v1/payouts to their success: spread, and all on one balance", run: benchPayouts },
  reads: { what: "GET of a payment by id; page 1,000 of a million beside page 1", run: benchReads },
  start: { what: "warm start of the whole house, and its memory", run: benchStart },
  webhooks: { what: "deliveries per second, event to arrival, isolation, claiming from 1 M rows", run: benchWebhooks },
};

async function main([name, ...args]: readonly string[]): Promise<number> {
  if (name === undefined) {
    console.log("npm run bench <name> [-- options]");
    for (const [bench, { what }] of Object.entries(BENCHES)) console.log(`  ${bench.padEnd(14)} ${what}`);
    return 0;
  }
  const bench = BENCHES[name];
  if (bench === undefined) throw new Sentence(`There is no bench "${name}": use ${Object.keys(BENCHES).join(" or ")}.`);
  await bench.run(args);
  return 0;
}

await runCommand(() => main(process.argv.slice(2)));
