import assert from "node:assert/strict";
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";

const folder = mkdtempSync(join(tmpdir(), "cauri-process-"));
after(() => rmSync(folder, { recursive: true }));

const ENVIRONMENT = {
  NATS_URL: "nats://127.0.0.1:1",
  CAURI_LEDGER_DATABASE_URL: "postgres://127.0.0.1/none",
  CAURI_RPC_TOKEN: "house",
};

type Ready = { readonly ready: boolean; readonly ports: { readonly metrics: number; readonly rpc: number } };

/** Starts a process of its own around `main`'s body. */
function start(body: string, env: NodeJS.ProcessEnv = {}): ChildProcess & { readonly out: string[] } {
  const file = join(folder, `main-${Math.floor(performance.now() * 1000)}.ts`);
  const at = JSON.stringify(join(import.meta.dirname, "process.ts"));
  writeFileSync(file, `import { runService } from ${at};\nawait runService("ledger", async (running) => {${body}});\n`);
  // Without the options of the test runner: with them the child would be a test runner as well.
  const options = { execArgv: [], env: { ...ENVIRONMENT, ...env } };
  const child = fork(file, { ...options, stdio: ["ignore", "pipe", "pipe", "ipc"] });
  const out: string[] = [];
  child.stdout?.on("data", (part) => out.push(String(part)));
  child.stderr?.on("data", (part) => out.push(String(part)));
  return Object.assign(child, { out });
}

const ready = (child: ChildProcess) =>
  new Promise<Ready>((resolve) => child.once("message", (said) => resolve(said as Ready)));
/** Settles when the child has said what is waited for. */
const until = (child: ChildProcess, said: () => boolean) =>
  new Promise<void>((resolve) => child.on("message", () => said() && resolve()));
/** Its exit code, when all that it wrote has been read too. */
const exited = async (child: ChildProcess) => {
  const [[code]] = await Promise.all([
    once(child, "exit") as Promise<[number | null]>,
    child.stdout === null ? null : once(child.stdout, "end"),
  ]);
  return code;
};

test("process: it says when it is ready, tells its health and numbers, and drains in the opposite order", async () => {
  const child = start(`
    running.atReady("database", async () => null);
    running.atDrain("first", () => running.log.info("step one"));
    running.atDrain("second", () => running.log.info("step two"));
    return { ports: { rpc: 7 } };`);
  const { ports } = await ready(child);
  assert.equal(ports.rpc, 7);
  const get = (path: string) => fetch(`http://127.0.0.1:${ports.metrics}${path}`);
  assert.equal((await get("/healthz")).status, 200);
  assert.equal((await get("/readyz")).status, 200);
  assert.match(await (await get("/metrics")).text(), /process_resident_memory_bytes/);
  const gone = exited(child);
  child.kill("SIGTERM");
  assert.equal(await gone, 0);
  const log = child.out.join("");
  assert.ok(log.indexOf("step two") < log.indexOf("step one") && log.includes("step one"), log);
});

test("process: a probe that is not well, fails or hangs makes it not ready, by name", async () => {
  const child = start(`
    running.atReady("well", async () => null);
    running.atReady("disk", async () => "is full");
    running.atReady("database", async () => { throw new Error("secret detail"); });
    return { ports: { rpc: 7 } };`);
  const { ports } = await ready(child);
  const answer = await fetch(`http://127.0.0.1:${ports.metrics}/readyz`);
  assert.equal(answer.status, 503);
  assert.equal(await answer.text(), "disk: is full\ndatabase: failed\n");
  const gone = exited(child);
  child.disconnect();
  assert.equal(await gone, 0, "it leaves when its supervisor is gone");
});

test("process: a step that hangs is cut off after the time that the settings allow", async () => {
  const child = start(`running.atDrain("stuck", () => new Promise(() => {})); return { ports: { rpc: 7 } };`, {
    CAURI_DRAIN_MS: "200",
  });
  await ready(child);
  const begun = performance.now();
  const gone = exited(child);
  child.kill("SIGTERM");
  assert.equal(await gone, 0);
  assert.ok(performance.now() - begun < 9_500, "unless set it is ten seconds");
});

test("process: its supervisor hears its loud lines and no others", async () => {
  const child = start(`
    running.log.info("a usual line");
    running.log.warn({ loop: "relay" }, "a loud line");
    return { ports: { rpc: 7 } };`);
  const heard: unknown[] = [];
  child.on("message", (said) => heard.push(said));
  await until(child, () => heard.some((said) => (said as Ready).ready));
  const [loud, told] = heard as [{ readonly loud: string }, Ready];
  assert.equal(heard.length, 2);
  const { level, loop, msg } = JSON.parse(loud.loud);
  assert.deepEqual([level, loop, msg, told.ready], ["warn", "relay", "a loud line", true]);
  const gone = exited(child);
  child.kill("SIGTERM");
  assert.equal(await gone, 0);
  assert.match(child.out.join(""), /a usual line.*a loud line/s);
});

test("process: a wrong setting stops the boot with a sentence and no stack; an uncaught error ends the process", async () => {
  const wrong = start("return { ports: {} };", { CAURI_DRAIN_MSS: "1" });
  assert.equal(await exited(wrong), 78);
  assert.match(wrong.out.join(""), /^ledger does not start:\nCAURI_DRAIN_MSS is not a setting/);
  assert.ok(!wrong.out.join("").includes("    at "));
  const broken = start(
    `setTimeout(() => { throw new Error("nobody caught this"); }, 10); return { ports: { rpc: 7 } };`,
  );
  assert.equal(await exited(broken), 70);
  assert.match(broken.out.join(""), /nobody caught this/);
});
