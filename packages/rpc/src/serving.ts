// Runs a unary handler, on whatever road its call came: span, one log line, numbers; its refusals and faults are values.

import { isRefusal, type Refusal } from "@cauri/money/refusal";
import { failSpan, inSpan } from "@cauri/trace/span";
import { status } from "@grpc/grpc-js";
import { sentenceOfFault, statusOfFault } from "./fault.ts";
import type { Log } from "./log.ts";
import { observeServed } from "./metrics.ts";
import type { Call, ServedCall } from "./served-call.ts";

export type AnyHandler = (request: unknown, call: Call) => Promise<unknown>;

export type Served =
  | { readonly kind: "answer"; readonly answer: unknown }
  | { readonly kind: "refusal"; readonly refusal: Refusal }
  | { readonly kind: "fault"; readonly code: number; readonly details: string };

type Work = {
  readonly method: string;
  readonly handler: AnyHandler;
  readonly request: unknown;
  readonly call: ServedCall;
  /** W3C trace context of whoever called. */
  readonly parent: string;
  readonly log: Log;
};

/** What every span of a call says, by the semantic conventions of OpenTelemetry. */
const RPC = { "rpc.system.name": "grpc" };

/** Never throws. The handler is not cancelled: who hangs up has not undone a write. */
export function serve({ method, handler, request, call, parent, log }: Work): Promise<Served> {
  const begun = performance.now();
  const end = (outcome: string) => {
    const ms = performance.now() - begun;
    observeServed(method, outcome, ms / 1000);
    return { method, ...call.facts(), outcome, ms: Math.round(ms * 10) / 10 };
  };
  return inSpan<Served>(method, { kind: "server", parent, attributes: RPC }, async (span) => {
    try {
      const result = await handler(request, call);
      if (!isRefusal(result)) {
        log.info(end("ok"), "rpc");
        return { kind: "answer", answer: result };
      }
      span?.setAttribute("cauri.refused", result.refused);
      log.info(end(result.refused), "rpc");
      return { kind: "refusal", refusal: result };
    } catch (error) {
      if (span !== null) failSpan(span, error);
      const code = statusOfFault(error);
      log.error({ ...end(status[code] ?? String(code)), err: error, bug: code === status.INTERNAL }, "an RPC failed");
      return { kind: "fault", code, details: sentenceOfFault(code) };
    }
  });
}
