// What every room's `Drain` does: wait for the test clock, do what is due, and see to it that everything this set off
// has left the house's rooms or arrived in them. `cauri sandbox clock advance` repeats it until nothing happens any more.

import { setTimeout as sleep } from "node:timers/promises";
import { systemClock } from "@cauri/money/clock";
import { type Refusal, refuse } from "@cauri/money/refusal";
import { type Clocks, readOffset } from "@cauri/store/clock";
import type { Pool } from "@cauri/store/pool";
import type { Consumer } from "./consume.ts";
import type { Events } from "./events.ts";
import type { Relay } from "./relay.ts";

const LOOK_MS = 20;
/** What is kept of the deadline for the answer itself. */
const KEPT_MS = 500;

export type DrainOptions = {
  readonly request: { readonly account: string; readonly offsetMs: bigint };
  /** Epoch milliseconds: the call's own deadline. */
  readonly deadline_ms: number;
  readonly pool: Pool;
  readonly clocks: Clocks;
  readonly events: Events;
  readonly relay: Relay;
  readonly consumers: readonly Consumer[];
  /** Does what is due for the account, all of it, and returns how much that was. */
  readonly work: (account: string) => Promise<number>;
};

/** The answer of a `Drain` RPC: how much was done, or a refusal when it could not be seen through in time. */
export async function drainAccount(options: DrainOptions): Promise<{ done: bigint } | Refusal> {
  const { account, offsetMs } = options.request;
  const { pool, relay, events, consumers } = options;
  const until = options.deadline_ms - KEPT_MS;
  if (!(await eventually(async () => (await readOffset(pool, account)) >= offsetMs, until))) {
    return refuse("temporarily_unavailable", "the test clock's advance has not arrived yet", { retry_after_s: 1 });
  }
  await options.clocks.refresh();
  let done = 0;
  for (;;) {
    const worked = await options.work(account);
    relay.wake();
    const sent = await eventually(() => relay.idle(account), until);
    const seq = await events.lastSeq();
    const received = sent && (await eventually(() => allCaughtUp(consumers, seq), until));
    const handled = consumers.reduce((sum, consumer) => sum + consumer.takeHandled(account), 0);
    // A loop of this room may have been faster than the drain; the news that it caused tell of it.
    const did = worked + handled + relay.takeSent(account);
    done += did;
    if (!received) {
      // What was done is told, so that the caller comes again; with nothing done it must hear that something hangs.
      if (done > 0) return { done: BigInt(done) };
      return refuse("temporarily_unavailable", "events of this account are still under way", { retry_after_s: 1 });
    }
    if (did === 0) return { done: BigInt(done) };
  }
}

async function allCaughtUp(consumers: readonly Consumer[], seq: number): Promise<boolean> {
  const answers = await Promise.all(consumers.map((consumer) => consumer.caughtUp(seq)));
  return answers.every(Boolean);
}

/** Asks until it is true, or the time is over. */
async function eventually(ask: () => Promise<boolean>, until: number): Promise<boolean> {
  for (;;) {
    if (await ask()) return true;
    if (systemClock() > until) return false;
    await sleep(LOOK_MS);
  }
}
