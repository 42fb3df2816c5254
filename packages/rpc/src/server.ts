// The gRPC side of a service. Handlers are promises that return an answer or a refusal; each unary one is served by itself
// and on shared streams alike, with all that every call needs: token, caller, deadline, log line, numbers, statuses.

import type { Refusal } from "@cauri/money/refusal";
import { type handleUnaryCall, Server, ServerCredentials, type ServiceDefinition } from "@grpc/grpc-js";
import { readTraceparentOf } from "./caller.ts";
import { type ServedMethod, serveExchanges } from "./exchange-server.ts";
import { EXCHANGE } from "./exchange-wire.ts";
import type { Log } from "./log.ts";
import {
  type Call,
  digest,
  outcomeTrailers,
  receive,
  refusalStatus,
  type Serving,
  UNAUTHENTICATED,
} from "./served-call.ts";
import { endStreams, type OpenStreams, type StreamHandler, wrapStream } from "./server-stream.ts";
import { type AnyHandler, serve } from "./serving.ts";

export type { Call, Outcome } from "./served-call.ts";

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
  readonly responseSerialize: (answer: never) => Buffer;
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
   * Takes no new connection, ends the streams, sends those who share one elsewhere, lets the running calls end, and closes
   * what is open after the time that the settings allow.
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
  const unary = new Map<string, ServedMethod>();
  for (const { definition, handlers } of services) {
    const wrapped = Object.entries(handlers).map(([name, handler]) => {
      const method = definition[name];
      if (method === undefined) throw new Error(`a handler has no RPC: ${name}`);
      const path = method.path.slice(1);
      if (method.responseStream)
        return [name, wrapStream(path, handler as StreamHandler<unknown, unknown>, serving, streams)];
      const encode = method.responseSerialize as (answer: unknown) => Buffer;
      unary.set(path, { handler, decode: method.requestDeserialize, encode });
      return [name, wrap(path, handler, serving)];
    });
    server.addService(definition as unknown as ServiceDefinition, Object.fromEntries(wrapped));
  }
  const exchanges = serveExchanges(unary, serving);
  server.addService({ exchange: EXCHANGE }, { exchange: exchanges.handle });
  const port = await bind(server, `${settings.CAURI_BIND_HOST}:${settings.CAURI_RPC_PORT}`);
  return {
    port,
    drain: () =>
      new Promise((resolve) => {
        endStreams(streams);
        exchanges.close();
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
    const call = receive(method, grpc, serving);
    if (call === null) {
      answer(UNAUTHENTICATED);
      return;
    }
    const parent = readTraceparentOf(grpc.metadata);
    void serve({ method, handler, request: grpc.request, call, parent, log }).then((served) => {
      if (served.kind === "refusal") answer(refusalStatus(served.refusal));
      else if (served.kind === "fault") answer({ code: served.code, details: served.details });
      else answer(null, served.answer, outcomeTrailers(call));
    });
  };
}
