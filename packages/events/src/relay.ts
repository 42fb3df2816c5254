// From the outbox to JetStream. One relay per service publishes at a time; it is woken after each commit of this
// process and looks every 50 ms for those of other replicas. Nothing is marked as sent before its acknowledgement.

import { setTimeout as sleep } from "node:timers/promises";
import { systemClock } from "@cauri/money/clock";
import type { Log } from "@cauri/rpc/log";
import { gauge, observeBatch } from "@cauri/rpc/metrics";
import { purgeInbox } from "@cauri/store/inbox";
import {
  hasUnsent,
  markSent,
  onOutboxWake,
  outboxLag,
  purgeOutbox,
  type UnsentEvent,
  unsentEvents,
} from "@cauri/store/outbox";
import { type Pool, preparing, type Queryable } from "@cauri/store/pool";
import { startLoop } from "@cauri/store/sweeper";
import {
  beginSpan,
  failSpan,
  operationTraceparent,
  type Span,
  traceparent,
  tracing,
  withSpan,
} from "@cauri/trace/span";
import type { Events } from "./events.ts";
import type { Message } from "./publish.ts";
import { reconcile } from "./reconcile.ts";
import { STREAM, STREAM_KEEPS_MS } from "./stream.ts";

/** What its spans say, by the semantic conventions of OpenTelemetry. */
const NATS = { "messaging.system": "nats", "messaging.operation.type": "send" };
const EVERY_MS = 50;
/** One round: their acknowledgements are awaited together, and one row tells that they were sent. */
const BATCH = 500;
/** From round to round at least so long: what comes meanwhile shares the next one's statements and commit. */
const PACE_MS = 20;
/** After a round of so many, so long: where events come fast, most of a round's price is its own and not theirs. */
const MANY = 10;
const MANY_PACE_MS = 50;
/** A replica that is not the relay asks this often whether it may become it. */
const CANDIDATE_MS = 1_000;

const HOUR_MS = 3_600_000;
const OUTBOX_KEEPS_MS = 48 * HOUR_MS;
/** Longer than the stream plus what the outbox may bring back to it: an event is known for as long as it can come again. */
const INBOX_KEEPS_MS = STREAM_KEEPS_MS + OUTBOX_KEEPS_MS;
const HOUSEKEEPING_MS = 60_000;
const PURGE_BATCH = 5_000;
/** Of 500 events each at most. */
const PURGE_ROUNDS = 100;
const LAG_MS = 5_000;

/** W3C trace context of the publication, only where the event belongs to an operation's trace. */
export const TRACE_HEADER = "traceparent";

/** JetStream's own: by the id it drops a repeat, and another stream than the named one does not take the message. */
const ID_HEADER = "Nats-Msg-Id";
const STREAM_HEADER = "Nats-Expected-Stream";

/** The header that tells consumers whose event it is, without decoding it. */
export const ACCOUNT_HEADER = "Cauri-Account";

export type Relay = {
  wake(): void;
  /** Nothing of this account waits to be published. */
  idle(account: string): Promise<boolean>;
  /** How many events of this account left here since the last question: what a loop did before `Drain` came to it. */
  takeSent(account: string): number;
  stop(): Promise<void>;
};

/** The connection that holds the advisory lock; as long as it stands, this process alone relays for its service. */
type Leadership = {
  readonly client: { release(destroy?: boolean): void };
  readonly db: Queryable;
  lost: boolean;
};

export function startRelay({ events, pool, log }: { events: Events; pool: Pool; log: Log }): Relay {
  let leader: Leadership | null = null;
  let reconciled = 0;
  let asked_at = 0;
  let published_at = Number.NEGATIVE_INFINITY;
  let pace_ms = PACE_MS;
  const sent = new Map<string, number>();

  const round = async (): Promise<boolean> => {
    if (!events.connected()) return false;
    if (leader === null) {
      if (performance.now() - asked_at < CANDIDATE_MS && asked_at > 0) return false;
      asked_at = performance.now();
      leader = await lead(pool, events.room);
      if (leader === null) return false;
      log.info("this process relays the outbox");
      reconciled = 0;
    }
    try {
      return await relay(leader.db);
    } catch (error) {
      if (leader.lost) {
        leader.client.release(true);
        leader = null;
      }
      throw error;
    }
  };

  const relay = async (db: Queryable): Promise<boolean> => {
    const epoch = events.epoch();
    if (reconciled !== epoch) {
      await reconcile(events, db);
      reconciled = epoch;
    }
    const early_ms = pace_ms - (performance.now() - published_at);
    if (early_ms > 0) await sleep(early_ms);
    const { events: unsent, more } = await unsentEvents(db, BATCH);
    if (unsent.length === 0) return false;
    published_at = performance.now();
    pace_ms = paceAfter(unsent.length);
    observeBatch("relay", unsent.length);
    for (const { account } of unsent) sent.set(account, (sent.get(account) ?? 0) + 1);
    await publishAll(events, db, unsent);
    // What was committed here meanwhile has woken the loop; a look at nothing would cost as much as one at a hundred.
    return more;
  };

  const loop = startLoop({ name: "relay", every_ms: EVERY_MS, work: round, log });
  const lag = startLoop({ name: "outbox lag", every_ms: LAG_MS, work: () => measure(pool), log });
  const keeping = startLoop({ name: "outbox purge", every_ms: HOUSEKEEPING_MS, work: () => purge(pool), log });
  const forget = onOutboxWake(pool, () => loop.wake());
  const forgetReconnect = events.onReconnect(() => loop.wake());
  return {
    wake: () => loop.wake(),
    takeSent: (account) => {
      const count = sent.get(account) ?? 0;
      sent.delete(account);
      return count;
    },
    idle: async (account) => !(await hasUnsent(pool, account)),
    stop: async () => {
      forget();
      forgetReconnect();
      await Promise.all([loop.stop(), lag.stop(), keeping.stop()]);
      // Closing the connection gives the lock to another replica at once.
      leader?.client.release(true);
      leader = null;
    },
  };
}

/** How long after the beginning of a round of this size the next one may begin; behind a large one there is a backlog. */
function paceAfter(size: number): number {
  if (size > BATCH / 2) return 0;
  return size < MANY ? PACE_MS : MANY_PACE_MS;
}

/** Publishes a round at once and marks what was acknowledged, also when some of it was not. */
async function publishAll(events: Events, db: Queryable, unsent: readonly UnsentEvent[]): Promise<void> {
  const spans = unsent.map(spanOf);
  const messages = unsent.map((event, at) => withSpan(spans[at] ?? null, () => messageOf(event)));
  const taken = await events.publishAll(messages);
  for (const [at, span] of spans.entries()) {
    if (taken[at] instanceof Error && span !== null) failSpan(span, taken[at]);
    span?.end();
  }
  const sent = unsent.flatMap(({ seq }, at) => {
    const stream_seq = taken[at];
    return typeof stream_seq === "number" ? [{ seq, stream_seq: BigInt(stream_seq) }] : [];
  });
  await markSent(db, sent);
  const cause = taken.find((one) => one instanceof Error);
  if (cause === undefined) return;
  // The stream may be gone with the server's store; the round after the back-off finds it made anew.
  await events.ensureStream().catch(() => {});
  throw new Error(`${unsent.length - sent.length} of ${unsent.length} events were not taken by the stream`, { cause });
}

/** In the trace of its operation; what belongs to none (a changed key, terms) begins none. */
function spanOf(event: UnsentEvent): Span | null {
  if (!tracing()) return null;
  const parent = operationTraceparent(event.topic);
  return beginSpan(`publish ${event.subject}`, { kind: "producer", parent, within: true, attributes: NATS });
}

function messageOf(event: UnsentEvent): Message {
  const carried: [string, string][] = [
    [ID_HEADER, event.event_id],
    [STREAM_HEADER, STREAM],
    [ACCOUNT_HEADER, event.account],
  ];
  const trace = traceparent();
  if (trace !== undefined) carried.push([TRACE_HEADER, trace]);
  return { subject: event.subject, payload: event.payload, headers: carried };
}

/** The lock is held by the session, not by a transaction: it lasts until the connection ends, however it ends. */
async function lead(pool: Pool, room: string): Promise<Leadership | null> {
  const client = await pool.connect();
  try {
    const { rows } = await client.query<{ mine: boolean }>(
      "select pg_try_advisory_lock(hashtextextended('cauri relay ' || $1, 0)) as mine",
      [room],
    );
    if (rows[0]?.mine !== true) {
      client.release();
      return null;
    }
    // Between two vacuums the table of what is unsent is full of dead rows; only a plain index scan learns to skip them.
    await client.query("set enable_bitmapscan = off");
    await client.query("set enable_seqscan = off");
    await client.query("set enable_hashjoin = off");
    await client.query("set enable_mergejoin = off");
    const leadership: Leadership = { client, db: preparing(client), lost: false };
    const lose = () => {
      leadership.lost = true;
    };
    client.on("error", lose);
    client.on("end", lose);
    return leadership;
  } catch (error) {
    client.release(true);
    throw error;
  }
}

async function measure(pool: Pool): Promise<void> {
  const { waiting, oldest_ms } = await outboxLag(pool);
  gauge("cauri_outbox_waiting", "Events that wait to be published.").set(waiting);
  gauge("cauri_outbox_oldest_seconds", "Age of the oldest event that waits to be published.").set(oldest_ms / 1000);
}

async function purge(pool: Pool): Promise<boolean> {
  const now = systemClock();
  const rounds = await purgeOutbox(pool, new Date(now - OUTBOX_KEEPS_MS), PURGE_ROUNDS);
  const inbox = await purgeInbox(pool, new Date(now - INBOX_KEEPS_MS), PURGE_BATCH);
  return rounds === PURGE_ROUNDS || inbox === PURGE_BATCH;
}
