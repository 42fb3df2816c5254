// Global setup of the crash layer: a house whose processes are going to be killed, with short clocks, so that what a
// kill delays is made up for within the test.

import { beginTestRun, type TestRun } from "./test-run.ts";

let run: TestRun | undefined;

export async function globalSetup(): Promise<void> {
  run = await beginTestRun("crash", {
    CAURI_SIM_DELAY_MS: "300",
    CAURI_WEBHOOK_LADDER: "1,2,4,8",
    CAURI_WEBHOOK_SUSPEND_S: "5",
  });
}

export async function globalTeardown(): Promise<void> {
  await run?.end();
}
