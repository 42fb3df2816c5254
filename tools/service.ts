// Runs one service of the house as its own process: its log goes whole into a file, and what a person should see of it
// to the terminal. The process leaves by itself when the channel to the supervisor closes.

import { type ChildProcess, spawn } from "node:child_process";
import { createWriteStream, type WriteStream } from "node:fs";
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
  const child = spawn(process.execPath, [...profiling(options), entry], {
    cwd: root,
    env,
    // Its own process group: Ctrl-C in the terminal is for the supervisor alone.
    detached: true,
    stdio: ["ignore", "pipe", "pipe", "ipc"],
  });
  const lastWords = keepLog(child, log_file, options);
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

/** Copies both streams into the log file and shows what is at least a warning; answers with the last words of stderr. */
function keepLog(child: ChildProcess, log_file: string, { name, say }: ServiceOptions): () => string {
  const file = createWriteStream(log_file, { flags: "a", mode: 0o600 });
  file.on("error", (error) => say(`the log of ${name} cannot be written: ${error.message}`));
  const words: string[] = [];
  if (child.stdout !== null) {
    child.stdout.pipe(file, { end: false });
    const shown = new Map<string, number>();
    child.stdout.on("data", (chunk: Buffer) => {
      for (const line of loudLines(chunk)) {
        // Ten connections lost at once are one piece of news; the file has them all.
        const again = Date.now() - (shown.get(line) ?? 0) < SAME_NEWS_MS;
        if (shown.size > 100) shown.clear();
        shown.set(line, Date.now());
        if (!again) say(`${name}: ${line}`);
      }
    });
  }
  if (child.stderr !== null) {
    child.stderr.pipe(file, { end: false });
    createInterface({ input: child.stderr }).on("line", (line) => {
      words.push(line);
      if (words.length > 12) words.shift();
    });
  }
  child.once("close", () => closeLog(file));
  return () => (words.length === 0 ? "" : `\n${words.join("\n")}`);
}

function closeLog(file: WriteStream): void {
  file.end();
}

/** Most chunks hold no warning: one search over the bytes tells, before anything is parsed. */
function loudLines(chunk: Buffer): string[] {
  const text = chunk.toString("utf8");
  if (!/"level":(?:[456]0|"(?:warn|error|fatal)")/.test(text)) return [];
  return text
    .split("\n")
    .filter((line) => /"level":(?:[456]0|"(?:warn|error|fatal)")/.test(line))
    .map(readable);
}

/** A line of JSON as one short sentence; a line cut by the end of a chunk stays as it is. */
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
