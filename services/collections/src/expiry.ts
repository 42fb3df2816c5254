// What pending payments wait for. At its expiry the rail is asked once more, and its answer decides; a silent rail is asked
// again, an hour at most; whatever comes after that is late money, which still counts. Before it, a payment whose call
// may not have reached its rail is sent again under its reference, which asks first and charges at most once.

import type { Clocks } from "@cauri/store/clock";
import { isUnavailable } from "@cauri/store/pool";
import { type Loop, startLoop } from "@cauri/store/sweeper";
import { applyWord, type Rooms } from "./apply.ts";
import { type Answer, ASK_AGAIN_MS, decideExpiry, mayGoOn, newsOf, type Payment } from "./payment.ts";
import { awaitExpiry, takeDueChecks } from "./store.ts";

/** Payments of one round; each costs a call of the rail of up to 6 s, all are under way at once. */
const ROUND = 50;
const EVERY_MS = 1_000;
/** The pause after a look that brought nothing to light; longer than the 6 s of a call. */
const LOOK_AGAIN_MS = 7_000;

export type Expiring = Rooms & { readonly clocks: Clocks };

/** The sweeper of `pending`: every second, and once more at once where a round was full. */
export function startExpiry(rooms: Expiring): Loop {
  const work = async () => (await expireDue(rooms)) >= ROUND;
  return startLoop({ name: "expiry", every_ms: EVERY_MS, work, log: rooms.log });
}

/** Everything that is due for one account, for its `Drain`; what stays silent is put off and not due again at once. */
export async function expireAll(rooms: Expiring, account: string): Promise<number> {
  let sum = 0;
  for (let done = await expireDue(rooms, account); done > 0; done = await expireDue(rooms, account)) sum += done;
  return sum;
}

/** One round of what is due, of one account or of all; returns how many were looked at. */
export async function expireDue(rooms: Expiring, account?: string): Promise<number> {
  const pauses = { again_ms: ASK_AGAIN_MS, look_again_ms: LOOK_AGAIN_MS };
  const options = { limit: ROUND, ...pauses, ...(account === undefined ? {} : { account }) };
  const due = await takeDueChecks(rooms.pool, options);
  await Promise.all(
    due.map((payment) =>
      lookAt(rooms, payment).catch((error: unknown) => {
        rooms.log.error({ err: error, operation: payment.id }, "a pending payment is looked at again");
      }),
    ),
  );
  return due.length;
}

function lookAt(rooms: Expiring, payment: Payment): Promise<void> {
  const now = rooms.clocks.now(payment.account, payment.mode);
  return now < payment.expires_at ? lookAfter(rooms, payment, now) : expireOne(rooms, payment);
}

/** Where the rail still has nothing certain, the next look follows by itself. */
async function lookAfter(rooms: Expiring, payment: Payment, now: Date): Promise<void> {
  const request_id = `follow-up-${payment.id}`;
  const sent = mayGoOn(payment, now);
  const answer = sent ? await rooms.rails.collect(payment, request_id) : await rooms.rails.ask(payment, request_id);
  if (answer.kind !== "word") return;
  const after = await applyWord(rooms, payment, answer.word, null);
  if (after.status === "pending") await awaitExpiry(rooms.pool, payment.id, answer.word.offer);
}

async function expireOne(rooms: Expiring, payment: Payment): Promise<void> {
  const answer = await askRail(rooms, payment);
  const decided = decideExpiry(payment, answer, rooms.clocks.now(payment.account, payment.mode));
  if (decided === "ask_again") return;
  let current = payment;
  if (answer.kind === "word" && newsOf(payment, answer.word) === "mispay") {
    current = await applyWord(rooms, payment, answer.word, null);
  }
  await applyWord(rooms, current, decided, null);
}

/** Rails that can't be reached is as silent as the rail itself. */
async function askRail(rooms: Expiring, payment: Payment): Promise<Answer> {
  try {
    return await rooms.rails.ask(payment, `expiry-${payment.id}`);
  } catch (error) {
    if (isUnavailable(error)) return { kind: "unavailable" };
    throw error;
  }
}
