// A refusal is an expected business answer: a value that is returned, never thrown.
// Its reason fixes the HTTP status, the public code and the gRPC status, by the one table in proto (cauri.api.v1.Reason).

/** The public codes, lower case; the contract's table of errors and its additions. */
export const REASONS = [
  "missing_api_key",
  "invalid_api_key",
  "insufficient_scope",
  "client_inactive",
  "not_live",
  "product_not_enabled",
  "test_mode_unsupported",
  "not_found",
  "method_not_allowed",
  "already_exists",
  "precondition_failed",
  "concurrent_request",
  "no_active_endpoint",
  "payload_too_large",
  "unsupported_media_type",
  "invalid_request",
  "insufficient_funds",
  "rate_limited",
  "upstream_error",
  "temporarily_unavailable",
  "internal_error",
  "operator_refused",
] as const;

export type Reason = (typeof REASONS)[number];

export type Refusal = {
  readonly refused: Reason;
  /** The path of the field as the caller wrote it: `destination.phone`, `items.1.name`. */
  readonly field?: string;
  /** A sentence for the merchant, without the field's path: the gateway writes `field: message`. */
  readonly message: string;
  /** Whole seconds after which the same request may pass. */
  readonly retry_after_s?: number;
};

export function refuse(
  reason: Reason,
  message: string,
  options: { readonly field?: string; readonly retry_after_s?: number } = {},
): Refusal {
  return { refused: reason, message, ...options };
}

/** A 422 that names its field: the most frequent refusal of all. */
export function refuseField(field: string, message: string): Refusal {
  return { refused: "invalid_request", field, message };
}

export function isRefusal(value: unknown): value is Refusal {
  return typeof value === "object" && value !== null && "refused" in value && typeof value.refused === "string";
}
