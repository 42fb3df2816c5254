// The calling side: typed promises over the road to one service. A refusal comes back as a value, a fault is thrown as
// RpcFault, and a call made for a caller ends 200 ms before that caller's own deadline.

import { systemClock } from "@cauri/money/clock";
import type { Refusal } from "@cauri/money/refusal";
import { inSpan } from "@cauri/trace/span";
import { status } from "@grpc/grpc-js";
import type { Caller } from "./caller.ts";
import { RpcFault } from "./fault.ts";
import { openRoad, type Road, type RoadOptions } from "./road.ts";
import type { Definition, RequestOf, ResponseOf } from "./server.ts";

/** What each hop keeps of the deadline for its own answer. */
const KEPT_MS = 200;
/** A write's deadline, for a call that no request asked for (a sweeper's, a consumer's). */
const USUAL_MS = 8_000;
/** What every span of a call says, by the semantic conventions of OpenTelemetry. */
const RPC = { "rpc.system.name": "grpc" };
/** A call that has less than this left is not worth sending. */
const LEAST_MS = 10;

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
  /** Takes no call any more; what was asked is answered. */
  readonly closeChannel: () => void;
};

/** A ts-proto client class, of which only the service's definition is used. */
type ClientClass<D extends Definition> = { readonly service: D; readonly serviceName: string };

/** Opens a channel to one service. It connects at the first call and again after each loss. */
export function connectClient<D extends Definition>(of: ClientClass<D>, options: RoadOptions): Promisified<D> {
  const road = openRoad(options);
  const methods = Object.entries(of.service).map(([name, method]) => [name, promisify(road, method)]);
  return Object.fromEntries([...methods, ["closeChannel", () => road.close()]]) as Promisified<D>;
}

type Method = Definition[string] & { readonly requestSerialize?: (value: never) => Buffer };

function promisify(road: Road, { path, requestSerialize, responseDeserialize: decode }: Method) {
  const method = path.slice(1);
  const encode = requestSerialize as unknown as (value: unknown) => Buffer;
  return async (message: unknown, { caller, timeout_ms, operation }: CallOptions = {}) => {
    const left_ms =
      timeout_ms ?? (caller?.deadline_ms === undefined ? USUAL_MS : caller.deadline_ms - systemClock() - KEPT_MS);
    if (left_ms < LEAST_MS) throw new RpcFault(method, status.DEADLINE_EXCEEDED, undefined);
    const of = operation ?? caller?.operation;
    return inSpan(method, { kind: "client", operation: of, attributes: RPC }, async (span) => {
      const request = encode(message);
      const reply = await road.call({ method, request, decode, caller, operation, left_ms });
      if (reply.kind === "answer") return reply.answer;
      if (reply.kind === "fault") throw new RpcFault(method, reply.code, reply.cause);
      span?.setAttribute("cauri.refused", reply.refusal.refused);
      return reply.refusal;
    });
  };
}
