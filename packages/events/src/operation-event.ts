// The event that tells the world of an operation's present state: one payload for every kind of operation.

import { deriveId } from "@cauri/money/ids";
import type { Mode } from "@cauri/money/mode";
import { OperationNews } from "@cauri/proto/ts/cauri/events/v1/events";
import type { OutboxEvent } from "@cauri/store/outbox";

export type Told = {
  readonly id: string;
  readonly account: string;
  readonly mode: Mode;
  readonly reference: string;
  readonly client_ref: string | null;
  readonly amount_minor: bigint;
  readonly asset_id: string;
  readonly currency: string;
  readonly scale: number;
  readonly status: string;
  /** Number of this event among the operation's. */
  readonly version: number;
  readonly updated_at: Date;
  readonly failure_code: string | null;
  readonly rail: string | null;
};

/** The event's id follows from the version: the same news told twice is one event. */
export function operationEvent(room: string, event: string, operation: Told): OutboxEvent {
  const id = deriveId("evt", operation.id, `news ${operation.version}`);
  const news: OperationNews = {
    event,
    id: operation.id,
    reference: operation.reference,
    clientRef: operation.client_ref ?? undefined,
    amountMinor: operation.amount_minor,
    assetId: operation.asset_id,
    status: operation.status,
    account: operation.account,
    mode: operation.mode,
    version: BigInt(operation.version),
    occurredAt: operation.updated_at,
    failureCode: operation.failure_code ?? "",
    railAmountMinor: undefined,
    railCurrency: "",
    eventId: id,
    currency: operation.currency,
    scale: operation.scale,
    rail: operation.rail ?? "",
  };
  return {
    id,
    topic: operation.id,
    subject: `cauri.${room}.${event}`,
    payload: OperationNews.encode(news).finish(),
    account: operation.account,
    mode: operation.mode,
  };
}
