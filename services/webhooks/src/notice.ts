// What is sent: the body in the contract's order, its signature and its headers. Pure.

import { createHmac } from "node:crypto";
import { formatMinor } from "@cauri/money/amount";
import type { Mode } from "@cauri/money/mode";

/** The facts of a notice; amounts in minor units with the asset's scale. */
export type Notice = {
  readonly event: string;
  readonly created: Date;
  readonly id: string;
  readonly reference: string;
  readonly merchant_reference: string | null;
  readonly amount_minor: bigint;
  readonly scale: number;
  readonly currency: string;
  readonly status: string;
};

/** Compact JSON with its keys in the fixed order: receivers verify these very bytes. */
export function noticeBody(notice: Notice): string {
  return JSON.stringify({
    event: notice.event,
    created: notice.created.toISOString(),
    data: {
      id: notice.id,
      reference: notice.reference,
      merchant_reference: notice.merchant_reference,
      amount: formatMinor(notice.amount_minor, notice.scale),
      currency: notice.currency,
      status: notice.status,
    },
  });
}

/** `t=<unix seconds>,v1=<hex>`: HMAC-SHA256, keyed with the whole secret text, of `<t>.<raw body>`. */
export function signature(secret: string, body: string, now_ms: number): string {
  const t = Math.floor(now_ms / 1000);
  return `t=${t},v1=${createHmac("sha256", secret).update(`${t}.${body}`).digest("hex")}`;
}

/** The headers of one attempt; the signature's time is real time, whatever the test clock says. */
export function noticeHeaders(
  notice: { readonly event: string; readonly event_id: string; readonly mode: Mode; readonly body: string },
  secret: string,
  now_ms: number,
): Record<string, string> {
  return {
    "content-type": "application/json",
    "user-agent": "Cauri-Webhooks/1",
    "x-service-signature": signature(secret, notice.body, now_ms),
    "x-service-event": notice.event,
    "x-service-delivery": notice.event_id,
    ...(notice.mode === "test" ? { "x-service-mode": "test" } : {}),
  };
}
