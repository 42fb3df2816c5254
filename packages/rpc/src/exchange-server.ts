// The served end of shared streams: each call on a stream is a call of its own, whose fault is nobody else's; answers that
// become ready in the same turn leave together.

import type { Refusal } from "@cauri/money/refusal";
import type { Answer, Answers, Call, Calls } from "@cauri/proto/ts/cauri/rpc/v1/calls";
import { type handleBidiStreamingCall, Metadata, type ServerDuplexStream, status } from "@grpc/grpc-js";
import { ANSWER_BYTES, CALLS_UNDER_WAY, EXCHANGE_NAME, WAITING_BYTES, writeRefusal } from "./exchange-wire.ts";
import { sentenceOfFault } from "./fault.ts";
import { observeBatch } from "./metrics.ts";
import { isOurs, receiveShared, type ServedCall, type Serving, UNAUTHENTICATED } from "./served-call.ts";
import { type AnyHandler, serve } from "./serving.ts";
import { TurnQueue } from "./turn-queue.ts";

export type ServedMethod = {
  readonly handler: AnyHandler;
  readonly decode: (bytes: Buffer) => unknown;
  readonly encode: (answer: unknown) => Buffer;
};

/** The unary RPCs of one server, by their names. */
export type ServedMethods = ReadonlyMap<string, ServedMethod>;

export type Exchanges = {
  readonly handle: handleBidiStreamingCall<Calls, Answers>;
  /** Asks every client to go elsewhere; what they have asked and ask until then is answered. */
  close(): void;
};

/** What an answer is taken for in the queue beside its bytes. */
const HEAD_BYTES = 128;

export function serveExchanges(methods: ServedMethods, serving: Serving): Exchanges {
  const open = new Set<Exchange>();
  let closing = false;
  return {
    handle: (grpc) => {
      if (!isOurs(EXCHANGE_NAME, grpc.metadata, serving)) {
        grpc.emit("error", UNAUTHENTICATED);
        return;
      }
      const exchange = new Exchange(grpc, methods, serving, () => open.delete(exchange));
      open.add(exchange);
      if (closing) exchange.close();
    },
    close: () => {
      closing = true;
      for (const exchange of open) exchange.close();
    },
  };
}

class Exchange {
  readonly #grpc: ServerDuplexStream<Calls, Answers>;
  readonly #methods: ServedMethods;
  readonly #serving: Serving;
  readonly #queue: TurnQueue<Answer>;
  #running = 0;
  #asked_all = false;
  #gone = false;

  constructor(grpc: ServerDuplexStream<Calls, Answers>, methods: ServedMethods, serving: Serving, ended: () => void) {
    this.#grpc = grpc;
    this.#methods = methods;
    this.#serving = serving;
    this.#queue = new TurnQueue((answers, written) => this.#write(answers, written));
    // At once: with it the client knows that this service is known here, and to which replica the stream goes.
    grpc.sendMetadata(new Metadata());
    grpc.on("data", ({ calls }: Calls) => {
      for (const call of calls) this.#take(call);
    });
    grpc.on("end", () => {
      this.#asked_all = true;
      this.#endWhenDone();
    });
    grpc.on("cancelled", () => {
      this.#gone = true;
      this.#queue.drop();
    });
    grpc.on("close", ended);
  }

  close(): void {
    if (!this.#gone) this.#grpc.write({ answers: [], closing: true });
  }

  #take(written: Call): void {
    const method = this.#methods.get(written.method);
    if (method === undefined) this.#fail(written.id, status.UNIMPLEMENTED, "no such unary RPC");
    else if (this.#running >= CALLS_UNDER_WAY)
      this.#fail(written.id, status.RESOURCE_EXHAUSTED, "too many calls are under way");
    else this.#run(written, method);
  }

  #run({ id, method: name, request: bytes, traceparent: parent, ...written }: Call, method: ServedMethod): void {
    let request: unknown;
    try {
      request = method.decode(bytes);
    } catch {
      this.#fail(id, status.INTERNAL, "the request cannot be read");
      return;
    }
    const { log } = this.#serving;
    const call = receiveShared(written, log);
    this.#running += 1;
    void serve({ method: name, handler: method.handler, request, call, parent, log }).then((served) => {
      this.#running -= 1;
      if (served.kind === "answer") this.#answer(id, method, call, served.answer);
      else if (served.kind === "refusal") this.#refuse(id, served.refusal);
      else this.#fail(id, served.code, served.details);
      this.#endWhenDone();
    });
  }

  #answer(id: number, { encode }: ServedMethod, call: ServedCall, answer: unknown): void {
    let value: Buffer;
    try {
      value = encode(answer);
    } catch (error) {
      this.#serving.log.error({ ...call.facts(), err: error, bug: true }, "an answer cannot be encoded");
      this.#fail(id, status.INTERNAL, sentenceOfFault(status.INTERNAL));
      return;
    }
    // The client would take its message for an attack and give up the whole stream.
    if (value.length > ANSWER_BYTES) this.#fail(id, status.RESOURCE_EXHAUSTED, "the answer is too large");
    else this.#push({ id, result: { $case: "response", value }, outcome: call.told }, value.length);
  }

  #refuse(id: number, refusal: Refusal): void {
    const result = { $case: "refusal", value: writeRefusal(refusal) } as const;
    this.#push({ id, result, outcome: "" }, refusal.message.length);
  }

  #fail(id: number, code: number, message: string): void {
    this.#push({ id, result: { $case: "fault", value: { code, message } }, outcome: "" }, message.length);
  }

  #push(answer: Answer, bytes: number): void {
    if (this.#gone) return;
    this.#queue.push(answer, bytes + HEAD_BYTES);
    // A client that does not take its answers is not asked for more calls.
    if (this.#queue.bytes > WAITING_BYTES) this.#grpc.pause();
  }

  #write(answers: readonly Answer[], written: () => void): void {
    observeBatch("rpc_answers", answers.length);
    this.#grpc.write({ answers: [...answers], closing: false }, () => {
      written();
      if (this.#grpc.isPaused() && this.#queue.bytes <= WAITING_BYTES / 2) this.#grpc.resume();
      this.#endWhenDone();
    });
  }

  #endWhenDone(): void {
    if (this.#asked_all && this.#running === 0 && this.#queue.idle && !this.#gone) this.#grpc.end();
  }
}
