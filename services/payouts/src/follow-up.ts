// What reaches this room from outside: rails tells of payouts and withdrawals alike, for both leave as payouts; and the
// follow-up of withdrawals, which no merchant's retry ever sends again.

import { type Consumer, consume } from "@cauri/events/consume";
import type { Events } from "@cauri/events/events";
import { applyOutgoingNews } from "@cauri/events/outgoing-follow";
import { isId } from "@cauri/money/ids";
import { OperationNews } from "@cauri/proto/ts/cauri/events/v1/events";
import { type Loop, startLoop } from "@cauri/store/sweeper";
import { payoutKind } from "./create.ts";
import type { Withdrawing } from "./withdrawal-create.ts";
import { lookAfterWithdrawal, TRY_AGAIN_MS, withdrawalKind, withdrawalRooms } from "./withdrawal-decide.ts";
import { withdrawals } from "./withdrawal-store.ts";

const SUBJECTS = ["cauri.rails.payout.>"];
/** Withdrawals of one round; each costs a call of up to 6 s, all are under way at once. */
const ROUND = 50;
const LOOK_EVERY_MS = 2_000;

type Batch = readonly { readonly payload: Uint8Array }[];

export function consumeNews(events: Events, rooms: Withdrawing): Consumer {
  const handle = (batch: Batch) => applyNews(rooms, batch);
  return consume({ events, durable: "payouts-rails", subjects: SUBJECTS, handle, log: events.log });
}

/** Applies a batch; when it throws, the whole batch is delivered again, and what was applied is stale then. */
export async function applyNews(rooms: Withdrawing, batch: Batch): Promise<void> {
  const ofWithdrawals = batch.filter(({ payload }) => isId("wr", OperationNews.decode(payload).id));
  const ofPayouts = batch.filter((one) => !ofWithdrawals.includes(one));
  if (ofPayouts.length > 0) await applyOutgoingNews(payoutKind, rooms, ofPayouts);
  if (ofWithdrawals.length > 0) await applyOutgoingNews(withdrawalKind, withdrawalRooms(rooms), ofWithdrawals);
}

/** Approved withdrawals that no rail has taken yet, and processing ones whose end did not come. */
export function startFollowUpOfWithdrawals(rooms: Withdrawing): Loop {
  const work = async () => (await followUp(rooms)) >= ROUND;
  return startLoop({ name: "follow-up of withdrawals", every_ms: LOOK_EVERY_MS, work, log: rooms.log });
}

/** Everything that is due for one account, for its `Drain`. */
export async function followUpWithdrawals(rooms: Withdrawing, account: string): Promise<number> {
  let sum = 0;
  for (let done = await followUp(rooms, account); done > 0; done = await followUp(rooms, account)) sum += done;
  return sum;
}

/** One round of what is due, of one account or of all; returns how many were looked at. */
async function followUp(rooms: Withdrawing, account?: string): Promise<number> {
  const options = { limit: ROUND, again_ms: TRY_AGAIN_MS, ...(account === undefined ? {} : { account }) };
  const due = await withdrawals.takeDue(rooms.pool, options);
  await Promise.all(
    due.map((withdrawal) =>
      lookAfterWithdrawal(rooms, withdrawal).catch((error: unknown) => {
        rooms.log.error({ err: error, operation: withdrawal.id }, "a withdrawal is looked after again");
      }),
    ),
  );
  return due.length;
}
