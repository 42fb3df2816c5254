// Global setup of the story layer: one house that all stories share, with the contract's own clocks.

import { beginTestRun, type TestRun } from "./test-run.ts";

let run: TestRun | undefined;

export async function globalSetup(): Promise<void> {
  run = await beginTestRun("story", {});
}

export async function globalTeardown(): Promise<void> {
  await run?.end();
}
