// Following the stream without being a consumer that anybody waits for: in order, from a place of one's own, with nothing
// kept on the server once it is closed. For what looks on; what must handle an event uses `consume`.

import { DeliverPolicy } from "@nats-io/jetstream";
import { type Delivered, delivered } from "./consume.ts";
import type { Events } from "./events.ts";
import { STREAM } from "./stream.ts";

/** What is fetched ahead of the reader: a slow one lets the rest lie in the stream. */
const MAX_AHEAD = 100;
/** A server that went silent is noticed after two of these. */
const HEARTBEAT_MS = 2_000;
const EXPIRES_MS = 10_000;

/** An event with its place in the stream. */
export type Passed = Delivered & {
  readonly seq: number;
  /** When the stream took it, in nanoseconds since 1970 by the server's clock. */
  readonly time_ns: bigint;
  /** Nothing of these subjects was behind it when it was given. */
  readonly is_last: boolean;
};

export type Tail = AsyncIterable<Passed> & {
  /** Nothing of these subjects was there when it was opened. */
  readonly is_empty: boolean;
  /** Ends the iteration. */
  close(): void;
};

/** Where to begin: behind a sequence number, or with what the stream took from an instant on. */
export type Place = { readonly after_seq: number } | { readonly since_ns: bigint };

export async function openTail(events: Events, subjects: readonly string[], place: Place): Promise<Tail> {
  await events.ensureStream();
  const consumer = await events.js.consumers.get(STREAM, {
    filter_subjects: [...subjects],
    ...("after_seq" in place
      ? { deliver_policy: DeliverPolicy.StartSequence, opt_start_seq: place.after_seq + 1 }
      : { deliver_policy: DeliverPolicy.StartTime, opt_start_time: rfc3339(place.since_ns) }),
  });
  const { num_pending } = await consumer.info(true);
  const messages = await consumer.consume({
    max_messages: MAX_AHEAD,
    expires: EXPIRES_MS,
    idle_heartbeat: HEARTBEAT_MS,
    abort_on_missing_resource: true,
  });
  return {
    is_empty: num_pending === 0,
    close: () => {
      // With the server away there is nobody to tell; it forgets what nobody reads by itself, only later.
      const told = async () => {
        await messages.close();
        await consumer.delete();
      };
      told().catch(() => {});
    },
    async *[Symbol.asyncIterator]() {
      for await (const message of messages) {
        const { seq, timestampNanos, info } = message;
        yield { ...delivered(message), seq, time_ns: timestampNanos, is_last: info.pending === 0 };
      }
    },
  };
}

/** The place behind everything that the stream has now; what it takes in this very moment may lie before or behind it. */
export async function endOfStream(events: Events): Promise<{ readonly seq: number; readonly time_ns: bigint }> {
  // The time is asked first: what arrives between the two questions is behind the time and so is never passed over.
  const { ts, state: before } = await events.jsm.streams.info(STREAM);
  const { state } = await events.jsm.streams.info(STREAM);
  return { seq: state.last_seq, time_ns: BigInt(Date.parse(ts ?? before.last_ts)) * 1_000_000n };
}

function rfc3339(time_ns: bigint): string {
  const seconds = new Date(Number(time_ns / 1_000_000_000n) * 1_000).toISOString().slice(0, 19);
  return `${seconds}.${String(time_ns % 1_000_000_000n).padStart(9, "0")}Z`;
}
