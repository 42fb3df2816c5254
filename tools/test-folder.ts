// The temporary folder of one run of tests or of a bench, with everything that its servers keep.

import { mkdirSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { forgetPostgres } from "./postgres.ts";

const PREFIX = "cauri-test-";
/** Where below the folder a run has its PostgreSQL: one of its own, or its house's. As root it may lie elsewhere. */
const POSTGRES = ["postgres", join("data", "postgres")];

/** A new folder named after this process; those of processes that were killed before their teardown are removed. */
export function makeTestFolder(): string {
  for (const name of readdirSync(tmpdir())) {
    const pid = Number(name.startsWith(PREFIX) ? name.slice(PREFIX.length) : "");
    if (pid > 0 && !isAlive(pid)) removeTestFolder(join(tmpdir(), name));
  }
  const path = join(tmpdir(), `${PREFIX}${process.pid}`);
  mkdirSync(path, { recursive: true, mode: 0o711 });
  return path;
}

/** Removes the folder, and a PostgreSQL of this run that had to live elsewhere; its servers must be stopped. */
export function removeTestFolder(path: string): void {
  for (const home of POSTGRES) forgetPostgres(join(path, home));
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
