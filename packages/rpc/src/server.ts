// The gRPC side of a service. Handlers are promises that return an answer or a refusal; the one wrapper here does what
// every call needs: the house's token, the caller, the deadline, refusals and faults as statuses, one log line, numbers.

import { isRefusal, type Refusal } from "@cauri/money/refusal";
import { failSpan, inSpan } from "@cauri/trace/span";
import { type handleUnaryCall, Server, ServerCredentials, type ServiceDefinition, status } from "@grpc/grpc-js";
import { readTraceparentOf } from "./caller.ts";
import { statusOfFault } from "./fault.ts";
import type { Log } from "./log.ts";
import { observeServed } from "./metrics.ts";
import { type Call, digest, receive, refusalStatus, type Serving } from "./served-call.ts";
import { endStreams, type OpenStreams, type StreamHandler, wrapStream } from "./server-stream.ts";

export type { Call, Outcome } from "./served-call.ts";

/** What every span of a call says, by the semantic conventions of OpenTelemetry. */
const RPC = { "rpc.system.name": "grpc" };
/** Half of what a proxy before us may keep idle; also notices a peer that vanished without a word. */
const KEEPALIVE_MS = 20_000;
const KEEPALIVE_TIMEOUT_MS = 5_000;

/** A method as ts-proto writes it down. */
type Method = {
  readonly path: string;
  readonly requestStream: boolean;
  readonly responseStream: boolean;
  readonly requestDeserialize: (bytes: Buffer) => unknown;
  readonly responseDeserialize: (bytes: Buffer) => unknown;
};
export type Definition = { readonly [method: string]: Method };
export type RequestOf<M extends Method> = ReturnType<M["requestDeserialize"]>;
export type ResponseOf<M extends Method> = ReturnType<M["responseDeserialize"]>;

/** One function per RPC; one that streams gives an iterable. */
export type Handlers<D extends Definition> = {
  readonly [N in keyof D]: D[N]["responseStream"] extends true
    ? StreamHandler<RequestOf<D[N]>, ResponseOf<D[N]>>
    : (request: RequestOf<D[N]>, call: Call) => Promise<ResponseOf<D[N]> | Refusal>;
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
  /**
   * Takes no new call, ends the streams, lets the running calls end, and closes what is open after the time that the
   * settings allow.
   */
  drain(): Promise<void>;
};

export async function startServer({ settings, services, log }: ServerOptions): Promise<RunningServer> {
  const server = new Server({
    "grpc.keepalive_time_ms": KEEPALIVE_MS,
    "grpc.keepalive_timeout_ms": KEEPALIVE_TIMEOUT_MS,
  });
  const serving: Serving = { token: digest(settings.CAURI_RPC_TOKEN), log };
  const streams: OpenStreams = new Set();
  for (const { definition, handlers } of services) {
    const wrapped = Object.entries(handlers).map(([name, handler]) => {
      const method = definition[name];
      if (method === undefined) throw new Error(`a handler has no RPC: ${name}`);
      const path = method.path.slice(1);
      if (!method.responseStream) return [name, wrap(path, handler, serving)];
      return [name, wrapStream(path, handler as StreamHandler<unknown, unknown>, serving, streams)];
    });
    server.addService(definition as unknown as ServiceDefinition, Object.fromEntries(wrapped));
  }
  const port = await bind(server, `${settings.CAURI_BIND_HOST}:${settings.CAURI_RPC_PORT}`);
  return {
    port,
    drain: () =>
      new Promise((resolve) => {
        endStreams(streams);
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

function wrap(method: string, handler: AnyHandler, serving: Serving): handleUnaryCall<unknown, unknown> {
  const { log } = serving;
  return (grpc, answer) => {
    const begun = performance.now();
    const call = receive(method, grpc, serving);
    if (call === null) {
      answer({ code: status.UNAUTHENTICATED, details: "the house's token is missing or wrong" });
      return;
    }
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
              answer(refusalStatus(result));
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
