import assert from "node:assert/strict";
import { after, before, beforeEach, test } from "node:test";
import { firstSeen, purgeInbox } from "./inbox.ts";
import {
  appendEvents,
  hasUnsent,
  markSent,
  type OutboxEvent,
  onOutboxWake,
  outboxLag,
  purgeOutbox,
  recentlySent,
  sentRounds,
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
beforeEach(async () => {
  for (const table of ["outbox", "outbox_unsent", "outbox_rounds"]) await db.pool.query(`delete from ${table}`);
});
after(() => db.close());

function event(id: string, topic: string, account = "acct_1"): OutboxEvent {
  const subject = "cauri.collections.payment.success";
  return { id, topic, subject, payload: Uint8Array.of(0, 255, 7), account, mode: "live" };
}

const EARLIEST = { sent_at: "-infinity", round: -1n };
const append = (...events: OutboxEvent[]) => transact(db.pool, (tx) => appendEvents(tx, events));
const unsent = async () => (await unsentEvents(db.pool, 100)).events.map((row) => row.event_id);

/** Marks events as one round of the relay, the first of them under this number of the stream and so on. */
async function sent(stream_seq: bigint, ...ids: string[]): Promise<void> {
  const { events } = await unsentEvents(db.pool, 100);
  const seqs = ids.map(
    (id) => events.find(({ event_id }) => event_id === id)?.seq ?? assert.fail(`${id} is not unsent`),
  );
  await markSent(
    db.pool,
    seqs.map((seq, at) => ({ seq, stream_seq: stream_seq + BigInt(at) })),
  );
}

async function rounds(behind = EARLIEST): Promise<string[][]> {
  const found = await sentRounds(db.pool, behind, 10);
  return found.map(({ events }) => events.map(({ event_id }) => event_id).sort());
}

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
  await sent(1n, "b1");
  assert.deepEqual(await unsent(), ["a1", "b2"]);
  await sent(2n, "a1");
  await sent(3n, "b2");
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
  await sent(1n, "a1");
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
  await sent(1n, "late");
  release();
  await early;
  assert.deepEqual(await unsent(), ["early"]);
});

test("mark_sent: an event that another relay has marked meanwhile stands in that one's round alone", async () => {
  await append(event("a", "a"), event("b", "b"));
  const { events } = await unsentEvents(db.pool, 10);
  const both = events.map(({ seq }, at) => ({ seq, stream_seq: BigInt(at + 1) }));
  await sent(1n, "a");
  await Promise.all([markSent(db.pool, both), markSent(db.pool, both)]);
  await markSent(db.pool, both);
  assert.deepEqual(await rounds(), [["a"], ["b"]]);
  assert.deepEqual(await unsent(), []);
});

test("append_events: what was sent is not sent again when it is appended again", async () => {
  await append(event("a", "a"));
  await sent(1n, "a");
  await append(event("a", "a"), event("b", "b"));
  assert.deepEqual(await unsent(), ["b"]);
});

test("sent_rounds, unsend: what the stream has lost leaves again, in order", async () => {
  await append(event("a1", "a"), event("b1", "b"), event("c1", "c"), event("d1", "d"));
  await sent(10n, "a1", "b1");
  await sent(12n, "c1");
  await sent(13n, "d1");
  const all = await sentRounds(db.pool, EARLIEST, 10);
  assert.deepEqual(await rounds(), [["a1", "b1"], ["c1"], ["d1"]]);
  for (const [at, round] of all.entries()) {
    assert.deepEqual(await sentRounds(db.pool, round, 10), all.slice(at + 1), "each once, to the microsecond");
  }
  assert.equal((await sentRounds(db.pool, EARLIEST, 2)).length, 2);
  await append(event("b2", "b"));
  const only = (...ids: string[]) =>
    all.map((round) => ({ ...round, events: round.events.filter(({ event_id }) => ids.includes(event_id)) }));
  await unsend(db.pool, only("b1", "c1"));
  assert.deepEqual(await unsent(), ["b1", "c1"], "the lost one comes before what followed it");
  assert.deepEqual(await rounds(), [["a1"], [], ["d1"]], "what was not lost stays where it was");
  const soon = new Date(Date.now() + 60_000);
  assert.deepEqual(await unsendBefore(db.pool, soon, 1), { rounds: 1, events: 1 }, "in bounded steps");
  assert.deepEqual(await unsendBefore(db.pool, soon, 10), { rounds: 2, events: 1 });
  assert.deepEqual(await unsendBefore(db.pool, soon, 10), { rounds: 0, events: 0 });
  assert.deepEqual(await unsent(), ["a1", "b1", "c1", "d1"]);
});

test("purge_outbox: only what was sent before the instant goes", async () => {
  await append(event("old", "a"), event("again", "b"), event("young", "c"), event("unsent", "d"));
  await sent(1n, "old", "again");
  await sent(3n, "young");
  const [first] = await sentRounds(db.pool, EARLIEST, 1);
  assert.ok(first !== undefined);
  await unsend(db.pool, [{ ...first, events: first.events.filter(({ event_id }) => event_id === "again") }]);
  await db.pool.query("update outbox_rounds set sent_at = sent_at - interval '49 hours' where round = $1", [
    first.round,
  ]);
  const before = new Date(Date.now() - 48 * 3_600_000);
  assert.equal(await purgeOutbox(db.pool, before, 10), 1);
  assert.equal(await purgeOutbox(db.pool, before, 10), 0);
  assert.deepEqual(await unsent(), ["again", "unsent"], "what the stream has lost is sent again however old it is");
  assert.deepEqual(await rounds(), [["young"]]);
  const { rows } = await db.pool.query("select event_id from outbox order by event_id");
  assert.deepEqual(
    rows.map(({ event_id }) => event_id),
    ["again", "unsent", "young"],
  );
});

test("recently_sent: what left within a time before the newest round, and where in the stream that begins", async () => {
  assert.equal(await recentlySent(db.pool, 60_000), null);
  await append(
    event("old", "a"),
    event("young", "b"),
    event("neighbour", "c"),
    event("newest", "d"),
    event("unsent", "e"),
  );
  await sent(7n, "old");
  await sent(8n, "young", "neighbour");
  await sent(10n, "newest");
  await db.pool.query("update outbox_rounds set sent_at = sent_at - interval '2 hours'");
  await db.pool.query("update outbox_rounds set sent_at = sent_at - interval '2 minutes' where stream_seq = 7");
  const recent = await recentlySent(db.pool, 60_000);
  assert.equal(recent?.stream_seq, 8n);
  assert.deepEqual(await rounds(recent?.behind), [["neighbour", "young"], ["newest"]]);
});

test("outbox_lag: counts what waits, of one account or of all", async () => {
  assert.deepEqual(await outboxLag(db.pool), { waiting: 0, oldest_ms: 0 });
  await append(event("a", "a", "acct_1"), event("b", "b", "acct_2"));
  assert.equal((await outboxLag(db.pool)).waiting, 2);
  assert.deepEqual([await hasUnsent(db.pool, "acct_2"), await hasUnsent(db.pool, "acct_3")], [true, false]);
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
