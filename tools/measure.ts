// What a measurement says beside its figures: the machine, the load on it, and what each process of the house used, from
// Linux's /proc. On another system those columns stay empty.

import { readdirSync, readFileSync } from "node:fs";
import { availableParallelism, cpus, loadavg, release, totalmem, type } from "node:os";

/** Linux counts CPU time in hundredths of a second, whatever its own clock does. */
const TICKS_PER_S = 100;

export function machine(): string {
  const memory = `${(totalmem() / 2 ** 30).toFixed(0)} GiB`;
  const load = loadavg().map((value) => value.toFixed(2));
  const model = cpus()[0]?.model.trim() ?? "unknown processor";
  return `${availableParallelism()} cores of ${model}, ${memory}, ${type()} ${release()}, Node ${process.versions.node}, load ${load.join(" ")}`;
}

/** CPU time in ms that each named process has used so far. */
export function cpuOf(processes: Readonly<Record<string, number>>): Record<string, number> {
  const used = Object.entries(processes).map(([name, pid]) => {
    const ticks = family(name, pid).map(({ stat }) => Number(stat[11]) + Number(stat[12]));
    // Connections that have ended are counted by PostgreSQL itself; the supervisor's ended children are not its own work.
    const stat = name === "postgres" ? readStat(pid) : null;
    const ended = Number(stat?.[13] ?? 0) + Number(stat?.[14] ?? 0);
    return [name, ((sum(ticks) + ended) * 1000) / TICKS_PER_S] as const;
  });
  return Object.fromEntries(used);
}

/** Memory in MiB of each named process, shared pages counted by their share (Pss). */
export function memoryOf(processes: Readonly<Record<string, number>>): Record<string, number> {
  const used = Object.entries(processes).map(([name, pid]) => {
    const kib = family(name, pid).map(({ pid: member }) =>
      Number(/^Pss:\s+(\d+)/m.exec(proc(member, "smaps_rollup"))?.[1] ?? 0),
    );
    return [name, sum(kib) / 1024] as const;
  });
  return Object.fromEntries(used);
}

export function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}

/** The value below which `share` of the sorted values lie. */
export function percentile(sorted: readonly number[], share: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
}

type Member = { readonly pid: number; readonly stat: readonly string[] };

/** A process, and for PostgreSQL its children, of which one serves each connection. */
function family(name: string, pid: number): Member[] {
  const pids = name === "postgres" ? allPids() : [pid];
  return pids.flatMap((candidate) => {
    const stat = readStat(candidate);
    return stat !== null && (candidate === pid || Number(stat[1]) === pid) ? [{ pid: candidate, stat }] : [];
  });
}

function allPids(): number[] {
  if (process.platform !== "linux") return [];
  return readdirSync("/proc")
    .map(Number)
    .filter((pid) => pid > 0);
}

/** The fields after the program's name, of which 0 is the state. */
function readStat(pid: number): string[] | null {
  const stat = proc(pid, "stat");
  return stat === "" ? null : stat.slice(stat.lastIndexOf(")") + 2).split(" ");
}

function proc(pid: number, file: string): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, "utf8");
  } catch {
    return "";
  }
}
