// The news of this room, `cauri.rails.collection.{pending,success,failed,cancelled}` and those of what goes out: put into
// the outbox of the transaction that moved the attempt.

import type { FailureCode } from "@cauri/money/failure";
import { deriveId } from "@cauri/money/ids";
import { OperationNews } from "@cauri/proto/ts/cauri/events/v1/events";
import { appendEvents, type OutboxEvent } from "@cauri/store/outbox";
import type { Tx } from "@cauri/store/pool";
import type { Attempt } from "./attempt-store.ts";

export type News = {
  /** `collection.success` and so on. */
  readonly event: string;
  readonly status: string;
  readonly version: bigint;
  readonly failure_code: FailureCode | null;
  readonly rail_amount_minor: bigint | null;
  readonly rail_currency: string | null;
};

/** Tells what became of attempts; the ids follow from operation and version, so that nothing is told twice. */
export async function tellNews(
  tx: Tx,
  told: readonly { readonly attempt: Attempt; readonly news: News }[],
): Promise<void> {
  await appendEvents(
    tx,
    told.map(({ attempt, news }) => eventOf(attempt, news)),
  );
}

function eventOf(attempt: Attempt, news: News): OutboxEvent {
  const id = deriveId("evt", attempt.operation_id, `rails:${news.version}`);
  const message: OperationNews = {
    event: news.event,
    id: attempt.operation_id,
    reference: "",
    clientRef: undefined,
    amountMinor: attempt.amount_minor,
    assetId: attempt.asset_id,
    status: news.status,
    account: attempt.account,
    mode: attempt.mode,
    version: news.version,
    occurredAt: attempt.now,
    failureCode: news.failure_code ?? "",
    railAmountMinor: news.rail_amount_minor ?? undefined,
    railCurrency: news.rail_currency ?? "",
    eventId: id,
    currency: attempt.currency,
    scale: attempt.scale,
    rail: attempt.rail ?? "",
  };
  return {
    id,
    topic: attempt.operation_id,
    subject: `cauri.rails.${news.event}`,
    payload: OperationNews.encode(message).finish(),
    account: attempt.account,
    mode: attempt.mode,
  };
}
