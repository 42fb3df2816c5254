// The one table of refusals, read from the options of `cauri.api.v1.Reason`: HTTP status, code, gRPC status, retry.

import { getOption } from "@bufbuild/protobuf";
import type { Reason } from "@cauri/money/refusal";
import { refusal as refusalOption } from "@cauri/proto/es/cauri/api/v1/options_pb";
import { ReasonSchema } from "@cauri/proto/es/cauri/api/v1/reason_pb";

export type Meaning = {
  readonly http: number;
  readonly code: string;
  readonly grpc: number;
  readonly retry: boolean;
};

/** `operator_refused` exists on the admin door alone and is no business answer, so packages/money does not know it. */
export type EdgeReason = Reason | "operator_refused";

/** What the edge answers instead of a success: a reason, its sentence and, where a retry helps, when. */
export type EdgeRefusal = {
  readonly refused: EdgeReason;
  readonly field?: string;
  readonly message: string;
  readonly retry_after_s?: number;
};

const INTERNAL = "internal_error";
const meanings = readMeanings();

/** The meaning of a reason; a word that is not in the table is a defect of whoever sent it, told as one. */
export function meaningOf(reason: string): Meaning {
  const meaning = meanings.get(reason) ?? meanings.get(INTERNAL);
  if (meaning === undefined) throw new Error("cauri.api.v1.Reason has lost its internal_error");
  return meaning;
}

export function isReason(word: string): word is EdgeReason {
  return meanings.has(word);
}

export function reasonWords(): string[] {
  return [...meanings.keys()];
}

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

function readMeanings(): Map<string, Meaning> {
  const found = new Map<string, Meaning>();
  for (const value of ReasonSchema.values) {
    if (value.number === 0) continue;
    const word = value.localName.toLowerCase();
    const { http, code, grpc, retry } = getOption(value, refusalOption);
    if (http === 0 || grpc === 0) throw new Error(`${value.name}: a reason needs its HTTP and its gRPC status`);
    found.set(word, { http, code: code || word, grpc, retry });
  }
  return found;
}
