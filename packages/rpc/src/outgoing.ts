// A unary call as it leaves this process, and what came of it: the same on every road.

import type { Refusal } from "@cauri/money/refusal";
import type { Caller } from "./caller.ts";

export type Outgoing = {
  /** `cauri.ledger.v1.LedgerService/Post`. */
  readonly method: string;
  readonly request: Buffer;
  readonly caller: Partial<Caller> | undefined;
  /** Instead of the caller's own operation. */
  readonly operation: string | undefined;
  readonly traceparent: string | undefined;
  /** When it must be answered, by `performance.now()`. */
  readonly ends: number;
};

/** A fault is a value here as well: who made the call gives it the form in which his side throws it. */
export type Reply<A> =
  | { readonly kind: "answer"; readonly answer: A; readonly outcome: string | undefined }
  | { readonly kind: "refusal"; readonly refusal: Refusal }
  | { readonly kind: "fault"; readonly code: number; readonly cause: unknown };

/** Takes what became of a call; its answer is still encoded. */
export type Done = (reply: Reply<Buffer>) => void;

export function fault(code: number, message: string): Reply<never> {
  return { kind: "fault", code, cause: new Error(message) };
}
