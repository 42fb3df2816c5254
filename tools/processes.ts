// What the operating system knows of a process: whether it lives, and since when. A pid alone may be another
// program's a moment later; a pid with its start names one process for ever.

import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { promisify } from "node:util";

/** When the process was started, in the system's own words; null when it is gone, or is dead and not yet buried. */
export async function startOf(pid: number): Promise<string | null> {
  if (!(pid > 0)) return null;
  return process.platform === "linux" ? startInProc(pid) : startByPs(pid);
}

/** A slim container has no `ps`, but Linux always has /proc. */
async function startInProc(pid: number): Promise<string | null> {
  const stat = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => null);
  if (stat === null) return null;
  // The program's name stands in parentheses and may hold anything; counted from its end, 0 is the state, 19 the start.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return fields[0] === "Z" ? null : (fields[19] ?? null);
}

async function startByPs(pid: number): Promise<string | null> {
  const env = { ...process.env, LC_ALL: "C", TZ: "UTC" };
  try {
    const { stdout } = await promisify(execFile)("ps", ["-o", "stat=", "-o", "lstart=", "-p", String(pid)], { env });
    const [, state = "", started = ""] = /^\s*(\S+)\s+(.*\S)\s*$/s.exec(stdout) ?? [];
    return state === "" || state.startsWith("Z") ? null : started;
  } catch {
    return null;
  }
}
