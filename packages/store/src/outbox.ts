// The outbox: an event is written in the transaction that made it true and leaves after its commit.
// Ids commit out of order, so what is unsent is found by `sent_at is null`, never by a cursor. Of one topic (an operation)
// the oldest unsent row alone is handed out, so that its news leave in order. The relay itself is in packages/events.

import type { Mode } from "@cauri/money/mode";
import { pgBytesArray, pgNumArray, pgTextArray } from "./arrays.ts";
import type { Pool, Queryable, Tx } from "./pool.ts";

export type OutboxEvent = {
  /** `evt_…`, also the `Nats-Msg-Id`; derive it from the cause, so that a step run twice appends once. */
  readonly id: string;
  /** What must leave in order: the operation's id. */
  readonly topic: string;
  /** `cauri.<room>.<noun>.<event>` */
  readonly subject: string;
  readonly payload: Uint8Array;
  /** Account and mode, so that a room can tell when one account has nothing left to send. */
  readonly account: string;
  readonly mode: Mode;
};

export type UnsentEvent = {
  readonly event_id: string;
  readonly seq: bigint;
  readonly topic: string;
  readonly subject: string;
  readonly payload: Buffer;
  readonly account: string;
};

export type SentEvent = UnsentEvent & { readonly stream_seq: bigint; readonly sent_at: string };

/** A place among what was sent; the time as PostgreSQL writes it, for a `Date` would cut off its microseconds. */
export type SentPlace = Pick<SentEvent, "sent_at" | "seq">;

const wakers = new WeakMap<Pool, Set<() => void>>();

/** Appends events in their order and wakes the relay after the commit. An id that is there already is left alone. */
export async function appendEvents(tx: Tx, events: readonly OutboxEvent[]): Promise<void> {
  if (events.length === 0) return;
  tx.afterCommit(() => wakeOutbox(tx.pool));
  await tx.query(
    `insert into outbox (event_id, topic, subject, payload, account, mode)
     select e.event_id, e.topic, e.subject, e.payload, e.account, e.mode
       from unnest($1::text[], $2::text[], $3::text[], $4::bytea[], $5::text[], $6::text[])
            with ordinality as e (event_id, topic, subject, payload, account, mode, ord)
      order by e.ord
     on conflict (event_id) do nothing`,
    [
      pgTextArray(events.map((event) => event.id)),
      pgTextArray(events.map((event) => event.topic)),
      pgTextArray(events.map((event) => event.subject)),
      pgBytesArray(events.map((event) => event.payload)),
      pgTextArray(events.map((event) => event.account)),
      pgTextArray(events.map((event) => event.mode)),
    ],
  );
}

/** Tells this process's relay that something may be unsent; `appendEvents` does it by itself after the commit. */
export function wakeOutbox(pool: Pool): void {
  for (const wake of wakers.get(pool) ?? []) wake();
}

/** Calls the relay back after each commit that appended; returns the way to stop it. */
export function onOutboxWake(pool: Pool, wake: () => void): () => void {
  const known = wakers.get(pool) ?? new Set();
  wakers.set(pool, known.add(wake));
  return () => void known.delete(wake);
}

/**
 * The oldest unsent event of each topic among the first `limit`, oldest first: all of these may be in flight together.
 * `more`: others were held back by these, or lie behind the limit.
 */
export async function unsentEvents(
  db: Queryable,
  limit: number,
): Promise<{ readonly events: UnsentEvent[]; readonly more: boolean }> {
  const { rows } = await db.query<UnsentEvent>(
    `select event_id, seq, topic, subject, payload, account
       from outbox where sent_at is null order by seq limit $1`,
    [limit],
  );
  // Whatever of a topic is unsent and older stands before it here, so that no index by topic need be kept.
  const topics = new Set<string>();
  const events = rows.filter(({ topic }) => !topics.has(topic) && topics.add(topic));
  return { events, more: rows.length === limit || events.length < rows.length };
}

/**
 * Marks what JetStream has acknowledged, each with its sequence number in the stream. That it is unsent is said in other
 * words than the index of what is unsent, which would be walked through as a whole: by its id alone it is found at once.
 */
export async function markSent(
  db: Queryable,
  sent: readonly { readonly event_id: string; readonly stream_seq: bigint }[],
): Promise<void> {
  if (sent.length === 0) return;
  await db.query(
    `update outbox o set sent_at = clock_timestamp(), stream_seq = s.stream_seq
       from unnest($1::text[], $2::bigint[]) as s (event_id, stream_seq)
      where o.event_id = s.event_id and coalesce(o.sent_at, 'infinity') = 'infinity'`,
    [pgTextArray(sent.map((row) => row.event_id)), pgNumArray(sent.map((row) => row.stream_seq))],
  );
}

/** Sent events behind a place, in the order in which they were sent: what the relay holds against the stream itself. */
export async function sentEvents(db: Queryable, behind: SentPlace, limit: number): Promise<SentEvent[]> {
  const { rows } = await db.query<SentEvent>(
    `select event_id, seq, topic, subject, payload, account, stream_seq, sent_at::text as sent_at
       from outbox where sent_at is not null and (sent_at, seq) > ($1::timestamptz, $2::bigint)
      order by outbox.sent_at, seq limit $3`,
    [behind.sent_at, behind.seq, limit],
  );
  return rows;
}

/** Makes events unsent again that the stream has lost (NATS acknowledges before its fsync); they leave as any other. */
export async function unsend(db: Queryable, event_ids: readonly string[]): Promise<void> {
  if (event_ids.length === 0) return;
  await db.query(
    `update outbox set sent_at = null, stream_seq = null where event_id = any($1::text[]) and sent_at is not null`,
    [pgTextArray(event_ids)],
  );
}

/**
 * Makes unsent what was sent before an instant: the stream was made anew then. Returns how many, so that a loop goes on
 * while there are more: 48 hours of a busy house in one statement would never end within its time-out.
 */
export async function unsendBefore(db: Queryable, before: Date, limit: number): Promise<number> {
  const { rowCount } = await db.query(
    `update outbox set sent_at = null, stream_seq = null where event_id in
       (select event_id from outbox where sent_at < $1 order by sent_at limit $2)`,
    [before, limit],
  );
  return rowCount ?? 0;
}

/**
 * The events that left within `window_ms` before the newest one: the place before the first of them, and where in the
 * stream they begin; null when none ever left.
 */
export async function recentlySent(
  db: Queryable,
  window_ms: number,
): Promise<{ readonly behind: SentPlace; readonly stream_seq: bigint } | null> {
  const { rows } = await db.query<{ since: string; first: bigint | null }>(
    `with newest as (select max(sent_at) - $1 * interval '1 millisecond' as since from outbox)
     select n.since::text as since, (select min(o.stream_seq) from outbox o where o.sent_at >= n.since) as first
       from newest n`,
    [window_ms],
  );
  const [found] = rows;
  if (found === undefined || found.first === null) return null;
  return { behind: { sent_at: found.since, seq: -1n }, stream_seq: found.first };
}

/** Deletes sent rows older than an instant (48 hours ago); returns how many, so that a loop goes on while there are more. */
export async function purgeOutbox(db: Queryable, sent_before: Date, limit = 5000): Promise<number> {
  const { rowCount } = await db.query(
    `delete from outbox where event_id in
       (select event_id from outbox where sent_at < $1 order by sent_at limit $2 for update skip locked)`,
    [sent_before, limit],
  );
  return rowCount ?? 0;
}

/** How many events wait, of one account or of all; with the age of the oldest it is the outbox lag. */
export async function outboxLag(db: Queryable, account?: string): Promise<{ waiting: number; oldest_ms: number }> {
  const { rows } = await db.query<{ waiting: number; oldest_ms: number }>(
    `select count(seq)::integer as waiting,
            coalesce(extract(epoch from clock_timestamp() - min(created_at)) * 1000, 0)::float8 as oldest_ms
       from outbox where sent_at is null and ($1::text is null or account = $1)`,
    [account ?? null],
  );
  return rows[0] ?? { waiting: 0, oldest_ms: 0 };
}
