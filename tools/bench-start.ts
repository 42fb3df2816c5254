// Warm start time of the whole house, as `npm start` takes it, and the memory of all its processes at rest.

import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { handles } from "../test/house.ts";
import { holderOf } from "./data.ts";
import { startHouseProcess } from "./house-process.ts";
import { machine, memoryOf, sum } from "./measure.ts";
import { makeTestFolder, removeTestFolder } from "./test-folder.ts";

const ROUNDS = 3;
/** Long enough for the first collection of garbage and the end of what a start leaves to do. */
const REST_MS = 5_000;

export async function benchStart(): Promise<void> {
  const folder = makeTestFolder();
  const data = join(folder, "data");
  mkdirSync(data, { recursive: true });
  const command = ["tools/bootstrap.mjs", "start"];
  const start = () => startHouseProcess({ data, output: join(folder, "start.log"), settings: {}, command });
  console.log(`machine  ${machine()}`);
  try {
    // The first start creates the data and fills the compile cache.
    await (await start()).stop();
    for (let round = 1; round <= ROUNDS; round += 1) {
      const began = performance.now();
      const house = await start();
      const seconds = ((performance.now() - began) / 1000).toFixed(2);
      if (round === ROUNDS) {
        await sleep(REST_MS);
        const supervisor = (await holderOf(data)) ?? 0;
        printMemory({ ...handles(data).processes, supervisor, bootstrap: house.pid });
      }
      const stopping = performance.now();
      const code = await house.stop();
      console.log(
        `start ${round}  ready in ${seconds} s, stopped in ${((performance.now() - stopping) / 1000).toFixed(2)} s (${code})`,
      );
    }
  } finally {
    removeTestFolder(folder);
  }
}

function printMemory(processes: Readonly<Record<string, number>>): void {
  const memory = memoryOf(processes);
  for (const [name, mib] of Object.entries(memory))
    console.log(`memory   ${name.padEnd(12)} ${mib.toFixed(0).padStart(5)} MiB`);
  console.log(`memory   ${"sum of Pss".padEnd(12)} ${sum(Object.values(memory)).toFixed(0).padStart(5)} MiB`);
}
