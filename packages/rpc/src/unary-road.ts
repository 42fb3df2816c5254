// The road of a call of its own, as gRPC has it: what is too large to share a stream, and what goes to a service that does
// not know the shared road yet.

import type { Refusal } from "@cauri/money/refusal";
import { type Client, type Metadata, status } from "@grpc/grpc-js";
import { writeMetadata } from "./caller.ts";
import { readRefusal } from "./exchange-wire.ts";
import { type Done, fault, type Outgoing } from "./outgoing.ts";

const asItIs = (bytes: Buffer) => bytes;

export function callUnary(channel: Client, token: string, outgoing: Outgoing, done: Done): void {
  const { method, request, caller, operation, traceparent, ends } = outgoing;
  const metadata = writeMetadata(token, caller, operation, traceparent);
  const deadline = Date.now() + ends - performance.now();
  let answer: Buffer | undefined;
  try {
    const call = channel.makeUnaryRequest(
      `/${method}`,
      asItIs,
      asItIs,
      request,
      metadata,
      { deadline },
      (error, value) => {
        if (error === null) answer = value;
        else {
          const refusal = refusalOf(error.metadata, error.details);
          done(refusal === null ? { kind: "fault", code: error.code, cause: error } : { kind: "refusal", refusal });
        }
      },
    );
    // The trailers come after the callback has got the message; only then the answer is whole.
    call.on("status", (ended) => {
      if (answer !== undefined) done({ kind: "answer", answer, outcome: text(ended.metadata, "cauri-outcome") });
    });
  } catch (error) {
    // A channel that was closed throws.
    done(fault(status.UNAVAILABLE, String(error)));
  }
}

/** The refusal that trailers carry, or null when the call failed. */
export function refusalOf(trailers: Metadata | undefined, message: string): Refusal | null {
  const retry_after = text(trailers, "cauri-retry-after");
  return readRefusal(
    text(trailers, "cauri-reason"),
    message,
    text(trailers, "cauri-field"),
    retry_after === undefined ? undefined : Number(retry_after),
  );
}

function text(metadata: Metadata | undefined, name: string): string | undefined {
  const value = metadata?.get(name)[0];
  return typeof value === "string" && value !== "" ? value : undefined;
}
