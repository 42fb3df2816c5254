import assert from "node:assert/strict";
import { after, before, test } from "node:test";
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
import { startRelay } from "./relay.ts";
import { ensureConsumer, STREAM } from "./stream.ts";
import { type TestNats, testNats } from "./testing.ts";

let database: TestDatabase;
let nats: TestNats;
let events: Events;
const log = logger("events-test", "silent");

before(async () => {
  database = await testDatabase("events", []);
  nats = await testNats();
  events = await openEvents({ nats_url: nats.url, room: "accounts", log });
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

/** A consumer that remembers what it saw. */
function follow(durable: string, handle: (batch: Delivered[]) => Promise<void> = async () => {}) {
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

test("relay: every event arrives once, the news of one topic in order", async () => {
  const relay = startRelay({ events, pool: database.pool, log });
  const { seen, consumer } = follow("accounts-order");
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
  await consumer.stop();
  await relay.stop();
});

test("relay: of two replicas one relays, and the other takes over when it stops", async () => {
  const first = startRelay({ events, pool: database.pool, log });
  const second = startRelay({ events, pool: database.pool, log });
  await append(ids(1));
  await until("the first event is sent", () => first.idle("acct_1"));
  await first.stop();
  await append(ids(1));
  await until("the second event is sent", () => second.idle("acct_1"));
  await second.stop();
});

test("consume: what fails comes again, alone, and does not stop its neighbours", async () => {
  const relay = startRelay({ events, pool: database.pool, log });
  const [bad = "", ...good] = ids(20);
  let failures = 0;
  const { seen, consumer } = follow("accounts-poison", async (batch) => {
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
  await consumer.stop();
  await relay.stop();
});

test("a consumer that is stopped gives back what it holds, and the next process goes on", async () => {
  const relay = startRelay({ events, pool: database.pool, log });
  const slow = follow("accounts-handover", () => sleep(50));
  const wanted = ids(400);
  await append(wanted);
  await until("something is handled", () => slow.seen.some((id) => wanted.includes(id)));
  await slow.consumer.stop();
  const next = follow("accounts-handover");
  await until("the rest", () => hasAll([...slow.seen, ...next.seen], wanted));
  await next.consumer.stop();
  await relay.stop();
});

for (const empty of [false, true]) {
  test(`NATS is killed in the middle and comes back ${empty ? "with an empty store" : "as it was"}: nothing is lost`, async () => {
    const relay = startRelay({ events, pool: database.pool, log });
    const durable = `accounts-kill-${empty}`;
    // The inbox makes each event count once, although the stream may bring it more than once.
    const seen: string[] = [];
    const { consumer } = follow(durable, (batch) =>
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
    await consumer.stop();
    await relay.stop();
  });
}

test("relay: a stream that lost its newest messages gets them again", async () => {
  const relay = startRelay({ events, pool: database.pool, log });
  const { seen, consumer } = follow("accounts-tail");
  const wanted = ids(20);
  await append(wanted);
  await until("all events", () => hasAll(seen, wanted));
  // As after a power cut: acknowledged, handled or not, but not on the disk.
  const { last_seq } = (await events.jsm.streams.info("CAURI")).state;
  for (let seq = last_seq - 9; seq <= last_seq; seq++) await events.jsm.streams.deleteMessage("CAURI", seq);
  seen.length = 0;
  await sleep(200);
  await nats.kill();
  await nats.start();
  await until("the lost ten", () => hasAll(seen, wanted.slice(10)));
  assert.ok(!seen.some((id) => wanted.slice(0, 10).includes(id)), "what was not lost does not come again");
  await consumer.stop();
  await relay.stop();
});

test("consume: a stream that was set back behind its consumers gives them again what comes anew under old numbers", async () => {
  const relay = startRelay({ events, pool: database.pool, log });
  const { seen, consumer } = follow("accounts-behind");
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
  await consumer.stop();
  await relay.stop();
});

test("a drain waits for the clock, repeats the work until none is left, and counts what was handled", async () => {
  const relay = startRelay({ events, pool: database.pool, log });
  const clocks = await openClocks(database.pool);
  const follower = followClocks({ events, pool: database.pool, log });
  const { seen, consumer } = follow("accounts-drain");
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
  clocks.close();
  await Promise.all([consumer.stop(), follower.stop()]);
  await relay.stop();
});

test("the wake of the outbox ends with the relay", async () => {
  const relay = startRelay({ events, pool: database.pool, log });
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
