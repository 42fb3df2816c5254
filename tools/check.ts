// `npm run check`: everything that is verified without running the house. All checks run, so that one look shows
// everything there is to mend; it exits 1 when any of them complains.

import { execFileSync, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { runCommand } from "./sentence.ts";

const root = dirname(import.meta.dirname);
const bin = (path: string) => join(root, "node_modules", path);

type Check = { readonly name: string; readonly script: string; readonly args: readonly string[] };

function checks(): Check[] {
  const buf = bin("@bufbuild/buf/bin/buf");
  const tsc = bin("typescript/bin/tsc");
  const base = breakingBase();
  return [
    { name: "format and lint", script: bin("@biomejs/biome/bin/biome"), args: ["check", "--error-on-warnings", "."] },
    { name: "contract lint", script: buf, args: ["lint"] },
    { name: "contract format", script: buf, args: ["format", "--diff", "--exit-code"] },
    ...(base === null ? [] : [{ name: `contract against ${base.slice(0, 7)}`, script: buf, args: breakingArgs(base) }]),
    { name: "interface description", script: bin("@redocly/cli/bin/cli.js"), args: LINT_DESCRIPTION },
    ...(base === null ? [] : [{ name: `description against ${base.slice(0, 7)}`, script: DIFF, args: [base] }]),
    { name: "types of tools and stories", script: tsc, args: ["--noEmit", "-p", "."] },
    { name: "types of the workspaces", script: bin("turbo/bin/turbo"), args: TYPES },
    { name: "tidiness", script: "--test", args: ["--test-reporter=dot", "tools/tidy.test.ts"] },
  ];
}

const TYPES = ["run", "types", "--output-logs=errors-only", "--continue", "--no-update-notifier"];

/** Its rules, and why each is there or not, stand in the configuration. */
const LINT_DESCRIPTION = ["lint", "--config", "gateway/redocly.yaml", "--format", "stylish", "gateway/openapi.json"];
const DIFF = join(root, "tools/openapi-diff.ts");

function breakingArgs(base: string): string[] {
  return ["breaking", "--against", `.git#ref=${base}`];
}

/**
 * What contract and description must stay compatible with: the commit at which this branch left the shared main one;
 * on that branch itself its last commit while something is uncommitted, else the one before. Null where history does
 * not reach, as in a shallow clone.
 */
function breakingBase(): string | null {
  const head = git("rev-parse", "HEAD");
  const changed = git("status", "--porcelain", "--", "proto", "gateway/openapi.json") !== "";
  const left = [git("merge-base", "HEAD", "origin/main"), git("merge-base", "HEAD", "main")];
  const base =
    left.find((commit) => commit !== null && commit !== head) ?? (changed ? head : git("rev-parse", "HEAD~1"));
  if (base === null) return null;
  const holds_both = git("ls-tree", base, "buf.yaml") && git("ls-tree", base, "gateway/openapi.json");
  return holds_both ? base : null;
}

function git(...args: string[]): string | null {
  try {
    return execFileSync("git", args, { cwd: root, encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).trim();
  } catch {
    return null;
  }
}

/** No tool of ours tells anybody that it was run. */
const QUIET = { TURBO_TELEMETRY_DISABLED: "1", REDOCLY_TELEMETRY: "off", REDOCLY_SUPPRESS_UPDATE_NOTICE: "true" };

function runCheck({ script, args }: Check): Promise<{ code: number; output: string }> {
  return new Promise((settle, reject) => {
    let output = "";
    const env = { ...process.env, ...QUIET, FORCE_COLOR: process.stdout.isTTY ? "1" : "0" };
    const child = spawn(process.execPath, [script, ...args], { cwd: root, env, stdio: ["ignore", "pipe", "pipe"] });
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding("utf8").on("data", (chunk: string) => {
        output += chunk;
      });
    }
    const stop = () => child.kill();
    process.on("disconnect", stop);
    child.on("error", reject);
    child.on("close", (code) => {
      process.off("disconnect", stop);
      settle({ code: code ?? 1, output });
    });
  });
}

const NOT_INSTALLED = "It is not installed: `npm run check` installs what package-lock.json names.";

async function main(): Promise<number> {
  let complaints = 0;
  for (const check of checks()) {
    const started = Date.now();
    const { code, output } = await runCheck(check);
    const seconds = ((Date.now() - started) / 1000).toFixed(1);
    console.log(`${code === 0 ? "ok  " : "FAIL"} ${check.name} (${seconds} s)`);
    if (code === 0) continue;
    complaints += 1;
    if (!existsSync(check.script) && check.script !== "--test") console.log(NOT_INSTALLED);
    console.log(output.trimEnd());
  }
  console.log(complaints === 0 ? "all checks passed" : `${complaints} checks complain`);
  return complaints === 0 ? 0 : 1;
}

await runCommand(main);
