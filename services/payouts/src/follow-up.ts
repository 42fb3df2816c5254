// Looks after payouts that stay pending. Their end comes by rails' news; should it not, or should a call have been lost
// before it reached its operator, sending again under the same reference asks first and pays at most once.

import { type Loop, startLoop } from "@cauri/store/sweeper";
import { applyWord, type Rooms } from "./apply.ts";
import type { Payout } from "./payout.ts";
import { takeDueChecks } from "./store.ts";

/** Rails asks a silent rail far more often by itself; this is for what rails cannot know. */
export const CHECK_EVERY_MS = 120_000;
/** Payouts of one round; each costs a call of up to 6 s, all are under way at once. */
const ROUND = 50;
const LOOK_EVERY_MS = 5_000;

export function startFollowUp(rooms: Rooms): Loop {
  const work = async () => (await followUp(rooms)) >= ROUND;
  return startLoop({ name: "follow-up", every_ms: LOOK_EVERY_MS, work, log: rooms.log });
}

/** Everything that is due for one account, for its `Drain`. */
export async function followUpAll(rooms: Rooms, account: string): Promise<number> {
  let sum = 0;
  for (let done = await followUp(rooms, account); done > 0; done = await followUp(rooms, account)) sum += done;
  return sum;
}

/** One round of what is due, of one account or of all; returns how many were looked at. */
async function followUp(rooms: Rooms, account?: string): Promise<number> {
  const options = { limit: ROUND, again_ms: CHECK_EVERY_MS, ...(account === undefined ? {} : { account }) };
  const due = await takeDueChecks(rooms.pool, options);
  await Promise.all(
    due.map((payout) =>
      lookAfter(rooms, payout).catch((error: unknown) => {
        rooms.log.error({ err: error, operation: payout.id }, "a pending payout is looked after again");
      }),
    ),
  );
  return due.length;
}

async function lookAfter(rooms: Rooms, payout: Payout): Promise<void> {
  const answer = await rooms.rails.send(payout, `follow-up-${payout.id}`);
  if (answer.kind === "word" && answer.word.says !== "accept") await applyWord(rooms, payout, answer.word, null);
}
