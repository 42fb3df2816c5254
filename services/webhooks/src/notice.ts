// What is sent: the body in the contract's order, its signature and its headers. Pure.

import { createHmac } from "node:crypto";
import { formatMinor } from "@cauri/money/amount";
import type { Mode } from "@cauri/money/mode";

/** Before the base64 of a secret. */
export const SECRET_PREFIX = "whsec_";

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

/** With what an endpoint's deliveries are signed. */
export type Signing = {
  /** The current secret, and during a rotation the one before it. */
  readonly secrets: readonly string[];
  /** The Standard Webhooks headers go out beside ours. */
  readonly standard_headers: boolean;
};

/** `t=<unix seconds>,v1=<hex>`: HMAC-SHA256, keyed with the whole secret text, of `<t>.<raw body>`; one `v1` a secret. */
export function signature(secrets: readonly string[], body: string, now_ms: number): string {
  const t = unixSeconds(now_ms);
  const v1 = (secret: string) => `v1=${createHmac("sha256", secret).update(`${t}.${body}`).digest("hex")}`;
  return [`t=${t}`, ...secrets.map(v1)].join(",");
}

/**
 * The three headers of the Standard Webhooks specification: HMAC-SHA256 of `<id>.<t>.<raw body>`, keyed with the bytes
 * that the secret's base64 stands for; one signature a secret, separated by spaces.
 */
export function standardHeaders(
  secrets: readonly string[],
  event_id: string,
  body: string,
  now_ms: number,
): Record<string, string> {
  const t = unixSeconds(now_ms);
  const v1 = (secret: string) => {
    const key = Buffer.from(secret.slice(SECRET_PREFIX.length), "base64");
    return `v1,${createHmac("sha256", key).update(`${event_id}.${t}.${body}`).digest("base64")}`;
  };
  return { "webhook-id": event_id, "webhook-timestamp": String(t), "webhook-signature": secrets.map(v1).join(" ") };
}

function unixSeconds(now_ms: number): number {
  return Math.floor(now_ms / 1000);
}

/** The headers of one attempt; the signatures' time is real time, whatever the test clock says. */
export function noticeHeaders(
  notice: { readonly event: string; readonly event_id: string; readonly mode: Mode; readonly body: string },
  { secrets, standard_headers }: Signing,
  now_ms: number,
): Record<string, string> {
  return {
    "content-type": "application/json",
    "user-agent": "Cauri-Webhooks/1",
    "x-service-signature": signature(secrets, notice.body, now_ms),
    "x-service-event": notice.event,
    "x-service-delivery": notice.event_id,
    ...(notice.mode === "test" ? { "x-service-mode": "test" } : {}),
    ...(standard_headers ? standardHeaders(secrets, notice.event_id, notice.body, now_ms) : {}),
  };
}
