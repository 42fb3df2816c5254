// `npm run bench ledger [-- seconds]`: the ledger's own bench, in a process of its own, so that what it uses is counted
// apart from this one.

import { spawn } from "node:child_process";
import { dirname, join } from "node:path";
import { Sentence } from "./sentence.ts";

const BENCH = join(dirname(import.meta.dirname), "services/ledger/src/engine.bench.ts");

export function benchLedger(args: readonly string[]): Promise<void> {
  return new Promise((settle, reject) => {
    const child = spawn(process.execPath, [BENCH, ...args], { stdio: "inherit" });
    child.on("error", reject);
    child.on("exit", (code) => (code === 0 ? settle() : reject(new Sentence("The ledger's bench failed."))));
  });
}
