// What each refusal means outside: HTTP status, public code, gRPC status, whether a retry helps. Read from the options
// of the enum cauri.api.v1.Reason, so that the proto is the only place where this is decided.

import { getOption, hasOption } from "@bufbuild/protobuf";
import { refusal } from "@cauri/proto/es/cauri/api/v1/options_pb";
import { ReasonSchema } from "@cauri/proto/es/cauri/api/v1/reason_pb";

export type Meaning = {
  readonly http: number;
  /** The public `error.code`. */
  readonly code: string;
  /** Number of the gRPC status. */
  readonly grpc: number;
  /** Repeating the same request later can succeed. */
  readonly retry: boolean;
};

const PREFIX = "REASON_";

/** By the reason's word: `not_found`. */
export const meanings: ReadonlyMap<string, Meaning> = new Map(
  ReasonSchema.values
    .filter((value) => hasOption(value, refusal))
    .map((value) => {
      const word = value.name.slice(PREFIX.length).toLowerCase();
      const option = getOption(value, refusal);
      return [word, { http: option.http, code: option.code || word, grpc: option.grpc, retry: option.retry }];
    }),
);

/** The meaning of a reason that a program wrote itself; an unknown one is a bug. */
export function meaningOf(reason: string): Meaning {
  const meaning = meanings.get(reason);
  if (meaning === undefined) throw new Error(`the proto has no reason "${reason}"`);
  return meaning;
}
