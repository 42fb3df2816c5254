// A house as its own process, for tests and measurements: started as a person would start it, on free ports, with its
// output in a file.

import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, openSync, readFileSync } from "node:fs";
import { dirname } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { freePorts } from "./ports.ts";

const root = dirname(import.meta.dirname);
/** A first start on a slow machine builds nats-server with Go. */
const READY_WITHIN_MS = 240_000;
/** The supervisor takes ten seconds at most, on a machine that lets it. */
const STOP_WITHIN_MS = 60_000;

export type HouseProcess = {
  readonly pid: number;
  /** Stops the house; 0 when it left as it should, else a word on what happened. */
  stop(): Promise<number | string>;
};

export type HouseProcessOptions = {
  readonly data: string;
  /** The file that gets what the house says. */
  readonly output: string;
  readonly settings: Readonly<Record<string, string>>;
  /** The script and the arguments before the house's own: the supervisor itself, or the bootstrap before it. */
  readonly command?: readonly string[];
};

/** Starts a house and waits until it is ready. */
export async function startHouseProcess(options: HouseProcessOptions): Promise<HouseProcess> {
  const { data, output, settings, command = ["tools/start.ts"] } = options;
  const [port, admin_port, grpc_port] = await freePorts(3);
  const doors = ["--port", port, "--admin-port", admin_port, "--grpc-port", grpc_port].map(String);
  const log = openSync(output, "w", 0o600);
  const child = spawn(process.execPath, [...command, "--data", data, ...doors], {
    cwd: root,
    // The channel is what ends the house when this process is killed.
    stdio: ["ignore", log, log, "ipc"],
    env: { ...foreignEnvironment(), ...settings },
  });
  closeSync(log);
  await awaitReady(child, output);
  return { pid: child.pid ?? 0, stop: () => stop(child) };
}

/** What the person's shell says about the house is not for this one. */
function foreignEnvironment(): NodeJS.ProcessEnv {
  const ours = /^(CAURI_|OTEL_|npm_|NODE_TEST_|DATABASE_URL$|NATS_URL$)/;
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !ours.test(name)));
}

async function awaitReady(child: ChildProcess, output: string): Promise<void> {
  const deadline = Date.now() + READY_WITHIN_MS;
  while (!/^ready http/m.test(readFileSync(output, "utf8"))) {
    const said = () => readFileSync(output, "utf8").trim();
    if (child.exitCode !== null) throw new Error(`the house did not start:\n${said()}`);
    if (Date.now() > deadline) {
      child.kill();
      throw new Error(`the house was not ready within ${READY_WITHIN_MS / 1000} s:\n${said()}`);
    }
    await sleep(10);
  }
}

async function stop(child: ChildProcess): Promise<number | string> {
  if (child.exitCode !== null) return `it ended before its time with ${child.exitCode}`;
  const ended = new Promise<number | string>((settle) => {
    child.once("exit", (code, signal) => settle(code ?? signal ?? "?"));
  });
  child.kill("SIGTERM");
  const late = sleep(STOP_WITHIN_MS, `it was still there ${STOP_WITHIN_MS / 1000} s later`, { ref: false });
  const outcome = await Promise.race([ended, late]);
  if (child.exitCode === null) child.kill("SIGKILL");
  return outcome;
}
