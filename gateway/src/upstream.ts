// The services behind the edge: one road to each room, as between the rooms themselves, and any RPC over it by its
// descriptor. Unary calls share its streams; a server stream goes over its channel by itself.

import {
  type DescMessage,
  type DescMethod,
  type DescMethodServerStreaming,
  type DescMethodUnary,
  fromBinary,
  type MessageShape,
  toBinary,
} from "@bufbuild/protobuf";
import { type Caller, writeMetadata } from "@cauri/rpc/caller";
import { viewOf } from "@cauri/rpc/exchange-wire";
import { observeCalled } from "@cauri/rpc/metrics";
import { meaningOf } from "@cauri/rpc/reasons";
import { openRoad, type Road } from "@cauri/rpc/road";
import { refusalOf } from "@cauri/rpc/unary-road";
import { inSpan } from "@cauri/trace/span";
import { type Client, type Metadata, type ServiceError, status } from "@grpc/grpc-js";
import type { EdgeRefusal } from "./reasons.ts";

/** What every span of a call says, by the semantic conventions of OpenTelemetry. */
const RPC = { "rpc.system.name": "grpc" };

export type UpstreamCall = {
  readonly caller?: Partial<Caller>;
  readonly operation?: string;
  readonly timeout_ms: number;
};

export type UpstreamAnswer<O extends DescMessage> = {
  readonly message: MessageShape<O>;
  readonly outcome: string | undefined;
};

/** What a service answered instead: a refusal where it gave a reason, else a fault. */
export class UpstreamError extends Error {
  readonly code: number;
  readonly refusal: EdgeRefusal | null;
  constructor(method: string, code: number, refusal: EdgeRefusal | null, cause: unknown) {
    super(`${method}: ${refusal?.refused ?? status[code] ?? code}`, { cause });
    this.code = code;
    this.refusal = refusal;
  }

  /** Nothing is known to be wrong but the moment: told as 503. */
  get unavailable(): boolean {
    return PASSING.includes(this.code);
  }
}

const PASSING: readonly number[] = [status.UNAVAILABLE, status.DEADLINE_EXCEEDED, status.RESOURCE_EXHAUSTED];

export type Upstreams = {
  call<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>,
    message: MessageShape<I>,
    call: UpstreamCall,
  ): Promise<UpstreamAnswer<O>>;
  /** The answers of a server stream, at the pace at which they are taken; `signal` ends it. An error ends it too. */
  stream<I extends DescMessage, O extends DescMessage>(
    method: DescMethodServerStreaming<I, O>,
    message: MessageShape<I>,
    caller: Partial<Caller>,
    signal: AbortSignal,
  ): AsyncIterable<MessageShape<O>>;
  readonly rooms: readonly string[];
  /** Null when the room's channel stands within that time, else a sentence. */
  probe(room: string, patience_ms: number): Promise<string | null>;
  close(): void;
};

export function connectUpstreams(addresses: ReadonlyMap<string, string>, token: string): Upstreams {
  const roads = new Map([...addresses].map(([room, address]) => [room, openRoad({ address, token })]));
  const roadTo = (method: DescMethod) => {
    const road = roads.get(roomOf(method));
    if (road === undefined) throw new Error(`${method.parent.typeName}: its room has no address`);
    return road;
  };
  return {
    rooms: [...roads.keys()],
    call: (method, message, call) => callUnary(roadTo(method), method, message, call),
    stream: (method, message, caller, signal) =>
      callStream(roadTo(method).channel, method, message, writeMetadata(token, caller), signal),
    probe: (room, patience_ms) =>
      new Promise((resolve) => {
        const channel = roads.get(room)?.channel;
        channel?.waitForReady(Date.now() + patience_ms, (error) => resolve(error ? "cannot be reached" : null));
      }),
    close: () => {
      for (const road of roads.values()) road.close();
    },
  };
}

/** Every room that a route leads to, and those that the edge itself asks, with its CAURI_<ROOM>_ADDRESS. */
export function roomAddresses(routes: readonly { room: string }[], settings: object): Map<string, string> {
  const rooms = new Set(["accounts", "rails", ...routes.map(({ room }) => room)]);
  return new Map(
    [...rooms].map((room) => {
      const name = `CAURI_${room.toUpperCase()}_ADDRESS`;
      const address = (settings as Record<string, unknown>)[name];
      if (typeof address !== "string" || address === "") throw new Error(`${name} is not set, but routes lead there`);
      return [room, address];
    }),
  );
}

/** `cauri.collections.v1.PaymentService` is answered by collections. */
export function roomOf(method: { readonly parent: { readonly typeName: string } }): string {
  return method.parent.typeName.split(".")[1] ?? "";
}

async function callUnary<I extends DescMessage, O extends DescMessage>(
  road: Road,
  method: DescMethodUnary<I, O>,
  message: MessageShape<I>,
  { caller, operation, timeout_ms }: UpstreamCall,
): Promise<UpstreamAnswer<O>> {
  const name = `${method.parent.typeName}/${method.name}`;
  const send = () =>
    road.call({
      method: name,
      request: encode(method.input, message),
      decode: (bytes) => fromBinary(method.output, bytes),
      caller,
      operation,
      left_ms: timeout_ms,
    });
  // A refusal is an answer: it does not mark the span as failed.
  const reply = await inSpan(name, { kind: "client", attributes: RPC }, async (span) => {
    const heard = await send();
    if (heard.kind === "fault") throw new UpstreamError(name, heard.code, null, heard.cause);
    if (heard.kind === "refusal") span?.setAttribute("cauri.refused", heard.refusal.refused);
    return heard;
  });
  if (reply.kind === "refusal") {
    throw new UpstreamError(name, meaningOf(reply.refusal.refused).grpc, reply.refusal, undefined);
  }
  return { message: reply.answer, outcome: reply.outcome };
}

async function* callStream<I extends DescMessage, O extends DescMessage>(
  channel: Client,
  method: DescMethodServerStreaming<I, O>,
  message: MessageShape<I>,
  metadata: Metadata,
  signal: AbortSignal,
): AsyncGenerator<MessageShape<O>> {
  const name = `${method.parent.typeName}/${method.name}`;
  const begun = performance.now();
  const call = channel.makeServerStreamRequest<MessageShape<I>, MessageShape<O>>(
    `/${name}`,
    (value) => encode(method.input, value),
    (bytes) => fromBinary(method.output, bytes),
    message,
    metadata,
  );
  // The iteration below tells an error; this is for the one that comes when nobody iterates any more.
  call.on("error", () => {});
  const cancel = () => call.cancel();
  signal.addEventListener("abort", cancel, { once: true });
  if (signal.aborted) cancel();
  let outcome = status[status.CANCELLED];
  try {
    yield* call as AsyncIterable<MessageShape<O>>;
    outcome = "ok";
  } catch (error) {
    const { code, metadata: trailers, details } = error as ServiceError;
    const refusal = refusalOf(trailers, details);
    outcome = refusal?.refused ?? status[code] ?? String(code);
    throw new UpstreamError(name, code, refusal, error);
  } finally {
    signal.removeEventListener("abort", cancel);
    cancel();
    observeCalled(name, outcome, (performance.now() - begun) / 1000);
  }
}

function encode<I extends DescMessage>(input: I, value: MessageShape<I>): Buffer {
  // A typed client's newer fields have not met the validator: they go no further.
  return viewOf(toBinary(input, value, { writeUnknownFields: false }));
}
