// Operations that a room looks after by itself when their time has come: payments at their expiry, what was sent out and
// not heard of. A loop takes them in rounds, all of a round at once, and one account's `Drain` takes all of its own.

import type { Log } from "./pool.ts";
import { openRounds } from "./rounds.ts";
import { type Loop, startLoop } from "./sweeper.ts";

/** Operations of one round; each may cost a call of some seconds. */
const ROUND = 50;

export type DueWork<O> = {
  /** The loop's name in logs and metrics. */
  readonly name: string;
  readonly every_ms: number;
  readonly log: Pick<Log, "error">;
  /**
   * At most `limit` operations that are due, of one account or of all. Taking puts each of them off, so that one process at
   * a time has it and a crash only delays it.
   */
  readonly take: (options: { readonly limit: number; readonly account?: string }) => Promise<readonly O[]>;
  /** A fault is told to the log, and the operation comes back when it is due again. */
  readonly look: (operation: O) => Promise<void>;
};

export type Due = {
  /** Starts the loop; a full round is followed by the next at once. */
  start(): Loop;
  /**
   * Looks at all that is due of one account, and returns how many that were. What a round of the loop took before is due no
   * more: it has been looked at as well when this returns, and is not counted.
   */
  drain(account: string): Promise<number>;
};

export function openDue<O extends { readonly id: string }>({ name, every_ms, log, take, look }: DueWork<O>): Due {
  const rounds = openRounds();
  const round = (account?: string) => rounds.run(() => takeAndLook(account));
  async function takeAndLook(account?: string): Promise<number> {
    const due = await take({ limit: ROUND, ...(account === undefined ? {} : { account }) });
    const lookAt = async (operation: O) => {
      try {
        await look(operation);
      } catch (error) {
        log.error({ err: error, operation: operation.id }, `${name}: an operation is looked after again`);
      }
    };
    await Promise.all(due.map(lookAt));
    return due.length;
  }
  return {
    start: () => startLoop({ name, every_ms, work: async () => (await round()) >= ROUND, log }),
    drain: async (account) => {
      let sum = 0;
      for (let done = await round(account); done > 0; done = await round(account)) sum += done;
      await rounds.ended();
      return sum;
    },
  };
}
