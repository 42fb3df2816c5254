// Server streaming of a service: the handler gives an iterable, this sends it at the pace at which the caller takes it,
// and ends it when the caller leaves or the process stops.

import { once } from "node:events";
import { isRefusal, type Refusal } from "@cauri/money/refusal";
import { type handleServerStreamingCall, type ServerWritableStream, type StatusObject, status } from "@grpc/grpc-js";
import { sentenceOfFault, statusOfFault } from "./fault.ts";
import type { Log } from "./log.ts";
import { observeServed } from "./metrics.ts";
import { type Call, receive, refusalStatus, type ServedCall, type Serving, UNAUTHENTICATED } from "./served-call.ts";

/** A stream's handler knows what every call knows, and when to stop. */
export type StreamCall = Call & {
  /** Aborted when nobody takes any more, or the process stops: the iterable is to end then. */
  readonly signal: AbortSignal;
};

export type StreamHandler<Q, A> = (request: Q, call: StreamCall) => Promise<AsyncIterable<A> | Refusal>;

/** The streams that a server has open, to be ended when it drains. */
export type OpenStreams = Set<AbortController>;

/** The reason of an end that the process itself wants; a caller is told to come again. */
const DRAINING = Symbol("draining");

export function endStreams(open: OpenStreams): void {
  for (const ending of open) ending.abort(DRAINING);
}

export function wrapStream(
  method: string,
  handler: StreamHandler<unknown, unknown>,
  serving: Serving,
  open: OpenStreams,
): handleServerStreamingCall<unknown, unknown> {
  return (grpc) => {
    const call = receive(method, grpc, serving);
    if (call === null) {
      fail(grpc, UNAUTHENTICATED);
      return;
    }
    const ending = new AbortController();
    open.add(ending);
    grpc.on("cancelled", () => ending.abort());
    const stream: Running = { method, grpc, call, ending, begun: performance.now(), sent: 0 };
    run(stream, handler)
      .then(
        (refusal) => settle(stream, refusal, null, serving.log),
        (error: unknown) => settle(stream, null, { error }, serving.log),
      )
      .finally(() => open.delete(ending));
  };
}

type Running = {
  readonly method: string;
  readonly grpc: Stream;
  readonly call: ServedCall;
  readonly ending: AbortController;
  readonly begun: number;
  sent: number;
};

async function run(stream: Running, handler: StreamHandler<unknown, unknown>): Promise<Refusal | null> {
  const { grpc, call } = stream;
  const { signal } = stream.ending;
  const answer = await handler(grpc.request, Object.assign(call, { signal }));
  if (isRefusal(answer)) return answer;
  for await (const message of answer) {
    if (signal.aborted) break;
    stream.sent += 1;
    // Nothing is taken from the handler while the caller is behind: what waits is bounded by one message.
    if (!grpc.write(message)) await drained(grpc, signal);
  }
  return null;
}

/** The end of a stream: one log line, numbers, and the status that the caller sees. */
function settle(stream: Running, refusal: Refusal | null, fault: { error: unknown } | null, log: Log): void {
  const { grpc, ending } = stream;
  const { aborted, reason } = ending.signal;
  const line = (outcome: string) => {
    const ms = performance.now() - stream.begun;
    observeServed(stream.method, outcome, ms / 1000);
    return { method: stream.method, ...stream.call.facts(), outcome, ms: Math.round(ms * 10) / 10, sent: stream.sent };
  };
  if (refusal !== null) {
    log.info(line(refusal.refused), "rpc");
    fail(grpc, refusalStatus(refusal));
  } else if (aborted && reason === DRAINING) {
    log.info(line("draining"), "rpc");
    fail(grpc, { code: status.UNAVAILABLE, details: "the service stops" });
  } else if (aborted || fault === null) {
    // What a handler throws because it was told to end is no fault.
    log.info(line(aborted ? "left" : "ok"), "rpc");
    grpc.end();
  } else {
    const code = statusOfFault(fault.error);
    log.error(
      { ...line(status[code] ?? String(code)), err: fault.error, bug: code === status.INTERNAL },
      "an RPC failed",
    );
    fail(grpc, { code, details: sentenceOfFault(code) });
  }
}

type Stream = ServerWritableStream<unknown, unknown>;

async function drained(grpc: Stream, signal: AbortSignal): Promise<void> {
  // Aborted while waiting: the loop above sees it.
  await once(grpc, "drain", { signal }).catch(() => {});
}

/** grpc-js takes an error of its stream as the status of the call. */
function fail(grpc: Stream, error: Partial<StatusObject>): void {
  if (!grpc.cancelled) grpc.emit("error", error);
}
