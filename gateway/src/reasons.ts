// Refusals as the edge tells them: the house's own, and those that only an edge can give. What each one means outside
// stands in the one table of `cauri.api.v1.Reason`.

import type { Reason } from "@cauri/money/refusal";
import { meaningOf } from "@cauri/rpc/reasons";

/** `operator_refused` exists on the admin door alone and is no business answer, so packages/money does not know it. */
export type EdgeReason = Reason | "operator_refused";

export type EdgeRefusal = {
  readonly refused: EdgeReason;
  readonly field?: string;
  readonly message: string;
  readonly retry_after_s?: number;
};

export function edgeRefusal(
  refused: EdgeReason,
  message: string,
  more: { field?: string; retry_after_s?: number } = {},
): EdgeRefusal {
  return { refused, message, ...more };
}

export function isEdgeRefusal(value: unknown): value is EdgeRefusal {
  return typeof value === "object" && value !== null && "refused" in value;
}

/** The sentence as the merchant reads it: it begins with the field's path where there is one. */
export function sentenceOf(refusal: EdgeRefusal): string {
  return refusal.field === undefined ? refusal.message : `${refusal.field}: ${refusal.message}`;
}

/** The seconds of `Retry-After`: what is busy or away for a moment is always worth another try. */
export function retryAfterOf({ refused, retry_after_s }: EdgeRefusal): number | undefined {
  const { http } = meaningOf(refused);
  return retry_after_s ?? (http === 503 || http === 429 ? 1 : undefined);
}

/** Carries a refusal out of a place that can only throw: a body parser. The error handler takes it out again. */
export class RefusedEarly extends Error {
  readonly refusal: EdgeRefusal;
  constructor(refusal: EdgeRefusal) {
    super(refusal.message);
    this.refusal = refusal;
  }
}

/** A passing unavailability, with the seconds after which a retry is welcome. */
export function unavailable(): EdgeRefusal {
  return edgeRefusal("temporarily_unavailable", "the service is unavailable for a moment, please repeat the request", {
    retry_after_s: 1,
  });
}

/** A defect of ours; the request id in the response's head leads to its log lines. */
export function defect(): EdgeRefusal {
  return edgeRefusal("internal_error", "an internal error occurred");
}
