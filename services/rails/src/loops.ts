// What this room does by itself: tells the simulator's due events, asks silent rails, matches callbacks that came too
// early, erases details that nobody came to need. The same work, for one account's test clock, is what a drain does.

import { openRounds } from "@cauri/store/rounds";
import { type Loop, startLoop } from "@cauri/store/sweeper";
import { pollDue } from "./ask.ts";
import { matchWaiting } from "./callback.ts";
import type { House } from "./house.ts";
import { LETTERS_AT_ONCE } from "./simulator/deliver.ts";
import type { Simulator } from "./simulator/simulator.ts";
import { eraseTransient, LOOKED_AT_ONCE } from "./vault-store.ts";

/** The simulator's "about 1 s" must not become two. */
const SIMULATOR_MS = 100;
/** Well below the first question after an unknown outcome, 1 s. */
const POLL_MS = 250;
/** A callback overtakes its own attempt by milliseconds, if at all. */
const MATCH_MS = 1_000;
const ERASE_MS = 60_000;

export type Loops = {
  readonly wakePoller: () => void;
  /**
   * Everything due on one account's test clock; how much that was. What a loop took before is due no more: it is done as
   * well when this returns, and is not counted.
   */
  readonly workFor: (account: string) => Promise<number>;
  readonly stop: () => Promise<void>;
};

export function startLoops(house: House, simulator: Simulator | null): Loops {
  const { log } = house;
  const rounds = openRounds();
  const loop = (name: string, every_ms: number, work: () => Promise<number>, full = 1) =>
    startLoop({ name, every_ms, log, work: async () => (await rounds.run(work)) >= full });
  const poller = loop("poller", POLL_MS, () => pollDue(house));
  const all: Loop[] = [
    poller,
    loop("callbacks", MATCH_MS, () => matchWaiting(house)),
    loop("vault", ERASE_MS, async () => (await eraseTransient(house.pool)).looked_at, LOOKED_AT_ONCE),
  ];
  if (simulator !== null) {
    // What becomes due meanwhile is told with the next turn: callbacks that leave together share statements everywhere.
    all.push(loop("simulator", SIMULATOR_MS, () => simulator.deliverDue(null), LETTERS_AT_ONCE));
  }
  return {
    wakePoller: () => poller.wake(),
    workFor: async (account) => {
      const done = await workFor(house, simulator, account);
      await rounds.ended();
      return done;
    },
    stop: async () => void (await Promise.all(all.map((each) => each.stop()))),
  };
}

async function workFor(house: House, simulator: Simulator | null, account: string): Promise<number> {
  const told = simulator === null ? 0 : await simulator.deliverDue(account);
  return told + (await pollDue(house, account)) + (await matchWaiting(house));
}
