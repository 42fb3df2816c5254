// Keeps one process of the house running: starts it, says when it dies, and starts it again after a growing pause.

import { setTimeout as sleep } from "node:timers/promises";
import { sentenceOf } from "./sentence.ts";

/** The first pause after a death; it doubles up to the longest, and is the first again after a calm time. */
const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 2_000;
const CALM_MS = 30_000;

export type Running = {
  readonly pid: number;
  /** Settles once, with a word on how the process went. */
  readonly exited: Promise<string>;
  /** Asks the process to finish what runs and leave; made to after `patience_ms`. */
  stop(patience_ms: number): Promise<void>;
  /** Ends it at once. */
  kill(): void;
};

export type Keeper = {
  readonly name: string;
  stop(patience_ms: number): Promise<void>;
  kill(): void;
};

export type KeeperOptions = {
  readonly name: string;
  /** Starts the process and waits until it is of use; throws a sentence when it does not come up. */
  readonly launch: (stopping: AbortSignal) => Promise<Running>;
  /** Aborted when the house begins to stop: from then on nothing is started again. */
  readonly stopping: AbortSignal;
  /** Told of every change, so that the list of processes is kept true; null while there is none. */
  readonly onPid: (pid: number | null) => void;
  readonly say: (text: string) => void;
};

/** Starts the process; only a failure of the first start is the caller's, every later one is tried again. */
export async function keep(options: KeeperOptions): Promise<Keeper> {
  const { name, launch, stopping, onPid } = options;
  let running: Running | null = await launch(stopping);
  onPid(running.pid);

  const watch = async () => {
    let next = FIRST_PAUSE_MS;
    while (running !== null) {
      const born = Date.now();
      const how = await running.exited;
      running = null;
      onPid(null);
      if (stopping.aborted) return;
      const pause = Date.now() - born > CALM_MS ? FIRST_PAUSE_MS : next;
      next = Math.min(pause * 2, LONGEST_PAUSE_MS);
      options.say(`${name} died (${how}); starting it again in ${pause / 1000} s`);
      running = await relaunch(options, pause);
      if (running !== null) onPid(running.pid);
    }
  };
  const watching = watch();

  return {
    name,
    async stop(patience_ms) {
      await running?.stop(patience_ms);
      await watching;
    },
    kill() {
      running?.kill();
    },
  };
}

/** Tries until the process is up again; null when the house stops meanwhile. */
async function relaunch({ name, launch, stopping, say }: KeeperOptions, first_pause_ms: number) {
  for (let pause = first_pause_ms; ; pause = Math.min(pause * 2, LONGEST_PAUSE_MS)) {
    await sleep(pause, undefined, { signal: stopping }).catch(() => {});
    if (stopping.aborted) return null;
    try {
      const running = await launch(stopping);
      if (stopping.aborted) {
        running.kill();
        return null;
      }
      say(`${name} is back (pid ${running.pid})`);
      return running;
    } catch (error) {
      if (stopping.aborted) return null;
      say(`${name} did not come back: ${sentenceOf(error)}`);
    }
  }
}
