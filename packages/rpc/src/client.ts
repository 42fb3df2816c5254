// The calling side: typed promises over one grpc-js channel. A refusal comes back as a value, a fault is thrown as
// RpcFault, and a call made for a caller ends 200 ms before that caller's own deadline.

import { systemClock } from "@cauri/money/clock";
import { REASONS, type Reason, type Refusal } from "@cauri/money/refusal";
import { inSpan } from "@cauri/trace/span";
import { type ChannelOptions, Client, credentials, type Metadata, type ServiceError, status } from "@grpc/grpc-js";
import { type Caller, writeMetadata } from "./caller.ts";
import { RpcFault } from "./fault.ts";
import { observeCalled } from "./metrics.ts";
import type { Definition, RequestOf, ResponseOf } from "./server.ts";

/** What each hop keeps of the deadline for its own answer. */
const KEPT_MS = 200;
/** A write's deadline, for a call that no request asked for (a sweeper's, a consumer's). */
const USUAL_MS = 8_000;
/** What every span of a call says, by the semantic conventions of OpenTelemetry. */
const RPC = { "rpc.system.name": "grpc" };
/** A call that has less than this left is not worth sending. */
const LEAST_MS = 10;

/** How every channel of the house connects. */
export const CHANNEL: ChannelOptions = {
  "grpc.keepalive_time_ms": 20_000,
  "grpc.keepalive_timeout_ms": 5_000,
  // A service that was restarted must be found again within a moment, not after two minutes of back-off.
  "grpc.initial_reconnect_backoff_ms": 50,
  "grpc.min_reconnect_backoff_ms": 50,
  "grpc.max_reconnect_backoff_ms": 1_000,
  // Over the replicas of a headless Service; one address has one connection.
  "grpc.service_config": JSON.stringify({ loadBalancingConfig: [{ round_robin: {} }] }),
};

export type CallOptions = {
  /** For whom: account, mode, request id, deadline. Absent for RPCs that name the account in their message. */
  readonly caller?: Partial<Caller>;
  /** Instead of what is left of the caller's deadline. */
  readonly timeout_ms?: number;
  /** Instead of the caller's own operation. */
  readonly operation?: string;
};

/** The methods of a service, as promises. A stream is followed by the gateway alone, which has its own road. */
export type Promisified<D extends Definition> = {
  readonly [N in keyof D]: (request: RequestOf<D[N]>, options?: CallOptions) => Promise<ResponseOf<D[N]> | Refusal>;
} & {
  /** Closes the channel; running calls fail. */
  readonly closeChannel: () => void;
};

/** A ts-proto client class, of which only the service's definition is used. */
type ClientClass<D extends Definition> = { readonly service: D; readonly serviceName: string };

export type ConnectOptions = { readonly address: string; readonly token: string };

/** Opens a channel to one service. It connects at the first call and again after each loss. */
export function connectClient<D extends Definition>(of: ClientClass<D>, options: ConnectOptions): Promisified<D> {
  const channel = new Client(options.address, credentials.createInsecure(), CHANNEL);
  const methods = Object.entries(of.service).map(([name, method]) => [name, promisify(channel, method, options.token)]);
  return Object.fromEntries([...methods, ["closeChannel", () => channel.close()]]) as Promisified<D>;
}

type Method = Definition[string] & { readonly requestSerialize?: (value: never) => Buffer };

function promisify(channel: Client, method: Method, token: string) {
  const name = method.path.slice(1);
  const encode = method.requestSerialize as unknown as (value: unknown) => Buffer;
  return (request: unknown, { caller, timeout_ms, operation }: CallOptions = {}) => {
    const now = systemClock();
    const left_ms = timeout_ms ?? (caller?.deadline_ms === undefined ? USUAL_MS : caller.deadline_ms - now - KEPT_MS);
    if (left_ms < LEAST_MS) return Promise.reject(new RpcFault(name, status.DEADLINE_EXCEEDED, undefined));
    const begun = performance.now();
    const of = operation ?? caller?.operation;
    return inSpan(
      name,
      { kind: "client", operation: of, attributes: RPC },
      (span) =>
        new Promise<unknown>((resolve, reject) => {
          channel.makeUnaryRequest(
            method.path,
            encode,
            method.responseDeserialize,
            request,
            writeMetadata(token, caller, operation),
            { deadline: now + left_ms },
            (error, response) => {
              const refusal = error === null ? null : refusalOf(error);
              const outcome = error === null ? "ok" : (refusal?.refused ?? status[error.code] ?? String(error.code));
              observeCalled(name, outcome, (performance.now() - begun) / 1000);
              if (error === null) resolve(response);
              else if (refusal !== null) {
                span?.setAttribute("cauri.refused", refusal.refused);
                resolve(refusal);
              } else reject(new RpcFault(name, error.code, error));
            },
          );
        }),
    );
  };
}

/** The refusal that an error carries in its trailers, or null when it is a fault. */
function refusalOf(error: ServiceError): Refusal | null {
  const reason = trailer(error.metadata, "cauri-reason");
  if (reason === undefined || !isReason(reason)) return null;
  const field = trailer(error.metadata, "cauri-field");
  const retry_after = trailer(error.metadata, "cauri-retry-after");
  return {
    refused: reason,
    message: error.details,
    ...(field === undefined ? {} : { field }),
    ...(retry_after === undefined ? {} : { retry_after_s: Number(retry_after) }),
  };
}

function isReason(word: string): word is Reason {
  return (REASONS as readonly string[]).includes(word);
}

function trailer(metadata: Metadata | undefined, name: string): string | undefined {
  const value = metadata?.get(name)[0];
  return typeof value === "string" ? value : undefined;
}
