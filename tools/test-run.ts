// One running house for a layer of tests: started as a person would start it, with certificates for webhook receivers on
// this machine, and searched for leaked secrets when it has stopped.

import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, cpSync, mkdirSync, openSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { writeAuthority } from "../test/authority.ts";
import { findLeaks } from "../test/leaks.ts";
import { postgresFolder } from "./data.ts";
import { freePorts } from "./ports.ts";
import { makeTestFolder, removeTestFolder } from "./test-folder.ts";

const root = dirname(import.meta.dirname);
/** A first start on a slow machine builds nats-server with Go. */
const READY_WITHIN_MS = 240_000;
const STOP_WITHIN_MS = 15_000;

export type TestRun = {
  /** Stops the house; throws when it did not stop cleanly or when a secret of the run is in any log. */
  end(): Promise<void>;
};

/** Starts the house and tells the tests where it is, by the environment. `layer` names what is kept of its logs. */
export async function beginTestRun(layer: string, settings: Readonly<Record<string, string>>): Promise<TestRun> {
  const folder = makeTestFolder();
  const data = join(folder, "data");
  const certs = join(folder, "certs");
  const secrets = join(folder, "secrets");
  const output = join(folder, "start.log");
  mkdirSync(certs, { mode: 0o700 });
  await writeAuthority(certs);
  writeFileSync(secrets, "", { mode: 0o600 });
  const [port, admin_port, grpc_port] = await freePorts(3);
  const doors = ["--port", port, "--admin-port", admin_port, "--grpc-port", grpc_port].map(String);
  const log = openSync(output, "w", 0o600);
  const child = spawn(process.execPath, ["tools/start.ts", "--data", data, ...doors], {
    cwd: root,
    // The channel is what ends the house when this run is killed.
    stdio: ["ignore", log, log, "ipc"],
    env: {
      ...foreignEnvironment(),
      CAURI_WEBHOOK_ALLOW: "127.0.0.0/8,::1",
      CAURI_WEBHOOK_CA: join(certs, "ca.pem"),
      ...settings,
    },
  });
  closeSync(log);
  await awaitReady(child, output);
  Object.assign(process.env, { CAURI_TEST_HOUSE: data, CAURI_TEST_CERTS: certs, CAURI_TEST_SECRETS: secrets });
  return {
    async end() {
      const code = await stop(child);
      const leaks = findLeaks(join(data, "logs"), secrets);
      const kept = keepLogs(layer, data, output);
      await removeTestFolder(folder, postgresFolder(data));
      if (leaks.length > 0) throw new Error(`secrets in the logs (${kept}):\n${leaks.join("\n")}`);
      if (code !== 0) throw new Error(`the house did not stop cleanly (${code}): see ${kept}`);
    },
  };
}

/** What the person's shell says about the house is not for this one. */
function foreignEnvironment(): NodeJS.ProcessEnv {
  const ours = /^(CAURI_|npm_|NODE_TEST_|DATABASE_URL$|NATS_URL$)/;
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
    await sleep(50);
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

/** The logs of the last run of each layer stay, for whoever has to find out why a test failed. */
function keepLogs(layer: string, data: string, output: string): string {
  const kept = join(root, ".cauri-test", layer);
  rmSync(kept, { recursive: true, force: true });
  mkdirSync(kept, { recursive: true, mode: 0o700 });
  cpSync(join(data, "logs"), kept, { recursive: true });
  cpSync(output, join(kept, "start.log"));
  return kept;
}
