// What is published: plain JavaScript that Node runs without stripping types, with types that a stranger's compiler takes.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, before, test } from "node:test";
import { build } from "../build.ts";

const home = mkdtempSync(join(tmpdir(), "cauri-verifier-"));
const published = join(home, "node_modules", "@cauri", "webhook-verifier");
const here = dirname(import.meta.dirname);

before(() => {
  mkdirSync(dirname(published), { recursive: true });
  build(published);
});
after(() => rmSync(home, { recursive: true }));

function run(...args: string[]): { status: number | null; output: string } {
  const { status, stdout, stderr } = spawnSync(process.execPath, args, { cwd: home, encoding: "utf8" });
  return { status, output: stdout + stderr };
}

test("build: JavaScript, types, a manifest without dependencies, the README, and nothing else", () => {
  assert.deepEqual(readdirSync(published).sort(), ["README.md", "package.json", "verify.d.ts", "verify.js"]);
  const manifest = JSON.parse(readFileSync(join(published, "package.json"), "utf8"));
  for (const absent of ["private", "dependencies", "scripts", "devDependencies"]) assert.ok(!(absent in manifest));
  assert.doesNotMatch(
    readFileSync(join(published, "verify.js"), "utf8"),
    /\brequire\(|\bimport\b|\bprocess\b|\bBuffer\b/,
  );
});

test("build: runs as plain JavaScript", () => {
  writeFileSync(
    join(home, "use.mjs"),
    `import { verifyWebhook } from "@cauri/webhook-verifier";
     const secret = "whsec_" + Buffer.alloc(32, 1).toString("base64");
     const verdict = await verifyWebhook(new TextEncoder().encode("{}"), new Headers(), secret);
     console.log(verdict.verified, verdict.reason);`,
  );
  assert.deepEqual(run("--no-strip-types", "use.mjs"), { status: 0, output: "false missing_header\n" });
});

test("build: the event is there only where the verdict says verified", () => {
  const compiler = join(dirname(createRequire(import.meta.url).resolve("typescript/package.json")), "bin/tsc");
  const options = ["--noEmit", "--strict", "--module", "nodenext", "--target", "es2022", "--types", ""];
  writeFileSync(
    join(home, "use.mts"),
    `import { verifyWebhook } from "@cauri/webhook-verifier";
     const verdict = await verifyWebhook(new Uint8Array(), new Headers(), "whsec_");
     if (verdict.verified) verdict.event.data.amount.trim();
     // @ts-expect-error: not before it was looked at.
     verdict.event;`,
  );
  assert.deepEqual(run(compiler, ...options, "use.mts"), { status: 0, output: "" });
});

test("readme: its examples are the files that are tried against real deliveries", () => {
  const readme = readFileSync(join(here, "README.md"), "utf8");
  for (const name of readdirSync(join(here, "examples"))) {
    const [, code = ""] = /^(?:\/\/.*\n)+\n([\s\S]*)$/.exec(readFileSync(join(here, "examples", name), "utf8")) ?? [];
    assert.ok(code.length > 0 && readme.includes(code.trimEnd()), `${name} is not in the README as it is`);
  }
});
