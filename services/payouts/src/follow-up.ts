// What reaches this room from outside: rails tells of payouts and withdrawals alike, for both leave as payouts; and the
// follow-up of withdrawals, which no merchant's retry ever sends again.

import { type Consumer, consume } from "@cauri/events/consume";
import type { Events } from "@cauri/events/events";
import { applyOutgoingNews } from "@cauri/events/outgoing-follow";
import { isId } from "@cauri/money/ids";
import { OperationNews } from "@cauri/proto/ts/cauri/events/v1/events";
import { type Due, openDue } from "@cauri/store/due";
import { payoutKind } from "./create.ts";
import type { Withdrawal } from "./withdrawal.ts";
import type { Withdrawing } from "./withdrawal-create.ts";
import { lookAfterWithdrawal, TRY_AGAIN_MS, withdrawalKind, withdrawalRooms } from "./withdrawal-decide.ts";
import { withdrawals } from "./withdrawal-store.ts";

const SUBJECTS = ["cauri.rails.payout.>"];
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
export function openFollowUpOfWithdrawals(rooms: Withdrawing): Due {
  return openDue<Withdrawal>({
    name: "follow-up of withdrawals",
    every_ms: LOOK_EVERY_MS,
    log: rooms.log,
    take: (options) => withdrawals.takeDue(rooms.pool, { ...options, again_ms: TRY_AGAIN_MS }),
    look: (withdrawal) => lookAfterWithdrawal(rooms, withdrawal),
  });
}
