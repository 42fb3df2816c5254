// The outbox: an event is written in the transaction that made it true, once, and leaves after its commit. Ids commit out of
// order, so what is unsent is told by rows of its own, never by a cursor; what was sent, by one row for each round of the relay.
// Of one topic (an operation) the oldest unsent event alone is handed out, so that its news leave in order. The relay itself
// is in packages/events.

import type { Mode } from "@cauri/money/mode";
import { pgBytesArray, pgNumArray, pgTextArray } from "./arrays.ts";
import type { Pool, Queryable, Tx } from "./pool.ts";
import { rowsOf } from "./rows.ts";

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

/** A place among the rounds of the relay; the time as PostgreSQL writes it, for a `Date` would cut off its microseconds. */
export type SentPlace = { readonly sent_at: string; readonly round: bigint };

export type SentEvent = { readonly event_id: string; readonly seq: bigint };

/** What the relay sent in one round. */
export type SentRound = SentPlace & { readonly events: readonly SentEvent[] };

const wakers = new WeakMap<Pool, Set<() => void>>();

/** Appends events in their order and wakes the relay after the commit. An id that is there already is left alone. */
export async function appendEvents(tx: Tx, events: readonly OutboxEvent[]): Promise<void> {
  if (events.length === 0) return;
  tx.afterCommit(() => wakeOutbox(tx.pool));
  await tx.query(
    `with added as (
       insert into outbox (event_id, topic, subject, payload, account, mode)
       select e.event_id, e.topic, e.subject, e.payload, e.account, e.mode
         from ${rowsOf("event_id text, topic text, subject text, payload bytea, account text, mode text")} as e
        order by e.ord
       on conflict (event_id) do nothing
       returning seq)
     insert into outbox_unsent (seq) select seq from added`,
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
 * `more`: others were held back by these, or lie behind the limit. The `limit 1` leaves the planner no choice: it may never
 * walk through the outbox, which holds 48 hours, to find the few that are unsent.
 */
export async function unsentEvents(
  db: Queryable,
  limit: number,
): Promise<{ readonly events: UnsentEvent[]; readonly more: boolean }> {
  const { rows } = await db.query<UnsentEvent>(
    `select o.event_id, u.seq, o.topic, o.subject, o.payload, o.account
       from (select seq from outbox_unsent order by seq limit $1) u
      cross join lateral (select * from outbox where seq = u.seq limit 1) o
      order by u.seq`,
    [limit],
  );
  // Whatever of a topic is unsent and older stands before it here, so that no index by topic need be kept.
  const topics = new Set<string>();
  const events = rows.filter(({ topic }) => !topics.has(topic) && topics.add(topic));
  return { events, more: rows.length === limit || events.length < rows.length };
}

/**
 * Marks a round that JetStream has acknowledged, each event with its number in the stream. One that another relay has
 * marked meanwhile belongs to that one's round.
 */
export async function markSent(
  db: Queryable,
  sent: readonly { readonly seq: bigint; readonly stream_seq: bigint }[],
): Promise<void> {
  const [first] = sent;
  if (first === undefined) return;
  let lowest = first.stream_seq;
  for (const { stream_seq } of sent) if (stream_seq < lowest) lowest = stream_seq;
  await db.query(
    `with sent as (delete from outbox_unsent where seq = any ($1::bigint[]) returning seq)
     insert into outbox_rounds (seqs, stream_seq) select array_agg(seq), $2 from sent having count(seq) > 0`,
    [pgNumArray(sent.map(({ seq }) => seq)), lowest],
  );
}

/** Rounds behind a place, in the order in which they were sent: what the relay holds against the stream itself. */
export async function sentRounds(db: Queryable, behind: SentPlace, limit: number): Promise<SentRound[]> {
  const { rows } = await db.query<SentPlace & { seqs: bigint[]; event_ids: string[] }>(
    `select r.sent_at::text as sent_at, r.round, e.seqs, e.event_ids
       from (select * from outbox_rounds where (sent_at, round) > ($1::timestamptz, $2::bigint)
              order by sent_at, round limit $3) r
      cross join lateral (
        select coalesce(array_agg(s.seq), '{}') as seqs, coalesce(array_agg(o.event_id), '{}') as event_ids
          from unnest(r.seqs) as s (seq)
         cross join lateral (select event_id from outbox where seq = s.seq limit 1) o) e
      order by r.sent_at, r.round`,
    [behind.sent_at, behind.round, limit],
  );
  return rows.map(({ sent_at, round, seqs, event_ids }) => ({
    sent_at,
    round,
    events: seqs.map((seq, at) => ({ seq, event_id: event_ids[at] ?? "" })),
  }));
}

/** Makes events of rounds unsent again that the stream has lost (NATS acknowledges before its fsync); they leave as any other. */
export async function unsend(db: Queryable, lost: readonly SentRound[]): Promise<void> {
  const each = lost.flatMap(({ sent_at, round, events }) => events.map(({ seq }) => ({ sent_at, round, seq })));
  if (each.length === 0) return;
  await db.query(
    `with lost as materialized (
       select sent_at, round, array_agg(seq) as seqs
         from unnest($1::timestamptz[], $2::bigint[], $3::bigint[]) as l (sent_at, round, seq) group by sent_at, round),
     kept as (
       update outbox_rounds r set seqs = array(select seq from unnest(r.seqs) as s (seq) where seq <> all (lost.seqs))
         from lost where r.sent_at = lost.sent_at and r.round = lost.round
       returning lost.seqs)
     insert into outbox_unsent (seq) select unnest(seqs) from kept on conflict (seq) do nothing`,
    [
      pgTextArray(each.map(({ sent_at }) => sent_at)),
      pgNumArray(each.map(({ round }) => round)),
      pgNumArray(each.map(({ seq }) => seq)),
    ],
  );
}

/**
 * Makes unsent what was sent before an instant: the stream was made anew then. Returns how many rounds and events that
 * were, so that a loop goes on while there are more: 48 hours of a busy house in one statement would never end within
 * its time-out.
 */
export async function unsendBefore(
  db: Queryable,
  before: Date,
  limit: number,
): Promise<{ readonly rounds: number; readonly events: number }> {
  const { rows } = await db.query<{ rounds: number; events: number }>(
    `with gone as (
       delete from outbox_rounds where (sent_at, round) in
         (select sent_at, round from outbox_rounds where sent_at < $1 order by sent_at, round limit $2)
       returning seqs),
     again as (insert into outbox_unsent (seq) select unnest(seqs) from gone on conflict (seq) do nothing)
     select count(seqs)::integer as rounds, coalesce(sum(cardinality(seqs)), 0)::integer as events from gone`,
    [before, limit],
  );
  return rows[0] ?? { rounds: 0, events: 0 };
}

/**
 * The rounds that left within `window_ms` before the newest one: the place before the first of them, and where in the
 * stream they begin; null when none ever left.
 */
export async function recentlySent(
  db: Queryable,
  window_ms: number,
): Promise<{ readonly behind: SentPlace; readonly stream_seq: bigint } | null> {
  const { rows } = await db.query<{ since: string; first: bigint | null }>(
    `with newest as (select max(sent_at) - $1 * interval '1 millisecond' as since from outbox_rounds)
     select n.since::text as since, (select min(r.stream_seq) from outbox_rounds r where r.sent_at >= n.since) as first
       from newest n`,
    [window_ms],
  );
  const [found] = rows;
  if (found === undefined || found.first === null) return null;
  return { behind: { sent_at: found.since, round: -1n }, stream_seq: found.first };
}

/**
 * Deletes the rounds that were sent before an instant (48 hours ago), with their events; returns how many rounds that were,
 * so that a loop goes on while there are more.
 */
export async function purgeOutbox(db: Queryable, sent_before: Date, limit: number): Promise<number> {
  const { rows } = await db.query<{ rounds: number }>(
    `with old as materialized (
       select sent_at, round from outbox_rounds where sent_at < $1 order by sent_at, round limit $2 for update skip locked),
     gone as (
       delete from outbox_rounds r using old where r.sent_at = old.sent_at and r.round = old.round returning r.seqs),
     events as (delete from outbox where seq = any (array(select unnest(seqs) from gone)))
     select count(seqs)::integer as rounds from gone`,
    [sent_before, limit],
  );
  return rows[0]?.rounds ?? 0;
}

/**
 * How many events wait; with the age of the oldest it is the outbox lag. Reads no event but that one: millions may wait when
 * NATS was away for hours.
 */
export async function outboxLag(db: Queryable): Promise<{ waiting: number; oldest_ms: number }> {
  const { rows } = await db.query<{ waiting: number; oldest_ms: number }>(
    `select count(seq)::integer as waiting,
            coalesce((select extract(epoch from clock_timestamp() - o.created_at) * 1000 from outbox o
                       where o.seq = (select min(seq) from outbox_unsent)), 0)::float8 as oldest_ms
       from outbox_unsent`,
  );
  return rows[0] ?? { waiting: 0, oldest_ms: 0 };
}

/** Whether an event of this account waits. */
export async function hasUnsent(db: Queryable, account: string): Promise<boolean> {
  const { rows } = await db.query(
    `select from outbox_unsent u cross join lateral (select * from outbox where seq = u.seq limit 1) o
      where o.account = $1 limit 1`,
    [account],
  );
  return rows.length > 0;
}
