// Runs one service of the house as its own process: it writes its log into a file by itself, and what a person should see
// of it comes to the terminal. The process leaves by itself when the channel to the supervisor closes.

import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, createWriteStream, openSync } from "node:fs";
import { dirname } from "node:path";
import { createInterface } from "node:readline";
import type { Running } from "./keeper.ts";
import { Sentence } from "./sentence.ts";

const root = dirname(import.meta.dirname);
/** A service starts in about a second; four times four at once on two slow cores is still below this. */
const READY_WITHIN_MS = 60_000;

/** A line that comes again within this time is not shown again. */
const SAME_NEWS_MS = 10_000;

/** Fields of a log line that say what in the process it is about. */
const WHERE = ["loop", "method", "consumer", "step"] as const;

export type ServiceOptions = {
  readonly name: string;
  readonly entry: string;
  readonly env: NodeJS.ProcessEnv;
  readonly log_file: string;
  readonly say: (text: string) => void;
  /** The folder of a CPU profile of its whole life; empty: none. */
  readonly profile?: string;
};

/** Starts the service and waits until it says that it is ready. */
export async function startService(options: ServiceOptions, stopping: AbortSignal): Promise<Running> {
  const { name, entry, env, log_file } = options;
  const log = openSync(log_file, "a", 0o600);
  const child = spawn(process.execPath, [...profiling(options), entry], {
    cwd: root,
    env,
    // Its own process group: Ctrl-C in the terminal is for the supervisor alone.
    detached: true,
    stdio: ["ignore", log, "pipe", "ipc"],
  });
  closeSync(log);
  const lastWords = listen(child, log_file, options);
  const exited = new Promise<string>((settle) => {
    child.once("exit", (code, signal) => settle(signal ?? `exit code ${code}`));
    child.once("error", (error) => settle(error.message));
  });
  const closed = new Promise((settle) => child.once("close", settle));
  const kill = () => child.kill("SIGKILL");
  stopping.addEventListener("abort", kill);
  let late = "";
  const timer = setTimeout(() => {
    late = `, after ${READY_WITHIN_MS / 1000} s`;
    kill();
  }, READY_WITHIN_MS);
  const ready = new Promise<null>((settle) => {
    child.on("message", (message) => isReady(message) && settle(null));
  });
  const failure = await Promise.race([ready, exited]);
  clearTimeout(timer);
  stopping.removeEventListener("abort", kill);
  if (failure === null) return running(child, exited);
  await closed;
  throw new Sentence(`${name} did not start (${failure}${late}): see ${log_file}.${lastWords()}`);
}

/** Node writes the profile when the process ends by itself, which it does on a stop. */
function profiling({ name, profile = "" }: ServiceOptions): string[] {
  if (profile === "") return [];
  return ["--cpu-prof", `--cpu-prof-dir=${profile}`, `--cpu-prof-name=${name}.cpuprofile`, "--cpu-prof-interval=1000"];
}

function running(child: ChildProcess, exited: Promise<string>): Running {
  const { pid } = child;
  if (pid === undefined) throw new Error("a service that is ready has no pid");
  return {
    pid,
    exited,
    async stop(patience_ms) {
      child.kill("SIGTERM");
      const timer = setTimeout(() => child.kill("SIGKILL"), patience_ms);
      await exited;
      clearTimeout(timer);
    },
    kill() {
      child.kill("SIGKILL");
    },
  };
}

function isReady(message: unknown): boolean {
  return typeof message === "object" && message !== null && "ready" in message && message.ready === true;
}

/**
 * Shows what the service tells of its loud lines, and copies into the log what it says on stderr, which its log is not:
 * answers with the last words there.
 */
function listen(child: ChildProcess, log_file: string, { name, say }: ServiceOptions): () => string {
  const shown = new Map<string, number>();
  child.on("message", (message) => {
    if (!isLoud(message)) return;
    const line = readable(message.loud);
    // Ten connections lost at once are one piece of news; the file has them all.
    const again = Date.now() - (shown.get(line) ?? 0) < SAME_NEWS_MS;
    if (shown.size > 100) shown.clear();
    shown.set(line, Date.now());
    if (!again) say(`${name}: ${line}`);
  });
  const words: string[] = [];
  if (child.stderr !== null) {
    const file = createWriteStream(log_file, { flags: "a", mode: 0o600 });
    file.on("error", (error) => say(`the log of ${name} cannot be written: ${error.message}`));
    child.stderr.pipe(file);
    createInterface({ input: child.stderr }).on("line", (line) => {
      words.push(line);
      if (words.length > 12) words.shift();
    });
  }
  return () => (words.length === 0 ? "" : `\n${words.join("\n")}`);
}

function isLoud(message: unknown): message is { readonly loud: string } {
  return typeof message === "object" && message !== null && "loud" in message && typeof message.loud === "string";
}

/** A line of JSON as one short sentence. */
function readable(line: string): string {
  try {
    const entry = JSON.parse(line) as { [name in (typeof WHERE)[number] | "msg"]?: string } & { err?: Error };
    // Which loop, RPC or consumer: without it "a round failed" sends its reader to the file first.
    const where = WHERE.map((name) => entry[name]).find((value) => value !== undefined);
    const cause = entry.err?.message === undefined ? "" : ` (${entry.err.message})`;
    return `${where === undefined ? "" : `${where}: `}${entry.msg ?? line}${cause}`;
  } catch {
    return line;
  }
}
