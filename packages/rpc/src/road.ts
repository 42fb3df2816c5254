// The way to one service: a grpc-js channel, over which small unary calls share streams and large ones go by themselves.
// Every call ends in a value here; what is thrown is its maker's matter.

import { traceparent } from "@cauri/trace/span";
import { type ChannelOptions, Client, credentials, status } from "@grpc/grpc-js";
import type { Caller } from "./caller.ts";
import { SHARED_BYTES } from "./exchange-wire.ts";
import { observeCalled } from "./metrics.ts";
import { type Done, fault, type Outgoing, type Reply } from "./outgoing.ts";
import { SharedRoad } from "./shared-road.ts";
import { callUnary } from "./unary-road.ts";

export type { Reply } from "./outgoing.ts";

/** How every channel of the house connects. */
const CHANNEL: ChannelOptions = {
  "grpc.keepalive_time_ms": 20_000,
  "grpc.keepalive_timeout_ms": 5_000,
  // A service that was restarted must be found again within a moment, not after two minutes of back-off.
  "grpc.initial_reconnect_backoff_ms": 50,
  "grpc.min_reconnect_backoff_ms": 50,
  "grpc.max_reconnect_backoff_ms": 1_000,
  // Over the replicas of a headless Service; one address has one connection.
  "grpc.service_config": JSON.stringify({ loadBalancingConfig: [{ round_robin: {} }] }),
};

export type RoadOptions = {
  readonly address: string;
  readonly token: string;
  /** Every call by itself, as any other gRPC client makes it. */
  readonly unary?: boolean;
};

export type RoadCall<A> = {
  readonly method: string;
  readonly request: Buffer;
  readonly decode: (bytes: Buffer) => A;
  readonly caller: Partial<Caller> | undefined;
  readonly operation: string | undefined;
  readonly left_ms: number;
};

export type Road = {
  /** For streams, and to ask whether the channel stands. */
  readonly channel: Client;
  call<A>(call: RoadCall<A>): Promise<Reply<A>>;
  /** Takes no call any more; what was asked is answered. */
  close(): void;
};

/** It connects at the first call and again after each loss. */
export function openRoad({ address, token, unary = false }: RoadOptions): Road {
  const channel = new Client(address, credentials.createInsecure(), CHANNEL);
  const alone = (outgoing: Outgoing, done: Done) => callUnary(channel, token, outgoing, done);
  const shared = new SharedRoad(channel, token, (waiting) => {
    for (const { outgoing, done } of waiting) alone(outgoing, done);
  });
  let closed = false;
  const send = (outgoing: Outgoing, done: Done) => {
    if (closed) return done(fault(status.UNAVAILABLE, "the channel is closed"));
    const line = unary || outgoing.request.length > SHARED_BYTES ? null : shared.line();
    return line === null ? alone(outgoing, done) : line.take(outgoing, done);
  };
  return {
    channel,
    call: (call) => callOver(send, call),
    close: () => {
      closed = true;
      shared.close();
      channel.close();
    },
  };
}

function callOver<A>(send: (outgoing: Outgoing, done: Done) => void, call: RoadCall<A>): Promise<Reply<A>> {
  const { method, request, decode, caller, operation, left_ms } = call;
  const begun = performance.now();
  return new Promise((resolve) => {
    const settle = (reply: Reply<A>) => {
      observeCalled(method, outcomeOf(reply), (performance.now() - begun) / 1000);
      resolve(reply);
    };
    if (!(left_ms > 0)) {
      settle(fault(status.DEADLINE_EXCEEDED, "no time was left for the call"));
      return;
    }
    send({ method, request, caller, operation, traceparent: traceparent(), ends: begun + left_ms }, (reply) =>
      settle(reply.kind === "answer" ? decoded(reply, decode) : reply),
    );
  });
}

function decoded<A>(reply: Reply<Buffer> & { kind: "answer" }, decode: (bytes: Buffer) => A): Reply<A> {
  try {
    return { kind: "answer", answer: decode(reply.answer), outcome: reply.outcome };
  } catch (cause) {
    return { kind: "fault", code: status.INTERNAL, cause };
  }
}

function outcomeOf(reply: Reply<unknown>): string {
  if (reply.kind === "answer") return "ok";
  return reply.kind === "refusal" ? reply.refusal.refused : (status[reply.code] ?? String(reply.code));
}
