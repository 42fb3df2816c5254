// A loop that does what is due: sweepers, relays, pollers. It never overlaps itself, can be woken, backs off from errors,
// and its end waits for the run under way, so that a drain leaves nothing half done.

import { outsideSpans } from "@cauri/trace/span";
import type { Log } from "./pool.ts";

/** An error doubles the pause, up to this: everything goes on within 5 s of the database's return, however long it was away. */
const MAX_PAUSE_MS = 2_000;

export type Loop = {
  /** Runs soon: at once when idle, else once more after the run under way. */
  wake(): void;
  /** Starts no further run and resolves when the one under way has ended. */
  stop(): Promise<void>;
};

export type LoopOptions = {
  readonly name: string;
  readonly every_ms: number;
  /** Does one round; true means that there is more to do now, and the next round follows without a pause. */
  readonly work: () => Promise<boolean | undefined> | Promise<void>;
  readonly log: Pick<Log, "error">;
};

export function startLoop(options: LoopOptions): Loop {
  let stopped = false;
  let woken = false;
  let failures = 0;
  let rouse = () => {};

  async function run(): Promise<void> {
    while (!stopped) {
      woken = false;
      const more = await round();
      if (more === true || woken || stopped) continue;
      await pause(Math.min(options.every_ms * 2 ** failures, Math.max(options.every_ms, MAX_PAUSE_MS)));
    }
  }

  async function round(): Promise<boolean> {
    try {
      const more = await outsideSpans(() => options.work());
      failures = 0;
      return more === true;
    } catch (error) {
      failures += 1;
      options.log.error({ err: error, loop: options.name, failures }, "a round failed and will be tried again");
      // What woke the loop meanwhile must not turn the back-off into a hot loop.
      woken = false;
      return false;
    }
  }

  function pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      rouse = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  const ended = run();
  return {
    wake: () => {
      woken = true;
      // During a back-off the pause is kept: whoever wakes it doesn't know that the last round failed.
      if (failures === 0) rouse();
    },
    stop: () => {
      stopped = true;
      rouse();
      return ended;
    },
  };
}
