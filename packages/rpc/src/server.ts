// The gRPC side of a service. Handlers are promises that return an answer or a refusal; the one wrapper here does what
// every call needs: the house's token, the caller, the deadline, refusals and faults as statuses, one log line, numbers.

import { createHash, timingSafeEqual } from "node:crypto";
import { systemClock } from "@cauri/money/clock";
import { isRefusal, type Refusal } from "@cauri/money/refusal";
import { failSpan, inSpan } from "@cauri/trace/span";
import {
  type handleUnaryCall,
  Metadata,
  Server,
  ServerCredentials,
  type ServiceDefinition,
  type sendUnaryData,
  status,
} from "@grpc/grpc-js";
import { type Caller, readCaller, readRequestId, readToken, readTraceparentOf } from "./caller.ts";
import { statusOfFault } from "./fault.ts";
import type { Log } from "./log.ts";
import { observeServed } from "./metrics.ts";
import { meaningOf } from "./reasons.ts";

/** The bound of a call that came without a deadline (a script's, a test's). */
const NO_DEADLINE_MS = 60_000;
/** What every span of a call says, by the semantic conventions of OpenTelemetry. */
const RPC = { "rpc.system.name": "grpc" };
/** Half of what a proxy before us may keep idle; also notices a peer that vanished without a word. */
const KEEPALIVE_MS = 20_000;
const KEEPALIVE_TIMEOUT_MS = 5_000;

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

/** A method as ts-proto writes it down. */
type Unary = {
  readonly path: string;
  readonly requestStream: boolean;
  readonly responseStream: boolean;
  readonly requestDeserialize: (bytes: Buffer) => unknown;
  readonly responseDeserialize: (bytes: Buffer) => unknown;
};
export type Definition = { readonly [method: string]: Unary };
export type RequestOf<M extends Unary> = ReturnType<M["requestDeserialize"]>;
export type ResponseOf<M extends Unary> = ReturnType<M["responseDeserialize"]>;

/** One function per RPC. */
export type Handlers<D extends Definition> = {
  readonly [N in keyof D]: (request: RequestOf<D[N]>, call: Call) => Promise<ResponseOf<D[N]> | Refusal>;
};

type AnyHandler = (request: unknown, call: Call) => Promise<unknown>;
export type Service = { readonly definition: Definition; readonly handlers: { readonly [method: string]: AnyHandler } };

/** A service of the proto with its handlers, ready for `startServer`. */
export function service<D extends Definition>(definition: D, handlers: Handlers<D>): Service {
  // The one place where the types of request and answer are let go: grpc-js hands over what `definition` has decoded.
  return { definition, handlers: handlers as unknown as Service["handlers"] };
}

export type ServerOptions = {
  readonly room: string;
  readonly settings: {
    readonly CAURI_BIND_HOST: string;
    readonly CAURI_RPC_PORT: number;
    readonly CAURI_RPC_TOKEN: string;
    readonly CAURI_DRAIN_MS: number;
  };
  readonly services: readonly Service[];
  readonly log: Log;
};

export type RunningServer = {
  readonly port: number;
  /** Takes no new call, lets the running ones end, and closes what is open after the time that the settings allow. */
  drain(): Promise<void>;
};

export async function startServer({ settings, services, log }: ServerOptions): Promise<RunningServer> {
  const server = new Server({
    "grpc.keepalive_time_ms": KEEPALIVE_MS,
    "grpc.keepalive_timeout_ms": KEEPALIVE_TIMEOUT_MS,
  });
  const token = digest(settings.CAURI_RPC_TOKEN);
  for (const { definition, handlers } of services) {
    const wrapped = Object.entries(handlers).map(([name, handler]) => {
      const method = definition[name];
      if (method === undefined) throw new Error(`a handler has no RPC: ${name}`);
      return [name, wrap(method.path.slice(1), handler, token, log)];
    });
    server.addService(definition as unknown as ServiceDefinition, Object.fromEntries(wrapped));
  }
  const port = await bind(server, `${settings.CAURI_BIND_HOST}:${settings.CAURI_RPC_PORT}`);
  return {
    port,
    drain: () =>
      new Promise((resolve) => {
        const force = setTimeout(() => server.forceShutdown(), settings.CAURI_DRAIN_MS);
        server.tryShutdown(() => {
          clearTimeout(force);
          resolve();
        });
      }),
  };
}

function bind(server: Server, address: string): Promise<number> {
  return new Promise((resolve, reject) => {
    server.bindAsync(address, ServerCredentials.createInsecure(), (error, port) => {
      if (error) reject(new Error(`the gRPC port ${address} cannot be opened`, { cause: error }));
      else resolve(port);
    });
  });
}

function wrap(method: string, handler: AnyHandler, token: Buffer, log: Log): handleUnaryCall<unknown, unknown> {
  return (grpc, answer) => {
    const begun = performance.now();
    if (!timingSafeEqual(digest(readToken(grpc.metadata)), token)) {
      observeServed(method, "UNAUTHENTICATED", 0);
      answer({ code: status.UNAUTHENTICATED, details: "the house's token is missing or wrong" });
      return;
    }
    const deadline_ms = deadlineOf(grpc.getDeadline());
    const call = new ServedCall(readCaller(grpc.metadata, deadline_ms), readRequestId(grpc.metadata), deadline_ms, log);
    const end = (outcome: string) => {
      const ms = performance.now() - begun;
      observeServed(method, outcome, ms / 1000);
      return { method, ...call.facts(), outcome, ms: Math.round(ms * 10) / 10 };
    };
    void inSpan(method, { kind: "server", parent: readTraceparentOf(grpc.metadata), attributes: RPC }, (span) =>
      // The handler may throw before its first await: that is a fault like any other.
      Promise.resolve()
        .then(() => handler(grpc.request, call))
        .then(
          (result) => {
            if (isRefusal(result)) {
              span?.setAttribute("cauri.refused", result.refused);
              log.info(end(result.refused), "rpc");
              answerRefusal(result, answer);
            } else {
              log.info(end("ok"), "rpc");
              answer(null, result, call.trailers());
            }
          },
          (error: unknown) => {
            if (span !== null) failSpan(span, error);
            const code = statusOfFault(error);
            log.error({ ...end(status[code] ?? String(code)), err: error, bug: code === status.INTERNAL }, "rpc");
            answer({ code, details: code === status.INTERNAL ? "a defect of the house" : "a passing unavailability" });
          },
        ),
    );
  };
}

/** A refusal on the wire: the status of its reason, and the reason itself in the trailers. */
function answerRefusal(refusal: Refusal, answer: sendUnaryData<unknown>): void {
  const trailers = new Metadata();
  trailers.set("cauri-reason", refusal.refused);
  // A path may hold a key that the caller wrote (`metadata.ключ`); trailers are ASCII.
  if (refusal.field !== undefined) trailers.set("cauri-field", refusal.field.replace(/[^\x20-\x7e]/g, "?"));
  if (refusal.retry_after_s !== undefined) trailers.set("cauri-retry-after", String(refusal.retry_after_s));
  answer({ code: meaningOf(refusal.refused).grpc, details: refusal.message, metadata: trailers });
}

class ServedCall implements Call {
  readonly request_id: string;
  readonly deadline_ms: number;
  readonly #caller: Caller | null;
  readonly #parent: Log;
  #log: Log | null = null;
  #outcome: Outcome | null = null;

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

  trailers(): Metadata {
    const trailers = new Metadata();
    if (this.#outcome !== null) trailers.set("cauri-outcome", this.#outcome);
    return trailers;
  }

  /** Who and what, for the log: ids only. */
  facts(): object {
    const { account, mode, key_id, operation } = this.#caller ?? {};
    return {
      request: this.request_id,
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
function digest(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}
