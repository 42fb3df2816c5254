// Generates packages/proto/gen from proto/: ts-proto for services, protobuf-es for gateway and CLI, and the
// descriptor image that the gateway boots from. Skipped while nothing it depends on has changed.
// Plain JavaScript for Node 20: it runs before the repository's own Node is known to be there.

import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { delimiter, dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const target = join(root, "packages/proto/gen");
const stamp = join(target, "stamp");

/** What decides the generated text besides proto/: a change in any of these generates anew. */
const inputs = [
  "buf.yaml",
  "buf.gen.yaml",
  "tools/generate.mjs",
  "node_modules/@bufbuild/buf/package.json",
  "node_modules/@bufbuild/protoc-gen-es/package.json",
  "node_modules/ts-proto/package.json",
];

/** Whether packages/proto/gen is what the present contract gives. */
export function isGenerated() {
  return existsSync(stamp) && readFileSync(stamp, "utf8") === inputHash();
}

/** Brings packages/proto/gen up to date; throws a sentence with buf's own words when the contract does not compile. */
export function generate(say = console.log, node = process.execPath) {
  const hash = inputHash();
  say("generating code from proto/");
  const fresh = `${target}.${process.pid}.new`;
  const stale = `${target}.${process.pid}.old`;
  rmSync(fresh, { recursive: true, force: true });
  mkdirSync(fresh, { recursive: true });
  try {
    buf(node, "generate", "--output", fresh);
    buf(node, "build", "--output", join(fresh, "image.binpb"));
    writeFileSync(join(fresh, "stamp"), hash);
    // Two renames, so that a process that starts meanwhile sees the old code or the new one, never half of both.
    if (existsSync(target)) renameSync(target, stale);
    renameSync(fresh, target);
  } finally {
    rmSync(fresh, { recursive: true, force: true });
    rmSync(stale, { recursive: true, force: true });
  }
}

/** Runs the repository's own buf, with the given Node first in PATH for the plugins that buf starts. */
function buf(node, ...args) {
  const bin = join(root, "node_modules/@bufbuild/buf/bin/buf");
  const env = { ...process.env, PATH: `${dirname(node)}${delimiter}${process.env.PATH ?? ""}` };
  const done = spawnSync(node, [bin, ...args], { cwd: root, env, encoding: "utf8" });
  if (done.error) throw new Error(`buf could not be started: ${done.error.message}`);
  if (done.status !== 0) {
    throw new Error(`buf ${args[0]} refused the contract in proto/:\n${done.stderr || done.stdout}`);
  }
}

function inputHash() {
  const hash = createHash("sha256");
  for (const file of [...inputs, ...protoFiles(join(root, "proto"))]) {
    hash
      .update(`${file}\0`)
      .update(readFileSync(join(root, file)))
      .update("\0");
  }
  return hash.digest("hex");
}

function protoFiles(folder) {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith(".proto"))
    .map((entry) => relative(root, join(entry.parentPath ?? entry.path, entry.name)))
    .sort();
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  try {
    if (isGenerated()) console.log("generated code is up to date");
    else generate();
  } catch (error) {
    console.error(error.message);
    process.exit(1);
  }
}
