import assert from "node:assert/strict";
import { after, before, type TestContext, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { ClockAdvanced } from "@cauri/proto/ts/cauri/events/v1/events";
import { logger } from "@cauri/rpc/log";
import { openClocks, readOffset } from "@cauri/store/clock";
import { firstSeen } from "@cauri/store/inbox";
import { appendEvents, onOutboxWake, outboxLag } from "@cauri/store/outbox";
import { transact } from "@cauri/store/pool";
import { type TestDatabase, testDatabase } from "@cauri/store/testing";
import { consume, type Delivered } from "./consume.ts";
import { drainAccount } from "./drain.ts";
import { type Change, type Events, openEvents } from "./events.ts";
import { followClocks } from "./follow-clocks.ts";
import { type Relay, startRelay } from "./relay.ts";
import { ensureConsumer, STREAM } from "./stream.ts";
import { type TestNats, testNats } from "./testing.ts";

let database: TestDatabase;
let nats: TestNats;
let events: Events;
/** Warnings of the connection and of what is held against the stream. */
const told: Record<string, unknown>[] = [];
const log = logger("events-test", "silent");

before(async () => {
  database = await testDatabase("events", []);
  nats = await testNats();
  const warnings = logger("events-test", "warn", { write: (line: string) => void told.push(JSON.parse(line)) });
  events = await openEvents({ nats_url: nats.url, room: "accounts", log: warnings });
});
after(async () => {
  await events?.close();
  await nats?.close();
  await database?.close();
});

let serial = 0;
const ids = (count: number) => Array.from({ length: count }, () => `evt_${String(++serial).padStart(6, "0")}`);

function append(event_ids: readonly string[], topic = (id: string) => id, account = "acct_1"): Promise<void> {
  return transact(database.pool, (tx) =>
    appendEvents(
      tx,
      event_ids.map((id) => ({
        id,
        topic: topic(id),
        subject: "cauri.accounts.thing.done",
        payload: Buffer.from(id),
        account,
        mode: "test" as const,
      })),
    ),
  );
}

/** A relay that ends with its test, however that ends: it would send the events of the next one. */
function relaying(t: TestContext): Relay {
  const relay = startRelay({ events, pool: database.pool, log });
  t.after(() => relay.stop());
  return relay;
}

/** A consumer that remembers what it saw; it ends with its test. */
function follow(t: TestContext, durable: string, handle: (batch: Delivered[]) => Promise<void> = async () => {}) {
  const seen: string[] = [];
  const consumer = consume({
    events,
    durable,
    subjects: ["cauri.accounts.thing.>"],
    log,
    handle: async (batch) => {
      await handle(batch);
      seen.push(...batch.map((event) => event.event_id));
    },
  });
  t.after(() => consumer.stop());
  return { seen, consumer };
}

async function until(what: string, ask: () => boolean | Promise<boolean>, within_ms = 60_000): Promise<void> {
  for (const end = Date.now() + within_ms; !(await ask()); await sleep(10)) {
    if (Date.now() > end) assert.fail(`not within ${within_ms} ms: ${what}`);
  }
}

test("consumer: a release that listens to more subjects changes the standing one, which keeps its place", async () => {
  await events.ensureStream();
  await ensureConsumer(events.jsm, "accounts-grows", ["cauri.accounts.other.>"]);
  await ensureConsumer(events.jsm, "accounts-grows", ["cauri.accounts.other.>", "cauri.accounts.thing.>"]);
  const { config } = await events.jsm.consumers.info(STREAM, "accounts-grows");
  assert.deepEqual(config.filter_subjects, ["cauri.accounts.other.>", "cauri.accounts.thing.>"]);
});

const hasAll = (seen: readonly string[], wanted: readonly string[]) => wanted.every((id) => seen.includes(id));

test("relay: every event arrives once, the news of one topic in order", async (t) => {
  const relay = relaying(t);
  const { seen } = follow(t, "accounts-order");
  const wanted = ids(300);
  for (let at = 0; at < wanted.length; at += 30)
    await append(wanted.slice(at, at + 30), (id) => `op_${Number(id.slice(4)) % 7}`);
  await until("300 events", () => seen.length >= 300);
  assert.deepEqual([...seen].sort(), wanted);
  for (let topic = 0; topic < 7; topic++) {
    const order = seen.filter((id) => Number(id.slice(4)) % 7 === topic);
    assert.deepEqual(order, [...order].sort());
  }
  const [one = ""] = ids(1);
  await append([one]);
  await until("one event", () => seen.includes(one));
  await until("an empty outbox", () => relay.idle("acct_1"));
});

test("relay: of two replicas one relays, and the other takes over when it stops", async (t) => {
  const first = relaying(t);
  const second = relaying(t);
  await append(ids(1));
  await until("the first event is sent", () => first.idle("acct_1"));
  await first.stop();
  await append(ids(1));
  await until("the second event is sent", () => second.idle("acct_1"));
});

test("consume: what fails comes again, alone, and does not stop its neighbours", async (t) => {
  relaying(t);
  const [bad = "", ...good] = ids(20);
  let failures = 0;
  const { seen } = follow(t, "accounts-poison", async (batch) => {
    if (batch.some((event) => event.event_id === bad) && failures < 5) {
      failures += 1;
      throw new Error("cannot be applied");
    }
  });
  await append([bad, ...good]);
  await until("the good ones", () => hasAll(seen, good));
  await until("the bad one", () => seen.includes(bad));
  assert.equal(failures, 5);
  assert.equal(new Set(seen).size, seen.length, "nothing handled came again");
});

test("a consumer that is stopped gives back what it holds, and the next process goes on", async (t) => {
  relaying(t);
  const slow = follow(t, "accounts-handover", () => sleep(50));
  const wanted = ids(400);
  await append(wanted);
  await until("something is handled", () => slow.seen.some((id) => wanted.includes(id)));
  await slow.consumer.stop();
  const next = follow(t, "accounts-handover");
  await until("the rest", () => hasAll([...slow.seen, ...next.seen], wanted));
});

for (const empty of [false, true]) {
  test(`NATS is killed in the middle and comes back ${empty ? "with an empty store" : "as it was"}: nothing is lost`, async (t) => {
    relaying(t);
    const durable = `accounts-kill-${empty}`;
    // The inbox makes each event count once, although the stream may bring it more than once.
    const seen: string[] = [];
    follow(t, durable, (batch) =>
      transact(database.pool, async (tx) => {
        const fresh = await firstSeen(
          tx,
          durable,
          batch.map((event) => event.event_id),
        );
        tx.afterCommit(() => void seen.push(...fresh));
      }),
    );
    const changes: (Change | null)[] = [];
    const forget = events.onChange(["cauri.accounts.thing.>"], (change) => changes.push(change));
    const wanted = ids(600);
    for (let at = 0; at < wanted.length; at += 50) {
      await append(wanted.slice(at, at + 50), (id) => `op_${Number(id.slice(4)) % 11}`);
      if (at === 300) {
        await nats.kill();
        await sleep(300);
        await nats.start({ empty });
      }
    }
    await until("all events", () => hasAll(seen, wanted));
    await until("an empty outbox", async () => (await outboxLag(database.pool)).waiting === 0);
    assert.equal(new Set(seen).size, seen.length);
    assert.ok(changes.includes(null), "caches were told to forget");
    assert.ok(changes.some((change) => change?.subject === "cauri.accounts.thing.done"));
    const state = (await events.jsm.streams.info("CAURI")).state;
    assert.ok(state.messages >= wanted.length, `the stream has ${state.messages} messages`);
    forget();
  });
}

test("relay: a stream that lost its newest messages gets them again", async (t) => {
  const relay = relaying(t);
  const { seen } = follow(t, "accounts-tail");
  const wanted = ids(20);
  await append(wanted);
  await until("all events", () => hasAll(seen, wanted));
  await until("all are marked as sent", () => relay.idle("acct_1"));
  // As after a power cut: acknowledged, handled or not, but not on the disk.
  const { last_seq } = (await events.jsm.streams.info("CAURI")).state;
  for (let seq = last_seq - 9; seq <= last_seq; seq++) await events.jsm.streams.deleteMessage("CAURI", seq);
  seen.length = 0;
  told.length = 0;
  await nats.kill();
  await nats.start();
  await until("the lost ten", () => hasAll(seen, wanted.slice(10)));
  // A consumer may see others again whose acknowledgement went with the server; published again are those ten.
  const lost = told.flatMap((line) => line["lost"] ?? []);
  assert.deepEqual(lost, [10], "what was not lost is not published again");
});

test("consume: a stream that was set back behind its consumers gives them again what comes anew under old numbers", async (t) => {
  relaying(t);
  const { seen } = follow(t, "accounts-behind");
  const wanted = ids(10);
  await append(wanted);
  await until("the first ten", () => hasAll(seen, wanted));
  await nats.copyMessages();
  await nats.start();
  const lost = ids(10);
  await append(lost);
  await until("the next ten", () => hasAll(seen, lost));
  seen.length = 0;
  await sleep(1_000);
  await nats.startWithCopy();
  const fresh = ids(3);
  await append(fresh);
  await until("what came after the loss", () => hasAll(seen, fresh));
  await until("the lost ten", () => hasAll(seen, lost));
});

test("a drain waits for the clock, repeats the work until none is left, and counts what was handled", async (t) => {
  const relay = relaying(t);
  const clocks = await openClocks(database.pool);
  const follower = followClocks({ events, pool: database.pool, log });
  t.after(() => Promise.all([follower.stop(), clocks.close()]));
  const { seen, consumer } = follow(t, "accounts-drain");
  let due = 3;
  const request = { account: "acct_9", offsetMs: 86_400_000n };
  const drain = (deadline_ms: number) =>
    drainAccount({
      request,
      deadline_ms,
      pool: database.pool,
      clocks,
      events,
      relay,
      consumers: [follower, consumer],
      work: async () => {
        if (due === 0) return 0;
        due -= 1;
        await append(ids(1), (id) => id, "acct_9");
        return 1;
      },
    });
  const early = await drain(Date.now() + 600);
  assert.ok("refused" in early);
  const payload = ClockAdvanced.encode(request).finish();
  await transact(database.pool, (tx) =>
    appendEvents(tx, [
      {
        id: "evt_clock",
        topic: "acct_9",
        subject: "cauri.accounts.clock.advanced",
        payload,
        account: "acct_9",
        mode: "test",
      },
    ]),
  );
  const answer = await drain(Date.now() + 60_000);
  assert.ok("done" in answer);
  // Three things done, their three events sent and handled, and the clock's own.
  assert.equal(answer.done, 11n);
  assert.equal(await readOffset(database.pool, "acct_9"), 86_400_000n);
  assert.ok(seen.length >= 3);
  assert.deepEqual(await drain(Date.now() + 60_000), { done: 0n });
});

test("the wake of the outbox ends with the relay", async (t) => {
  const relay = relaying(t);
  await relay.stop();
  let woken = 0;
  const forget = onOutboxWake(database.pool, () => {
    woken += 1;
  });
  await append(ids(1));
  forget();
  assert.equal(woken, 1);
  assert.equal(await relay.idle("acct_1"), false, "nobody sends it any more");
});
