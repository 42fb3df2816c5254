// `npm test [-- words]`: runs every layer of tests, told apart by file name, and closes with one line that sums them.
// A word selects the files whose path holds it (`npm test -- ledger`); pure, db, story and crash select a layer;
// an option such as --test-name-pattern=refund is handed to Node's runner.

import { spawn } from "node:child_process";
import { globSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, relative, resolve } from "node:path";
import { runCommand, Sentence } from "./sentence.ts";
import type { Tally } from "./test-tally.ts";

const root = dirname(import.meta.dirname);
const FOLDERS = ["packages/*/src", "services/*/src", "gateway/src", "cli/src", "web/*/src", "tools", "test"];
/** Four files at once keep two cores busy while some of them wait for a database or a timer. */
const CONCURRENCY = "--test-concurrency=4";

type Layer = { readonly name: string; readonly suffix: string; readonly options: readonly string[] };

/** In the order of their cost, so that a plain mistake shows within seconds. */
const LAYERS: readonly Layer[] = [
  { name: "pure", suffix: ".test.ts", options: ["--test-isolation=none", "--test-timeout=60000"] },
  {
    name: "db",
    suffix: ".db.test.ts",
    options: [CONCURRENCY, "--test-timeout=120000", "--test-global-setup=tools/test-database.ts"],
  },
  {
    name: "story",
    suffix: ".story.test.ts",
    options: [CONCURRENCY, "--test-timeout=180000", "--test-global-setup=tools/test-house.ts"],
  },
  // Alone: each crash file kills the processes of a house of its own and needs the machine for itself.
  {
    name: "crash",
    suffix: ".crash.test.ts",
    options: ["--test-concurrency=1", "--test-timeout=900000", "--test-global-setup=tools/test-crash.ts"],
  },
];

async function main(args: readonly string[]): Promise<number> {
  const options = args.filter((arg) => arg.startsWith("-"));
  const words = args.filter((arg) => !arg.startsWith("-"));
  const chosen = select(words);
  const total = { passed: 0, failed: 0, skipped: 0 };
  for (const { layer, files } of chosen) {
    console.log(`\n${layer.name}: ${files.length} test ${files.length === 1 ? "file" : "files"}`);
    const started = Date.now();
    const tally = await runLayer(layer, files, options, words.length > 0);
    total.passed += tally.passed;
    total.failed += tally.failed;
    total.skipped += tally.skipped;
    const seconds = ((Date.now() - started) / 1000).toFixed(1);
    console.log(`${layer.name}: ${tally.passed} of ${tally.passed + tally.failed} in ${seconds} s`);
  }
  const skipped = total.skipped > 0 ? `, ${total.skipped} skipped` : "";
  console.log(`\n${total.passed} passed, ${total.failed} failed${skipped}`);
  return total.failed === 0 ? 0 : 1;
}

function select(words: readonly string[]): { layer: Layer; files: string[] }[] {
  const layerWords = words.filter((word) => LAYERS.some(({ name }) => name === word));
  const paths = words.filter((word) => !layerWords.includes(word)).map(asInRepository);
  const all = FOLDERS.flatMap((folder) => globSync(`${folder}/**/*.test.ts`, { cwd: root })).sort();
  const chosen = LAYERS.filter(({ name }) => layerWords.length === 0 || layerWords.includes(name))
    .map((layer) => ({ layer, files: all.filter((file) => layerOf(file) === layer && isWanted(file, paths)) }))
    .filter(({ files }) => files.length > 0);
  if (chosen.length === 0) throw new Sentence(`No test file matches "${words.join(" ")}".`);
  return chosen;
}

/** The longest suffix decides: `x.db.test.ts` ends in `.test.ts` too. */
function layerOf(file: string): Layer | undefined {
  return LAYERS.filter(({ suffix }) => file.endsWith(suffix)).sort((a, b) => b.suffix.length - a.suffix.length)[0];
}

function isWanted(file: string, paths: readonly string[]): boolean {
  return paths.length === 0 || paths.some((path) => file.includes(path));
}

/** A word that is an existing path may be given from anywhere; any other word is taken as it is. */
function asInRepository(word: string): string {
  const inside = relative(root, resolve(word));
  return inside !== "" && !inside.startsWith("..") && globSync(inside, { cwd: root }).length > 0 ? inside : word;
}

async function runLayer(
  layer: Layer,
  files: readonly string[],
  options: readonly string[],
  detailed: boolean,
): Promise<Tally> {
  const folder = mkdtempSync(join(tmpdir(), "cauri-tally-"));
  const tallyFile = join(folder, "tally.json");
  const reporters = [
    `--test-reporter=${detailed ? "spec" : "dot"}`,
    "--test-reporter-destination=stdout",
    "--test-reporter=./tools/test-tally.ts",
    `--test-reporter-destination=${tallyFile}`,
  ];
  try {
    const code = await runNode(["--test", ...layer.options, ...reporters, ...options, ...files]);
    const tally = readTally(tallyFile);
    // A runner that dies, or a setup that fails, has no failed test to show; that must not look like success.
    return code !== 0 && tally.failed === 0 ? { ...tally, failed: 1 } : tally;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function readTally(file: string): Tally {
  try {
    return JSON.parse(readFileSync(file, "utf8")) as Tally;
  } catch {
    return { passed: 0, failed: 1, skipped: 0 };
  }
}

function runNode(args: readonly string[]): Promise<number> {
  return new Promise((settle, reject) => {
    const child = spawn(process.execPath, args, { cwd: root, stdio: "inherit" });
    // However the end is asked for, this process outlives the runner, whose teardown stops the servers.
    const stop = () => child.kill("SIGTERM");
    process.on("SIGINT", stop).on("SIGTERM", stop).on("disconnect", stop);
    child.on("error", reject);
    child.on("exit", (code) => {
      process.off("SIGINT", stop).off("SIGTERM", stop).off("disconnect", stop);
      settle(code ?? 1);
    });
  });
}

await runCommand(() => main(process.argv.slice(2)));
