// News of rails about collections: each batch is read with one query, what is stale is put aside with one statement, and
// the rest is applied, one payment beside the other, the news of one payment in their order.

import { type Consumer, consume, type Delivered } from "@cauri/events/consume";
import type { Events } from "@cauri/events/events";
import { eachOf } from "@cauri/events/rail-news";
import { failureCode } from "@cauri/money/failure";
import { OperationNews } from "@cauri/proto/ts/cauri/events/v1/events";
import { applyWord, type Rooms } from "./apply.ts";
import { isStale, NO_OFFER, newsOf, type Payment, type RailWord } from "./payment.ts";
import { findPayments, recordNews } from "./store.ts";

const RAIL_SUBJECTS = ["cauri.rails.collection.>"];

const SAYS = { pending: "accept", success: "settle", failed: "reject", cancelled: "cancel" } as const;

type Told = { readonly payment: Payment; readonly words: RailWord[] };

export function consumeNews(events: Events, rooms: Rooms): Consumer {
  const handle = (batch: Delivered[]) => applyNews(rooms, batch);
  return consume({ events, durable: "collections-rails", subjects: RAIL_SUBJECTS, handle, log: events.log });
}

/** Applies a batch; when it throws, the whole batch is delivered again, and what was applied is stale then. */
export async function applyNews(rooms: Rooms, batch: readonly { readonly payload: Uint8Array }[]): Promise<void> {
  const news = batch.map(({ payload }) => OperationNews.decode(payload));
  const payments = await findPayments(rooms.pool, [...new Set(news.map(({ id }) => id))]);
  const told = new Map<string, Told>();
  for (const item of news) {
    const payment = payments.get(item.id);
    const word = wordOf(item);
    if (payment === undefined || word === null) {
      // Rails speaks of a payment only after its first transaction: this is a restored database or a foreign message.
      rooms.log.warn({ operation: item.id, event: item.event }, "news of an unknown payment or kind were dropped");
      continue;
    }
    const known = told.get(item.id) ?? { payment, words: [] };
    known.words.push(word);
    told.set(item.id, known);
  }
  await putAside(rooms, [...told.values()]);
  await eachOf([...told.values()], (one) => applyAll(rooms, one));
}

async function putAside(rooms: Rooms, told: readonly Told[]): Promise<void> {
  const entries = told.flatMap(({ payment, words }) =>
    words
      .filter((word) => isStale(payment, word))
      .map((word) => ({ payment_id: payment.id, word, says: newsOf(payment, word), applied: false })),
  );
  const once = new Map(entries.map((entry) => [`${entry.payment_id} ${entry.word.version} ${entry.says}`, entry]));
  await recordNews(rooms.pool, [...once.values()]);
}

async function applyAll(rooms: Rooms, { payment, words }: Told): Promise<void> {
  let current = payment;
  const fresh = words.filter((word) => !isStale(payment, word)).sort((a, b) => (a.version < b.version ? -1 : 1));
  for (const word of fresh) current = await applyWord(rooms, current, word, null);
}

/** What the news say; null for a kind that this room doesn't know. */
function wordOf(news: OperationNews): RailWord | null {
  const says = SAYS[kindOf(news) as keyof typeof SAYS];
  if (says === undefined) return null;
  return {
    source: "news",
    says,
    failure_code: says === "reject" ? failureCode(news.failureCode) : null,
    paid_minor: says === "settle" ? (news.railAmountMinor ?? null) : null,
    paid_currency: says === "settle" && news.railCurrency !== "" ? news.railCurrency : null,
    version: news.version,
    offer: { ...NO_OFFER, rail: news.rail === "" ? null : news.rail },
  };
}

/** The last word of the event's name, or the status that it carries. */
function kindOf(news: OperationNews): string {
  const word = news.event.slice(news.event.lastIndexOf(".") + 1);
  return Object.hasOwn(SAYS, word) ? word : news.status;
}
