// `npm start`: the whole house on this machine, until Ctrl-C.

import { relative } from "node:path";
import { localFile } from "./data.ts";
import { createHouse, type House, type Ready } from "./house.ts";
import { readStartOptions, type StartOptions } from "./options.ts";
import { runCommand, sentenceOf } from "./sentence.ts";

/** A terminal sends Ctrl-C to npm and to every process before this one, some of which pass it on: one press, one stop. */
const SAME_PRESS_MS = 300;
const EXIT_AT_ONCE = 130;

async function main(): Promise<number> {
  const options = readStartOptions(process.argv.slice(2), process.env);
  if (options === null) return 0;
  const house = createHouse(options, (text) => console.log(text));
  const stopped = stopOnSignal(house);
  try {
    const ready = await house.start();
    printFirstPage(options, ready);
    await stopped.asked;
  } catch (error) {
    if (!stopped.isAsked()) {
      console.error(sentenceOf(error));
      await house.stop();
      return 1;
    }
  }
  await stopped.done;
  return 0;
}

/** The first signal stops the house, a second one ends it at once; so does the end of whoever started this process. */
function stopOnSignal(house: House) {
  const asked = Promise.withResolvers<void>();
  const done = Promise.withResolvers<void>();
  let asked_at: number | null = null;
  const onSignal = () => {
    if (asked_at !== null && Date.now() - asked_at < SAME_PRESS_MS) return;
    if (asked_at !== null) {
      house.kill();
      process.exit(EXIT_AT_ONCE);
    }
    asked_at = Date.now();
    console.log("stopping (once more to stop at once)");
    asked.resolve();
    house.stop().then(done.resolve, done.reject);
  };
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, onSignal);
  process.on("disconnect", onSignal);
  // A closed terminal must not turn the stop itself into a crash.
  process.stdout.on("error", () => {});
  return { asked: asked.promise, done: done.promise, isAsked: () => asked_at !== null };
}

function printFirstPage(options: StartOptions, { base_url, grpc_url, admin_url, demo }: Ready): void {
  const rows: [string, string][] = [
    ["API", `${base_url}/v1   (documentation: ${base_url}/docs)`],
    ["gRPC", grpc_url],
    ["operators", admin_url],
  ];
  if (demo !== null) {
    rows.push(["demo account", demo.account_id], ["test key", demo.test_key], ["live key", demo.live_key]);
  }
  rows.push(["handles", relative(process.cwd(), localFile(options.data))]);
  console.log(`\nCauri is up.\n${rows.map(([name, value]) => `  ${name.padEnd(13)} ${value}`).join("\n")}`);
  if ((process.env["CAURI_LIVE_RAILS"] ?? "simulator") === "simulator") {
    console.log("  Live mode is served by the simulator too on a local start: no real money moves.");
  }
  console.log("  Ctrl-C stops the house and keeps its data; npm run reset forgets them.\n");
  console.log(`ready ${base_url}`);
}

await runCommand(main);
process.exit();
