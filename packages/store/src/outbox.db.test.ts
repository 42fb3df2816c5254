import assert from "node:assert/strict";
import { after, before, beforeEach, test } from "node:test";
import { firstSeen, purgeInbox } from "./inbox.ts";
import {
  appendEvents,
  markSent,
  type OutboxEvent,
  onOutboxWake,
  outboxLag,
  purgeOutbox,
  recentlySent,
  sentEvents,
  unsend,
  unsendBefore,
  unsentEvents,
} from "./outbox.ts";
import { transact } from "./pool.ts";
import { type TestDatabase, testDatabase } from "./testing.ts";

let db: TestDatabase;

before(async () => {
  db = await testDatabase("store", []);
});
beforeEach(() => db.pool.query("delete from outbox"));
after(() => db.close());

function event(id: string, topic: string, account = "acct_1"): OutboxEvent {
  const subject = "cauri.collections.payment.success";
  return { id, topic, subject, payload: Uint8Array.of(0, 255, 7), account, mode: "live" };
}

const EARLIEST = { sent_at: "-infinity", seq: -1n };
const append = (...events: OutboxEvent[]) => transact(db.pool, (tx) => appendEvents(tx, events));
const unsent = async () => (await unsentEvents(db.pool, 100)).events.map((row) => row.event_id);
const sent = (event_id: string, stream_seq: bigint) => markSent(db.pool, [{ event_id, stream_seq }]);

test("append_events: wakes the relay after the commit, and not after a rollback", async () => {
  let woken = 0;
  const stop = onOutboxWake(db.pool, () => {
    woken += 1;
  });
  await append(event("a", "pay_1"));
  assert.equal(woken, 1);
  await assert.rejects(
    transact(db.pool, async (tx) => {
      await appendEvents(tx, [event("b", "pay_1")]);
      throw new Error("no");
    }),
  );
  assert.equal(woken, 1);
  stop();
  await append(event("c", "pay_1"));
  assert.equal(woken, 1);
  assert.deepEqual(await unsent(), ["a"]);
});

test("append_events: the same event twice is there once, as it was first", async () => {
  await append(event("a", "pay_1"), event("a", "pay_1"));
  await append(event("a", "pay_2"));
  const {
    events: [row, ...others],
  } = await unsentEvents(db.pool, 10);
  assert.deepEqual(others, []);
  assert.equal(row?.topic, "pay_1");
  assert.deepEqual(row?.payload, Buffer.of(0, 255, 7));
});

test("unsent_events: of each topic the oldest alone, the next when it was sent", async () => {
  await append(event("a1", "a"), event("a2", "a"), event("b1", "b"), event("a3", "a"), event("b2", "b"));
  assert.deepEqual(await unsent(), ["a1", "b1"]);
  await sent("b1", 1n);
  assert.deepEqual(await unsent(), ["a1", "b2"]);
  await sent("a1", 2n);
  await sent("b2", 3n);
  assert.deepEqual(await unsent(), ["a2"]);
});

test("unsent_events: tells of more where something is held back or behind the limit, and of none where all is told", async () => {
  const more = async (limit: number) => (await unsentEvents(db.pool, limit)).more;
  assert.equal(await more(10), false);
  await append(event("a1", "a"), event("b1", "b"));
  assert.equal(await more(10), false);
  assert.equal(await more(2), true);
  await append(event("a2", "a"));
  assert.equal(await more(10), true);
  await sent("a1", 1n);
  assert.equal(await more(10), false);
});

test("unsent_events: what commits late is found although it began early", async () => {
  let release = () => {};
  const gate = new Promise<void>((resolve) => {
    release = resolve;
  });
  let begun = () => {};
  const early_begun = new Promise<void>((resolve) => {
    begun = resolve;
  });
  const early = transact(db.pool, async (tx) => {
    await appendEvents(tx, [event("early", "a")]);
    begun();
    await gate;
  });
  await early_begun;
  await append(event("late", "b"));
  assert.deepEqual(await unsent(), ["late"]);
  await sent("late", 1n);
  release();
  await early;
  assert.deepEqual(await unsent(), ["early"]);
});

test("sent_events, unsend: what the stream has lost leaves again, in order", async () => {
  await append(event("a1", "a"), event("b1", "b"), event("c1", "c"));
  for (const [index, id] of ["a1", "b1", "c1"].entries()) await sent(id, BigInt(index + 10));
  const all = await sentEvents(db.pool, EARLIEST, 10);
  assert.deepEqual(
    all.map((row) => [row.event_id, row.stream_seq]),
    [
      ["a1", 10n],
      ["b1", 11n],
      ["c1", 12n],
    ],
  );
  for (const [at, row] of all.entries()) {
    const behind = await sentEvents(db.pool, row, 10);
    assert.deepEqual(behind, all.slice(at + 1), "each once, to the microsecond");
  }
  await append(event("b2", "b"));
  await unsend(db.pool, ["b1", "unknown"]);
  assert.deepEqual(await unsent(), ["b1"], "the lost one comes before what followed it");
  const soon = new Date(Date.now() + 60_000);
  assert.equal(await unsendBefore(db.pool, soon, 1), 1, "in bounded steps");
  assert.equal(await unsendBefore(db.pool, soon, 10), 1);
  assert.equal(await unsendBefore(db.pool, soon, 10), 0);
  assert.deepEqual(await unsent(), ["a1", "b1", "c1"]);
});

test("purge_outbox: only what was sent before the instant goes", async () => {
  await append(event("old", "a"), event("young", "b"), event("unsent", "c"));
  await sent("old", 1n);
  await sent("young", 2n);
  await db.pool.query("update outbox set sent_at = sent_at - interval '49 hours' where event_id = 'old'");
  assert.equal(await purgeOutbox(db.pool, new Date(Date.now() - 48 * 3_600_000)), 1);
  assert.deepEqual(await unsent(), ["unsent"]);
  assert.equal((await sentEvents(db.pool, EARLIEST, 10)).length, 1);
});

test("recently_sent: what left within a time before the newest event, and where in the stream that begins", async () => {
  assert.equal(await recentlySent(db.pool, 60_000), null);
  await append(event("old", "a"), event("young", "b"), event("newest", "c"), event("unsent", "d"));
  for (const [index, id] of ["old", "young", "newest"].entries()) await sent(id, BigInt(index + 7));
  await db.pool.query("update outbox set sent_at = sent_at - interval '2 hours'");
  await db.pool.query("update outbox set sent_at = sent_at - interval '2 minutes' where event_id = 'old'");
  const recent = await recentlySent(db.pool, 60_000);
  assert.equal(recent?.stream_seq, 8n);
  const rows = await sentEvents(db.pool, recent?.behind ?? EARLIEST, 10);
  assert.deepEqual(
    rows.map((row) => row.event_id),
    ["young", "newest"],
  );
});

test("outbox_lag: counts what waits, of one account or of all", async () => {
  assert.deepEqual(await outboxLag(db.pool), { waiting: 0, oldest_ms: 0 });
  await append(event("a", "a", "acct_1"), event("b", "b", "acct_2"));
  assert.equal((await outboxLag(db.pool)).waiting, 2);
  assert.equal((await outboxLag(db.pool, "acct_2")).waiting, 1);
  assert.ok((await outboxLag(db.pool)).oldest_ms > 0);
});

test("first_seen: each event is new to each consumer once, however often and together it comes", async () => {
  const see = (consumer: string, ...ids: string[]) => transact(db.pool, (tx) => firstSeen(tx, consumer, ids));
  assert.deepEqual(await see("one", "x", "y", "x"), new Set(["x", "y"]));
  assert.deepEqual(await see("one", "y", "z"), new Set(["z"]));
  assert.deepEqual(await see("two", "x"), new Set(["x"]));
  assert.deepEqual(await see("one"), new Set());
  const ids = Array.from({ length: 50 }, (_, i) => `raced-${i}`);
  const seen = await Promise.all(
    Array.from({ length: 10 }, (_, i) => see("one", ...(i % 2 === 0 ? ids : ids.toReversed()))),
  );
  assert.equal(
    seen.reduce((sum, set) => sum + set.size, 0),
    ids.length,
  );
});

test("first_seen: a rollback makes an event new again", async () => {
  await assert.rejects(
    transact(db.pool, async (tx) => {
      await firstSeen(tx, "crashing", ["x"]);
      throw new Error("crash");
    }),
  );
  assert.deepEqual(await transact(db.pool, (tx) => firstSeen(tx, "crashing", ["x"])), new Set(["x"]));
});

test("purge_inbox: forgets what was seen before the instant", async () => {
  await transact(db.pool, (tx) => firstSeen(tx, "purged", ["old", "young"]));
  await db.pool.query("update inbox set seen_at = seen_at - interval '9 days' where event_id = 'old'");
  assert.equal(await purgeInbox(db.pool, new Date(Date.now() - 8 * 86_400_000)), 1);
  const again = await transact(db.pool, (tx) => firstSeen(tx, "purged", ["old", "young"]));
  assert.deepEqual(again, new Set(["old"]));
});
