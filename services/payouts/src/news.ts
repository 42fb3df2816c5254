// News of rails about payouts: each batch is read with one query and applied, one payout beside the other, the news of one
// payout in their order.

import { type Consumer, consume, type Delivered } from "@cauri/events/consume";
import type { Events } from "@cauri/events/events";
import { eachOf, outgoingWordOf } from "@cauri/events/rail-news";
import type { OutgoingWord } from "@cauri/money/outgoing";
import { OperationNews } from "@cauri/proto/ts/cauri/events/v1/events";
import { applyWord, type Rooms } from "./apply.ts";
import type { Payout } from "./payout.ts";
import { findPayouts } from "./store.ts";

const RAIL_SUBJECTS = ["cauri.rails.payout.>"];

type Told = { readonly payout: Payout; readonly words: OutgoingWord[] };

export function consumeNews(events: Events, rooms: Rooms): Consumer {
  const handle = (batch: Delivered[]) => applyNews(rooms, batch);
  return consume({ events, durable: "payouts-rails", subjects: RAIL_SUBJECTS, handle, log: events.log });
}

/** Applies a batch; when it throws, the whole batch is delivered again, and what was applied is stale then. */
export async function applyNews(rooms: Rooms, batch: readonly { readonly payload: Uint8Array }[]): Promise<void> {
  const news = batch.map(({ payload }) => OperationNews.decode(payload));
  const payouts = await findPayouts(rooms.pool, [...new Set(news.map(({ id }) => id))]);
  const told = new Map<string, Told>();
  for (const item of news) {
    const payout = payouts.get(item.id);
    const word = outgoingWordOf(item);
    if (payout === undefined || word === null) {
      // Rails speaks of a payout only after it was sent: this is a restored database or a foreign message.
      rooms.log.warn({ operation: item.id, event: item.event }, "news of an unknown payout or kind were dropped");
      continue;
    }
    const known = told.get(item.id) ?? { payout, words: [] };
    known.words.push(word);
    told.set(item.id, known);
  }
  await eachOf([...told.values()], (one) => applyAll(rooms, one));
}

async function applyAll(rooms: Rooms, { payout, words }: Told): Promise<void> {
  let current = payout;
  for (const word of words.sort((a, b) => (a.version < b.version ? -1 : 1))) {
    current = await applyWord(rooms, current, word, null);
  }
}
