// What pending payments wait for. At its expiry the rail is asked once more, and its answer decides; a silent rail is asked
// again, an hour at most; whatever comes after that is late money, which still counts. Before it, a payment whose call
// may not have reached its rail is sent again under its reference, which asks first and charges at most once.

import type { Clocks } from "@cauri/store/clock";
import { type Due, openDue } from "@cauri/store/due";
import { isUnavailable } from "@cauri/store/pool";
import { applyWord, type Rooms } from "./apply.ts";
import { type Answer, ASK_AGAIN_MS, decideExpiry, mayGoOn, newsOf, type Payment } from "./payment.ts";
import { awaitExpiry, takeDueChecks } from "./store.ts";

const EVERY_MS = 1_000;
/** The pause after a look that brought nothing to light; longer than the 6 s of a call. */
const LOOK_AGAIN_MS = 7_000;

export type Expiring = Rooms & { readonly clocks: Clocks };

/** The sweeper of `pending`; what stays silent is put off and not due again at once. */
export function openExpiry(rooms: Expiring): Due {
  const pauses = { again_ms: ASK_AGAIN_MS, look_again_ms: LOOK_AGAIN_MS };
  return openDue<Payment>({
    name: "expiry",
    every_ms: EVERY_MS,
    log: rooms.log,
    take: (options) => takeDueChecks(rooms.pool, { ...options, ...pauses }),
    look: (payment) => lookAt(rooms, payment),
  });
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
