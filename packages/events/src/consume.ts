// A durable consumer: batches in the order of the stream, acknowledged after the handler has committed, given back with
// a growing pause when it failed. It survives restarts of NATS, also one that comes back with an empty store.

import { setImmediate as nextTurn, setTimeout as sleep } from "node:timers/promises";
import type { Log } from "@cauri/rpc/log";
import { gauge, observeBatch } from "@cauri/rpc/metrics";
import { isUnavailable } from "@cauri/store/pool";
import { beginSpan, failSpan, outsideSpans, tracing, withSpan } from "@cauri/trace/span";
import { type ConsumerMessages, isPullConsumer, type JsMsg } from "@nats-io/jetstream";
import type { Events } from "./events.ts";
import { ACCOUNT_HEADER, TRACE_HEADER } from "./relay.ts";
import { ensureConsumer, MAX_IN_FLIGHT, STREAM } from "./stream.ts";

/** One transaction's worth. */
const MAX_BATCH = 100;
/** The first pause of what failed; it doubles with each delivery. */
const NAK_MS = 200;
const NAK_LIMIT_MS = 30_000;
/** The longest pause while a server is away, not the event wrong: 5 s after its return everything is as it was. */
const AWAY_LIMIT_MS = 2_000;
/** A server that went silent is noticed after two of these. */
const HEARTBEAT_MS = 2_000;
const EXPIRES_MS = 10_000;
const RETRY_MS = 250;
/** What its spans say, by the semantic conventions of OpenTelemetry. */
const NATS = { "messaging.system": "nats", "messaging.operation.type": "process" };
const LAG_MS = 5_000;

export type Delivered = {
  readonly subject: string;
  /** The event's id, `evt_…`: the same event may come more than once. */
  readonly event_id: string;
  readonly payload: Uint8Array;
  /** Account of the event; empty when it concerns no single one. */
  readonly account: string;
  readonly redelivered: boolean;
};

export type ConsumeOptions = {
  readonly events: Events;
  /** Name on the server, `<room>-<purpose>`; every replica of the room shares it. */
  readonly durable: string;
  readonly subjects: readonly string[];
  /** Applies a batch; an event counts as handled when this resolves. It must bear to see an event again. */
  readonly handle: (batch: Delivered[]) => Promise<void>;
  readonly log: Log;
  readonly max_batch?: number;
  /** From batch to batch at least so long: what comes meanwhile shares the next one. One that comes alone waits for nobody. */
  readonly pace_ms?: number;
};

export type Consumer = {
  /** How many events of this account were handled here since the last question; `Drain` counts them as done. */
  takeHandled(account: string): number;
  /** Whether everything up to a sequence number of the stream is handled. */
  caughtUp(stream_seq: number): Promise<boolean>;
  /** Ends after the batch under way; what else was fetched is given back at once. */
  stop(): Promise<void>;
};

export function consume(options: ConsumeOptions): Consumer {
  const { events, durable, log } = options;
  const handled = new Map<string, number>();
  const queue: JsMsg[] = [];
  let stopped = false;
  let open: ConsumerMessages | null = null;
  let pumping = Promise.resolve();
  let pumpRuns = false;
  let began_at = Number.NEGATIVE_INFINITY;

  /** Handles what has arrived, one batch after another, so that the order of the stream is kept. */
  const pump = async () => {
    // All that came by one read of the socket shares the first batch.
    await nextTurn();
    while (queue.length > 0 && !stopped) {
      const early_ms = (options.pace_ms ?? 0) - (performance.now() - began_at);
      if (early_ms > 0) await sleep(early_ms);
      if (stopped) break;
      began_at = performance.now();
      const batch = queue.splice(0, options.max_batch ?? MAX_BATCH);
      observeBatch(durable, batch.length);
      for (const message of await handleBatch(options, batch)) {
        const account = accountOf(message);
        handled.set(account, (handled.get(account) ?? 0) + 1);
      }
    }
    pumpRuns = false;
  };
  const arrived = (message: JsMsg) => {
    queue.push(message);
    if (pumpRuns) return;
    pumpRuns = true;
    pumping = pump();
  };

  const listen = async () => {
    for (let failures = 0; !stopped; ) {
      try {
        open = await subscribe(events, durable, options.subjects);
        failures = 0;
        if (stopped) break;
        for await (const message of open) arrived(message);
      } catch (error) {
        failures += 1;
        log.warn({ err: error, consumer: durable }, "the consumer is opened anew");
      }
      if (!stopped) await sleep(Math.min(RETRY_MS * 2 ** failures, AWAY_LIMIT_MS));
    }
  };
  const listening = listen();
  // Whatever the server kept of the running request is gone with the connection, the consumer itself perhaps too.
  const forget = events.onReconnect(() => void open?.close());
  const lag = setInterval(() => void measure(events, durable).catch(() => {}), LAG_MS).unref();

  return {
    takeHandled: (account) => {
      const count = handled.get(account) ?? 0;
      handled.delete(account);
      return count;
    },
    caughtUp: async (stream_seq) => {
      const info = await events.jsm.consumers.info(STREAM, durable);
      return (info.num_pending === 0 && info.num_ack_pending === 0) || info.ack_floor.stream_seq >= stream_seq;
    },
    stop: async () => {
      stopped = true;
      clearInterval(lag);
      forget();
      await open?.close();
      await pumping;
      for (const message of queue.splice(0)) message.nak();
      await listening;
    },
  };
}

async function subscribe(events: Events, durable: string, subjects: readonly string[]): Promise<ConsumerMessages> {
  await events.ensureStream();
  await ensureConsumer(events.jsm, durable, subjects);
  const consumer = await events.js.consumers.get(STREAM, durable);
  if (!isPullConsumer(consumer)) throw new Error(`the consumer ${durable} is not a pull consumer`);
  return consumer.consume({
    max_messages: MAX_IN_FLIGHT,
    expires: EXPIRES_MS,
    idle_heartbeat: HEARTBEAT_MS,
    abort_on_missing_resource: true,
  });
}

/** Handles a batch and returns what was handled. One event that cannot be applied must not stop its neighbours. */
async function handleBatch(options: ConsumeOptions, batch: readonly JsMsg[]): Promise<readonly JsMsg[]> {
  try {
    await traced(batch, () => options.handle(batch.map(delivered)));
    for (const message of batch) message.ack();
    return batch;
  } catch (error) {
    const alone = batch.length === 1;
    const away = isUnavailable(error);
    const about = { err: error, consumer: options.durable, events: batch.map(idOf).slice(0, 5) };
    options.log.error(about, "events could not be handled and come again");
    // With the database away each of them would fail alike: all wait together.
    if (alone || away) {
      const pauses = batch.map((message) => pauseOf(message, away ? AWAY_LIMIT_MS : NAK_LIMIT_MS));
      for (const [index, message] of batch.entries()) message.nak(pauses[index]);
      // The messages behind these would overtake them for nothing while the cause lasts.
      if (away) await sleep(Math.max(...pauses));
      return [];
    }
    const handled: JsMsg[] = [];
    for (const message of batch) handled.push(...(await handleBatch(options, [message])));
    return handled;
  }
}

/**
 * A span per event of the batch, in the trace that its header names. Only a batch of one runs inside its span: what is
 * done for many at once belongs to no single trace, and the calls made for each find theirs by their operation.
 */
async function traced(batch: readonly JsMsg[], work: () => Promise<void>): Promise<void> {
  if (!tracing()) return work();
  const spans = batch.flatMap((message) => {
    const parent = message.headers?.get(TRACE_HEADER);
    const options = { kind: "consumer", parent, within: true, attributes: NATS } as const;
    return beginSpan(`process ${message.subject}`, options) ?? [];
  });
  const [only = null] = spans;
  try {
    await (batch.length === 1 ? withSpan(only, work) : outsideSpans(work));
  } catch (error) {
    for (const span of spans) failSpan(span, error);
    throw error;
  } finally {
    for (const span of spans) span.end();
  }
}

function pauseOf(message: JsMsg, limit_ms: number): number {
  return Math.min(NAK_MS * 2 ** Math.min(message.info.deliveryCount - 1, 10), limit_ms);
}

export function delivered(message: JsMsg): Delivered {
  return {
    subject: message.subject,
    event_id: idOf(message),
    payload: message.data,
    account: accountOf(message),
    redelivered: message.redelivered,
  };
}

function idOf(message: JsMsg): string {
  return message.headers?.get("Nats-Msg-Id") ?? "";
}

function accountOf(message: JsMsg): string {
  return message.headers?.get(ACCOUNT_HEADER) ?? "";
}

async function measure(events: Events, durable: string): Promise<void> {
  if (!events.connected()) return;
  const info = await events.jsm.consumers.info(STREAM, durable);
  gauge("cauri_consumer_pending", "Events that a consumer has not been given yet.", ["consumer"]).set(
    { consumer: durable },
    info.num_pending,
  );
  gauge("cauri_consumer_unacknowledged", "Events that a consumer was given and has not finished.", ["consumer"]).set(
    { consumer: durable },
    info.num_ack_pending,
  );
}
