// One call as a handler sees it, whatever kind of RPC: the house's token is checked, caller and deadline are read, and a
// refusal has its form on the wire.

import { createHash, timingSafeEqual } from "node:crypto";
import { systemClock } from "@cauri/money/clock";
import type { Refusal } from "@cauri/money/refusal";
import { Metadata, type StatusObject, status } from "@grpc/grpc-js";
import { type Caller, callerOf, readCaller, readRequestId, readToken, type WrittenCaller } from "./caller.ts";
import type { Log } from "./log.ts";
import { observeServed } from "./metrics.ts";
import { meaningOf } from "./reasons.ts";

/** The bound of a call that came without a deadline (a script's, a test's, a stream). */
const NO_DEADLINE_MS = 60_000;

export type Outcome = "created" | "existing" | "replayed";

/** What a handler knows of the call besides its message. */
export type Call = {
  /** The account that calls. An operator RPC has none and names the account in its message: asking for it is a bug. */
  readonly caller: Caller;
  readonly request_id: string;
  /** Epoch milliseconds by which the caller wants the answer. The work goes on after it: a write is never cancelled. */
  readonly deadline_ms: number;
  /** Tells the edge what became of a creation: status, `Location`, `Idempotent-Replayed`. */
  outcome(outcome: Outcome): void;
  readonly log: Log;
};

/** What the handlers of one server share. */
export type Serving = { readonly token: Buffer; readonly log: Log };

/** What grpc-js tells of a call, unary or streaming. */
type Incoming = { readonly metadata: Metadata; getDeadline(): Date | number };

/** The call, or null when it does not carry the house's token. */
export function receive(method: string, incoming: Incoming, serving: Serving): ServedCall | null {
  const { metadata } = incoming;
  if (!isOurs(method, metadata, serving)) return null;
  const deadline_ms = deadlineOf(incoming.getDeadline());
  return new ServedCall(readCaller(metadata, deadline_ms), readRequestId(metadata), deadline_ms, serving.log);
}

/** A call that shares a stream, whose token was seen when the stream began. */
export function receiveShared(written: WrittenCaller & { readonly leftMs: number }, log: Log): ServedCall {
  const deadline_ms = systemClock() + (written.leftMs === 0 ? NO_DEADLINE_MS : written.leftMs);
  return new ServedCall(callerOf(written, deadline_ms), written.requestId, deadline_ms, log);
}

/** Whether the metadata carry the house's token. */
export function isOurs(method: string, metadata: Metadata, { token }: Serving): boolean {
  const ours = timingSafeEqual(digest(readToken(metadata)), token);
  if (!ours) observeServed(method, "UNAUTHENTICATED", 0);
  return ours;
}

/** What whoever lacks the token is told. */
export const UNAUTHENTICATED = { code: status.UNAUTHENTICATED, details: "the house's token is missing or wrong" };

/** A refusal on the wire: the status of its reason, and the reason itself in the trailers. */
export function refusalStatus(refusal: Refusal): Partial<StatusObject> {
  const trailers = new Metadata();
  trailers.set("cauri-reason", refusal.refused);
  // A path may hold a key that the caller wrote (`metadata.ключ`); trailers are ASCII.
  if (refusal.field !== undefined) trailers.set("cauri-field", refusal.field.replace(/[^\x20-\x7e]/g, "?"));
  if (refusal.retry_after_s !== undefined) trailers.set("cauri-retry-after", String(refusal.retry_after_s));
  return { code: meaningOf(refusal.refused).grpc, details: refusal.message, metadata: trailers };
}

/** What became of a creation, as trailers. */
export function outcomeTrailers({ told }: ServedCall): Metadata {
  const trailers = new Metadata();
  if (told !== "") trailers.set("cauri-outcome", told);
  return trailers;
}

export class ServedCall implements Call {
  readonly request_id: string;
  readonly deadline_ms: number;
  readonly #caller: Caller | null;
  readonly #parent: Log;
  #log: Log | null = null;
  #outcome: Outcome | "" = "";

  constructor(caller: Caller | null, request_id: string, deadline_ms: number, log: Log) {
    this.#caller = caller;
    this.request_id = request_id;
    this.deadline_ms = deadline_ms;
    this.#parent = log;
  }

  get caller(): Caller {
    if (this.#caller === null) throw new Error("this RPC needs a caller, and the metadata name none");
    return this.#caller;
  }

  /** Made when a handler asks for it: most calls log nothing but their one line. */
  get log(): Log {
    this.#log ??= this.#parent.child(this.facts());
    return this.#log;
  }

  outcome(outcome: Outcome): void {
    this.#outcome = outcome;
  }

  /** What the handler told of a creation; empty where it told nothing. */
  get told(): Outcome | "" {
    return this.#outcome;
  }

  /** Who and what, for the log: ids only. */
  facts(): object {
    const { account, mode, key_id, operation } = this.#caller ?? {};
    return {
      // Sweepers and news act for no request.
      request: this.request_id === "" ? undefined : this.request_id,
      account,
      mode,
      key_id: key_id ?? undefined,
      operation: operation ?? undefined,
    };
  }
}

function deadlineOf(deadline: Date | number): number {
  const at = typeof deadline === "number" ? deadline : deadline.getTime();
  return Number.isFinite(at) ? at : systemClock() + NO_DEADLINE_MS;
}

/** Both sides of the comparison get the same length, so that the time tells nothing about the token. */
export function digest(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}
