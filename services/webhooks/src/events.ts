// News of the house that merchants may hear: subjects in, and what one message becomes.

import { type Consumer, consume } from "@cauri/events/consume";
import type { Events } from "@cauri/events/events";
import type { Relay } from "@cauri/events/relay";
import type { Mode } from "@cauri/money/mode";
import { isMode } from "@cauri/money/mode";
import { OperationNews } from "@cauri/proto/ts/cauri/events/v1/events";
import type { Log } from "@cauri/rpc/log";
import type { Pool } from "@cauri/store/pool";
import { type Event, insertDeliveries } from "./arrival-store.ts";
import { isDelivered } from "./endpoint.ts";
import { noticeBody } from "./notice.ts";
import type { Sender } from "./sender.ts";

const DURABLE = "webhooks-news";
/** Operations' news of the rooms that tell merchants anything. */
export const SUBJECTS: readonly string[] = [
  "cauri.collections.payment.>",
  "cauri.collections.refund.>",
  "cauri.payouts.payout.>",
];

/** From batch to batch at least so long, so that under load more events share a commit; a lone one waits for nobody. */
const PACE_MS = 8;

/** Writes deliveries for what arrives; an event is acknowledged when they are committed. */
export function followNews(of: {
  events: Events;
  pool: Pool;
  log: Log;
  sender: Pick<Sender, "offer" | "arrived">;
}): Consumer {
  const { events, pool, log, sender } = of;
  return consume({
    events,
    durable: DURABLE,
    subjects: SUBJECTS,
    log,
    pace_ms: PACE_MS,
    handle: async (batch) => {
      const heard = batch.map(({ payload }) => eventOf(payload)).filter((event) => event !== null);
      if (heard.length > 0) await sender.arrived(await insertDeliveries(pool, heard, sender.offer()));
    },
  });
}

/** Reads one message; null for news that no merchant hears. */
export function eventOf(payload: Uint8Array): Event | null {
  const news = OperationNews.decode(payload);
  if (!isDelivered(news.event) || !isMode(news.mode)) return null;
  const mode: Mode = news.mode;
  const occurred_at = news.occurredAt ?? new Date(0);
  return {
    event_id: news.eventId,
    event: news.event,
    account: news.account,
    mode,
    operation_id: news.id,
    version: news.version,
    occurred_at,
    body: noticeBody({
      event: news.event,
      created: occurred_at,
      id: news.id,
      reference: news.reference,
      merchant_reference: news.clientRef ?? null,
      amount_minor: news.amountMinor,
      scale: news.scale,
      currency: news.currency,
      status: news.status,
    }),
  };
}

/** This room tells nobody any news: its outbox stays empty, and a drain has nothing to wait for there. */
export const noRelay: Relay = { wake: () => {}, idle: async () => true, takeSent: () => 0, stop: async () => {} };
