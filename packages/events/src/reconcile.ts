// What the stream has lost is published again. NATS acknowledges a message before its fsync, so a power cut may take
// the newest minutes of the stream, and a lost disk all of it; the rounds of the relay of 48 h are held against the stream
// after each reconnect.

import { randomUUID } from "node:crypto";
import { recentlySent, type SentPlace, sentRounds, unsend, unsendBefore } from "@cauri/store/outbox";
import type { Queryable } from "@cauri/store/pool";
import { AckPolicy, DeliverPolicy } from "@nats-io/jetstream";
import { nanos } from "@nats-io/transport-node";
import type { Events } from "./events.ts";
import { STREAM } from "./stream.ts";

/** NATS syncs its files every two minutes by default; what left longer before the newest event is on the disk. */
const UNSYNCED_MS = 10 * 60_000;
/** Rounds of the relay at once, of which each has 500 events at most. */
const PAGE = 100;
const FETCH = 1_000;
const FETCH_MS = 5_000;

/** Makes every event unsent again that the stream should have and has not; returns how many. */
export async function reconcile(events: Events, db: Queryable): Promise<number> {
  await events.ensureStream();
  const { created } = await events.jsm.streams.info(STREAM);
  // A stream that is younger than an event can't have it: NATS came back with an empty store.
  let lost = 0;
  for (let rounds = PAGE; rounds === PAGE; ) {
    const some = await unsendBefore(db, new Date(created), PAGE);
    rounds = some.rounds;
    lost += some.events;
  }
  const recent = await recentlySent(db, UNSYNCED_MS);
  if (recent !== null) lost += await unsendMissing(events, db, recent);
  if (lost > 0) events.log.warn({ lost }, "the stream has lost events: they are published again");
  return lost;
}

/** Holds the rounds behind a place against what the stream has from its first number on. */
async function unsendMissing(
  events: Events,
  db: Queryable,
  { behind, stream_seq }: { readonly behind: SentPlace; readonly stream_seq: bigint },
): Promise<number> {
  const there = await idsInStream(events, stream_seq);
  let lost = 0;
  for (let at = behind; ; ) {
    const page = await sentRounds(db, at, PAGE);
    const missing = page.map((round) => ({
      ...round,
      events: round.events.filter((event) => !there.has(event.event_id)),
    }));
    await unsend(db, missing);
    lost += missing.reduce((sum, { events: some }) => sum + some.length, 0);
    const last = page.at(-1);
    if (page.length < PAGE || last === undefined) return lost;
    at = last;
  }
}

/** The ids of this room's events in the stream from a sequence number on; their bodies stay where they are. */
async function idsInStream({ js, jsm, room }: Events, from: bigint): Promise<Set<string>> {
  const ids = new Set<string>();
  const name = `reconcile-${room}-${randomUUID()}`;
  const { num_pending } = await jsm.consumers.add(STREAM, {
    name,
    ack_policy: AckPolicy.None,
    deliver_policy: DeliverPolicy.StartSequence,
    opt_start_seq: Number(from),
    filter_subject: `cauri.${room}.>`,
    headers_only: true,
    mem_storage: true,
    num_replicas: 1,
    inactive_threshold: nanos(30_000),
  });
  const consumer = await js.consumers.get(STREAM, name);
  let seen = 0;
  while (seen < num_pending) {
    const before = seen;
    const messages = await consumer.fetch({ max_messages: Math.min(FETCH, num_pending - seen), expires: FETCH_MS });
    for await (const message of messages) {
      seen += 1;
      const id = message.headers?.get("Nats-Msg-Id");
      if (id !== undefined) ids.add(id);
    }
    if (seen === before) throw new Error("the stream stopped answering while it was compared with the outbox");
  }
  await consumer.delete();
  return ids;
}
