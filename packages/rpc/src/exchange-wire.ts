// `cauri.rpc.v1.CallService` as both of its ends use it: the definition for grpc-js, the bounds, and a refusal's two forms.

import { REASONS, type Reason, type Refusal } from "@cauri/money/refusal";
import { Answers, CallServiceService, Calls, type Refusal as WireRefusal } from "@cauri/proto/ts/cauri/rpc/v1/calls";

/** A request larger than this goes by itself: all that stands behind it on the stream would wait for it. */
export const SHARED_BYTES = 65_536;
/** Calls under way on one stream; another one is told RESOURCE_EXHAUSTED, as by any full queue of the house. */
export const CALLS_UNDER_WAY = 4_096;
/** Bytes that wait to be written on one stream: calls beyond them are told RESOURCE_EXHAUSTED, answers stop the reading of calls. */
export const WAITING_BYTES = 4_194_304;
/** What grpc-js reads as one message, less the frame around a single answer. */
export const ANSWER_BYTES = 4_194_304 - 1_024;

const { exchange } = CallServiceService;

/** The generated one would copy every message once more. */
export const EXCHANGE = {
  ...exchange,
  requestSerialize: (calls: Calls): Buffer => viewOf(Calls.encode(calls).finish()),
  responseSerialize: (answers: Answers): Buffer => viewOf(Answers.encode(answers).finish()),
};
export const EXCHANGE_NAME = exchange.path.slice(1);

/** grpc-js asks for a Buffer; this one is a view, nothing is copied. */
export function viewOf(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

export function writeRefusal({ refused, message, field, retry_after_s }: Refusal): WireRefusal {
  const retryAfterS = retry_after_s === undefined ? undefined : Math.max(0, Math.ceil(retry_after_s));
  return { reason: refused, message, field: field ?? "", retryAfterS };
}

/** The refusal that a service told, or null when its reason is none of ours. */
export function readRefusal(
  reason: string | undefined,
  message: string,
  field: string | undefined,
  retry_after_s: number | undefined,
): Refusal | null {
  if (reason === undefined || !isReason(reason)) return null;
  return {
    refused: reason,
    message,
    ...(field === undefined || field === "" ? {} : { field }),
    ...(retry_after_s === undefined ? {} : { retry_after_s }),
  };
}

function isReason(word: string): word is Reason {
  return (REASONS as readonly string[]).includes(word);
}
