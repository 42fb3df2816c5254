// `npm run bench ledger [-- seconds]` and `npm run bench ledger-growth [-- options]`: the ledger's own benches, in a process
// of their own, so that what it uses is counted apart from this one.

import { spawn } from "node:child_process";
import { dirname, join } from "node:path";
import { Sentence } from "./sentence.ts";

const root = dirname(import.meta.dirname);

export function benchLedger(args: readonly string[]): Promise<void> {
  return runBench("services/ledger/src/engine.bench.ts", args);
}

export function benchLedgerGrowth(args: readonly string[]): Promise<void> {
  return runBench("services/ledger/src/growth.bench.ts", args);
}

function runBench(file: string, args: readonly string[]): Promise<void> {
  return new Promise((settle, reject) => {
    const child = spawn(process.execPath, [join(root, file), ...args], { stdio: "inherit" });
    child.on("error", reject);
    child.on("exit", (code) => (code === 0 ? settle() : reject(new Sentence("The ledger's bench failed."))));
  });
}
