// The one stream of the house, and its consumers, as they must be on the server. Both are made anew whenever they are
// missing, because a NATS that lost its store must cost time and nothing else.

import { AckPolicy, DiscardPolicy, type JetStreamManager, RetentionPolicy, StorageType } from "@nats-io/jetstream";
import { nanos } from "@nats-io/transport-node";

export const STREAM = "CAURI";

const HOUR_MS = 3_600_000;
/** Outbox rows stay 48 h; the stream keeps a day more, so that a row there can always be held against it. */
export const STREAM_KEEPS_MS = 72 * HOUR_MS;
/**
 * A relay that repeats a publish does so within seconds; consumers know an event by its id anyway. The server keeps every id
 * of this window in its memory.
 */
const DUPLICATE_WINDOW_MS = 2 * 60_000;
/** Longer than any batch takes; a process that was killed with messages in its hands delays them by this. */
const ACK_WAIT_MS = 10_000;
/** What one consumer may hold unacknowledged: bounds a batch and the memory of a process. */
export const MAX_IN_FLIGHT = 500;
/** JetStream: stream name already in use with a different configuration. */
const DIFFERENT_CONFIGURATION = 10_058;
/** JetStream: consumer already exists, with a different configuration. */
const CONSUMER_EXISTS = 10_148;

/** `replicas` absent leaves the number of copies to whoever administers the stream. */
export async function ensureStream(jsm: JetStreamManager, replicas?: number): Promise<void> {
  const config = {
    name: STREAM,
    subjects: ["cauri.>"],
    storage: StorageType.File,
    retention: RetentionPolicy.Limits,
    discard: DiscardPolicy.Old,
    max_age: nanos(STREAM_KEEPS_MS),
    duplicate_window: nanos(DUPLICATE_WINDOW_MS),
    ...(replicas === undefined ? {} : { num_replicas: replicas }),
    allow_direct: true,
  };
  try {
    await jsm.streams.add(config);
  } catch (error) {
    if (!isApiError(error, DIFFERENT_CONFIGURATION)) throw error;
    await jsm.streams.update(STREAM, config);
  }
}

/** A durable consumer that every replica of a service shares. It begins with the oldest event that the stream has. */
export async function ensureConsumer(jsm: JetStreamManager, durable: string, subjects: readonly string[]) {
  const wanted = {
    durable_name: durable,
    ack_policy: AckPolicy.Explicit,
    ack_wait: nanos(ACK_WAIT_MS),
    max_ack_pending: MAX_IN_FLIGHT,
    max_deliver: -1,
    filter_subjects: [...subjects],
  };
  try {
    await jsm.consumers.add(STREAM, wanted);
  } catch (error) {
    if (!isApiError(error, CONSUMER_EXISTS)) throw error;
    // It stands with other subjects: a release before this one listened to fewer. Its place in the stream stays.
    await jsm.consumers.update(STREAM, durable, { filter_subjects: [...subjects] });
  }
}

function isApiError(error: unknown, code: number): boolean {
  return error instanceof Error && "code" in error && error.code === code;
}
