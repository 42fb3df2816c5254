// SIGKILL of a process of the house, and how one sees that it is back.

import assert from "node:assert/strict";
import { eventually, handles } from "./house.ts";

/** Kills the process and answers the pid that it had. */
export function sigkill(name: string): number {
  const pid = handles().processes[name] ?? assert.fail(`no process ${name} in local.json`);
  process.kill(pid, "SIGKILL");
  return pid;
}

/** Another process than that one has taken its place, and has said that it is ready. */
export async function startedAgain(name: string, was: number): Promise<void> {
  const now = async () => handles().processes[name];
  await eventually(`${name} is started again`, now, (pid) => pid !== undefined && pid !== was);
}

/** The gateway takes requests and has reached every room again. */
export async function readyAgain(base_url = handles().base_url): Promise<void> {
  const ask = () =>
    fetch(`${base_url}/readyz`).then(
      (answer) => answer.text(),
      (error: unknown) => String(error),
    );
  await eventually("the house is ready", ask, (text) => text === '{"status":"ready"}');
}

/** Whether a gateway would be given requests. */
export async function isReady(base_url: string): Promise<boolean> {
  return await fetch(`${base_url}/readyz`).then(
    ({ ok }) => ok,
    () => false,
  );
}
