// Starts a foreign server (PostgreSQL, nats-server) so that it never outlives the process that started it.
// The server takes the place of a shell that left a watcher behind; the watcher holds the starter's pipe and
// interrupts the server when the pipe ends without a farewell, which happens even after a SIGKILL of the starter.

import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, openSync } from "node:fs";
import { Sentence } from "./sentence.ts";

/** After an interrupt at the leash's end the server has this many fifths of a second before it is made to quit. */
const PATIENCE_FIFTHS = 50;

/** `exec` keeps the pid: the child that Node knows is the server itself. SIGQUIT is each server's "at once"; SIGCONT makes a stopped one hear it. */
const SCRIPT = `
exec 4<&0
(
  read -r farewell <&4 && exit 0
  kill -INT $$ 2>/dev/null
  left=${PATIENCE_FIFTHS}
  while kill -0 $$ 2>/dev/null; do
    [ $left -gt 0 ] || { kill -QUIT $$; kill -CONT $$; exit 0; }
    left=$((left - 1))
    sleep 0.2
  done
) >/dev/null 2>&1 &
exec "$@" 4<&- </dev/null
`;

export type Leashed = {
  readonly pid: number;
  /** Settles once, when the server is gone, with a word on how it went. */
  readonly exited: Promise<string>;
  /** Asks the server to stop and waits for it; made to quit after `patience_ms`. */
  stop(patience_ms?: number): Promise<void>;
  /** Ends the server at once. */
  kill(): void;
};

export type LeashOptions = {
  /** Where stdout and stderr go; a file, so that the server never blocks on a dead reader. */
  readonly log_file: string;
  readonly env?: NodeJS.ProcessEnv;
  readonly cwd?: string;
  readonly uid?: number;
  readonly gid?: number;
};

/** Starts `file` with `args` in its own process group, out of the reach of the terminal's Ctrl-C. */
export async function startLeashed(file: string, args: readonly string[], options: LeashOptions): Promise<Leashed> {
  const { log_file, uid, gid } = options;
  const log = openSync(log_file, "a", 0o600);
  const child = spawn("sh", ["-c", SCRIPT, "leash", file, ...args], {
    cwd: options.cwd ?? "/",
    detached: true,
    env: options.env ?? process.env,
    stdio: ["pipe", log, log],
    ...(uid === undefined ? {} : { uid }),
    ...(gid === undefined ? {} : { gid }),
  });
  closeSync(log);
  await new Promise<void>((resolve, reject) => {
    child.once("spawn", resolve);
    child.once("error", (error) => reject(new Sentence(`${file} could not be started: ${error.message}`)));
  });
  return leashed(child);
}

function leashed(child: ChildProcess): Leashed {
  const { pid } = child;
  if (pid === undefined) throw new Error("a spawned child has no pid");
  const exited = new Promise<string>((resolve) => {
    child.once("exit", (code, signal) => {
      // The farewell: the watcher leaves without a kill, as the pid may soon be somebody else's.
      child.stdin?.end("gone\n");
      resolve(signal === null ? `exit code ${code}` : signal);
    });
  });
  child.stdin?.on("error", () => {});
  // A server that somebody has stopped with SIGSTOP hears nothing before it goes on.
  const quit = () => void (child.kill("SIGQUIT") && child.kill("SIGCONT"));
  return {
    pid,
    exited,
    async stop(patience_ms = 10_000) {
      child.kill("SIGINT");
      const timer = setTimeout(quit, patience_ms);
      await exited;
      clearTimeout(timer);
    },
    kill: quit,
  };
}
