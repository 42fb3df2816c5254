// Why an operation failed: the contract's codes. Connectors map their operators' words to them; each room has its own
// sentence for each, fixed, so that no detail of a person can slip into one.

export const FAILURE_CODES = [
  "insufficient_funds",
  "payer_rejected",
  "expired",
  "payer_not_found",
  "payee_not_found",
  "limit_exceeded",
  "account_blocked",
  "name_mismatch",
  "operator_unavailable",
  "fraud_suspected",
  "duplicate",
  "unknown",
] as const;

export type FailureCode = (typeof FAILURE_CODES)[number];

export function isFailureCode(text: string): text is FailureCode {
  return (FAILURE_CODES as readonly string[]).includes(text);
}

/** A code of the contract; what a rail says beyond it is `unknown`. */
export function failureCode(text: string | undefined): FailureCode {
  return text !== undefined && isFailureCode(text) ? text : "unknown";
}
