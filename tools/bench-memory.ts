// Whether memory stays flat: payments in a closed loop for minutes, and what each process then holds, told as it goes.

import { parseArgs } from "node:util";
import { handles, paymentBody } from "../test/house.ts";
import { drive, openKeys, openMerchants, RATE_LIMIT } from "./bench-load.ts";
import { startBenchReceiver } from "./bench-wire.ts";
import { machine, memoryOf } from "./measure.ts";
import { Sentence } from "./sentence.ts";
import { beginTestRun } from "./test-run.ts";

export async function benchMemory(args: readonly string[]): Promise<void> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      connections: { type: "string", default: "16" },
      minutes: { type: "string", default: "10" },
      "every-s": { type: "string", default: "60" },
    },
  });
  const number = (name: keyof typeof values) => {
    const value = Number(values[name]);
    if (!Number.isInteger(value) || value < 1) throw new Sentence(`--${name} must be a whole number from 1.`);
    return value;
  };
  const [connections, every_s, seconds] = [number("connections"), number("every-s"), number("minutes") * 60];
  console.log(`machine  ${machine()}`);
  const run = await beginTestRun("bench", { CAURI_RATE_LIMIT: String(RATE_LIMIT) });
  const receiver = await startBenchReceiver(run.certs);
  try {
    const keys = await openKeys(await openMerchants(1, receiver.url), connections);
    const target = { path: "/v1/payments", body: JSON.stringify(paymentBody("00")) };
    const watched = () => ({ ...handles().processes, supervisor: run.pid });
    const names = Object.keys(watched());
    console.log(`load     ${connections} connections, MiB of each process (shared pages by their share)`);
    console.log(`memory      s  payments/s  ${names.map((name) => name.padStart(WIDTH)).join("")}`);
    printMemory(0, 0, watched());
    for (let elapsed_s = 0; elapsed_s < seconds; elapsed_s += every_s) {
      const samples = await drive(keys, target, every_s);
      printMemory(elapsed_s + every_s, samples.filter(({ status }) => status === 201).length / every_s, watched());
    }
  } finally {
    await receiver.close();
    await run.end();
  }
}

const WIDTH = 12;

function printMemory(elapsed_s: number, rate: number, processes: Readonly<Record<string, number>>): void {
  const held = Object.values(memoryOf(processes)).map((mib) => mib.toFixed(0).padStart(WIDTH));
  console.log(`memory  ${String(elapsed_s).padStart(5)}  ${rate.toFixed(1).padStart(10)}  ${held.join("")}`);
}
