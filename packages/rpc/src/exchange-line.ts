// The calling end of one shared stream: calls leave together at the end of their turn, each is answered by its number, ends
// at its own deadline, and fails when the stream does.

import type { Answer, Answers, Call, Calls } from "@cauri/proto/ts/cauri/rpc/v1/calls";
import { outsideSpans } from "@cauri/trace/span";
import { type Client, type ClientDuplexStream, type StatusObject, status } from "@grpc/grpc-js";
import { writeMetadata } from "./caller.ts";
import { CALLS_UNDER_WAY, EXCHANGE, readRefusal, WAITING_BYTES } from "./exchange-wire.ts";
import { Expiry } from "./expiry.ts";
import { observeBatch } from "./metrics.ts";
import { type Done, fault, type Outgoing, type Reply } from "./outgoing.ts";
import { TurnQueue } from "./turn-queue.ts";

export type Waiting = { readonly outgoing: Outgoing; readonly done: Done };

/** What the set of lines hears of one. */
export type Listener = {
  /** A server has taken the stream. */
  greeted(line: Line): void;
  /** It takes no call any more: the server is about to stop, or the line is over. */
  left(line: Line): void;
  /** The server does not know the service. What was asked on the line was done by nobody. */
  unknown(line: Line, waiting: readonly Waiting[]): void;
};

/** What a call is taken for in the queue beside its request. */
const CALL_BYTES = 256;

export class Line {
  /** Address of the server; empty until it has taken the stream. */
  peer = "";
  readonly #stream: ClientDuplexStream<Calls, Answers>;
  readonly #listener: Listener;
  readonly #waiting = new Map<number, Waiting>();
  readonly #queue: TurnQueue<number>;
  readonly #expiry = new Expiry((now) => this.#expire(now));
  #last_id = 0;
  #retired = false;
  #status: StatusObject | null = null;

  constructor(channel: Client, token: string, listener: Listener) {
    this.#listener = listener;
    const { path, requestSerialize, responseDeserialize } = EXCHANGE;
    const metadata = writeMetadata(token);
    // It outlives the call that was the first to need it, and is no part of that one's trace.
    this.#stream = outsideSpans(() =>
      channel.makeBidiStreamRequest(path, requestSerialize, responseDeserialize, metadata),
    );
    this.#queue = new TurnQueue((ids, written) => this.#write(ids, written));
    this.#stream.on("metadata", () => {
      this.peer = this.#stream.getPeer();
      listener.greeted(this);
    });
    this.#stream.on("data", (answers: Answers) => this.#hear(answers));
    this.#stream.on("status", (ended: StatusObject) => {
      this.#status = ended;
    });
    // Told by the status as well.
    this.#stream.on("error", () => {});
    // Comes after the last message, in whatever way the stream ended.
    this.#stream.on("end", () => this.#end());
  }

  /** Whether calls of this turn are gathered here. */
  get gathering(): boolean {
    return this.#queue.gathering;
  }

  take(outgoing: Outgoing, done: Done): void {
    const bytes = outgoing.request.length + CALL_BYTES;
    if (this.#waiting.size >= CALLS_UNDER_WAY || this.#queue.bytes + bytes > WAITING_BYTES) {
      done(fault(status.RESOURCE_EXHAUSTED, "too many calls are under way"));
      return;
    }
    const id = this.#nextId();
    this.#waiting.set(id, { outgoing, done });
    this.#queue.push(id, bytes);
    this.#expiry.watch(outgoing.ends);
  }

  /** Takes no more and half-closes; what was asked is answered. */
  retire(): void {
    if (this.#retired) return;
    this.#retired = true;
    this.#queue.flush();
    this.#stream.end();
    this.#listener.left(this);
  }

  #nextId(): number {
    do this.#last_id = (this.#last_id + 1) >>> 0;
    while (this.#waiting.has(this.#last_id));
    return this.#last_id;
  }

  #write(ids: readonly number[], written: () => void): void {
    const now = performance.now();
    const calls: Call[] = [];
    for (const id of ids) {
      const outgoing = this.#waiting.get(id)?.outgoing;
      // One that has expired meanwhile is not sent at all.
      if (outgoing !== undefined && outgoing.ends > now) calls.push(callOf(id, outgoing, now));
    }
    observeBatch("rpc_calls", calls.length);
    this.#stream.write({ calls }, written);
  }

  #hear({ answers, closing }: Answers): void {
    for (const answer of answers) {
      const waiting = this.#waiting.get(answer.id);
      // An answer that came too late finds nobody.
      if (waiting === undefined) continue;
      this.#waiting.delete(answer.id);
      waiting.done(replyOf(answer));
    }
    if (closing) this.retire();
  }

  #expire(now: number): number {
    let next = Number.POSITIVE_INFINITY;
    for (const [id, { outgoing, done }] of this.#waiting) {
      if (outgoing.ends <= now) {
        this.#waiting.delete(id);
        done(fault(status.DEADLINE_EXCEEDED, "the answer did not come in time"));
      } else if (outgoing.ends < next) next = outgoing.ends;
    }
    return next;
  }

  #end(): void {
    this.#expiry.stop();
    this.#queue.drop();
    const waiting = [...this.#waiting.values()];
    this.#waiting.clear();
    const { code, details } = this.#status ?? { code: status.UNAVAILABLE, details: "the stream ended" };
    const untaken = this.peer === "";
    if (untaken && code === status.UNIMPLEMENTED) {
      this.#listener.unknown(this, waiting);
      return;
    }
    if (!this.#retired) this.#listener.left(this);
    this.#retired = true;
    // However it ended: nobody knows what became of these calls, as when a connection is lost.
    const told = untaken && code === status.UNAUTHENTICATED ? code : status.UNAVAILABLE;
    for (const { done } of waiting) done(fault(told, details));
  }
}

function callOf(id: number, { method, request, caller, operation, traceparent, ends }: Outgoing, now: number): Call {
  return {
    id,
    method,
    leftMs: Math.ceil(ends - now),
    request,
    account: caller?.account ?? "",
    mode: caller?.mode ?? "",
    keyId: caller?.key_id ?? "",
    requestId: caller?.request_id ?? "",
    idempotencyKey: caller?.idempotency_key ?? "",
    operation: operation ?? caller?.operation ?? "",
    traceparent: traceparent ?? "",
  };
}

function replyOf({ result, outcome }: Answer): Reply<Buffer> {
  switch (result?.$case) {
    case "response":
      return { kind: "answer", answer: result.value, outcome: outcome === "" ? undefined : outcome };
    case "refusal": {
      const { reason, message, field, retryAfterS } = result.value;
      const refusal = readRefusal(reason, message, field, retryAfterS);
      return refusal === null ? fault(status.UNKNOWN, `an unknown reason: ${reason}`) : { kind: "refusal", refusal };
    }
    case "fault":
      return fault(result.value.code, result.value.message);
    default:
      return fault(status.INTERNAL, "an answer without a result");
  }
}
