// The temporary folder of one test run.

import { mkdirSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { forgetPostgres } from "./postgres.ts";

const PREFIX = "cauri-test-";

/** A new folder named after this process; those of processes that were killed before their teardown are removed. */
export function makeTestFolder(): string {
  for (const name of readdirSync(tmpdir())) {
    const pid = Number(name.startsWith(PREFIX) ? name.slice(PREFIX.length) : "");
    if (pid > 0 && !isAlive(pid)) rmSync(join(tmpdir(), name), { recursive: true, force: true });
  }
  const path = join(tmpdir(), `${PREFIX}${process.pid}`);
  mkdirSync(path, { recursive: true, mode: 0o711 });
  return path;
}

/** Removes the folder, and a PostgreSQL of this run that had to live elsewhere. */
export async function removeTestFolder(path: string, postgresHome: string): Promise<void> {
  await forgetPostgres(postgresHome);
  rmSync(path, { recursive: true, force: true });
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error instanceof Error && "code" in error && error.code === "EPERM";
  }
}
