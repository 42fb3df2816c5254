import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { setImmediate as nextTurn } from "node:timers/promises";
import { jetstream, jetstreamManager } from "@nats-io/jetstream";
import { connect, type NatsConnection } from "@nats-io/transport-node";
import { type Message, openPublisher, type Publisher, type Taken } from "./publish.ts";
import { ensureStream, STREAM } from "./stream.ts";
import { type TestNats, testNats } from "./testing.ts";

let nats: TestNats;
let nc: NatsConnection;
let publisher: Publisher;

before(async () => {
  nats = await testNats();
  nc = await connect({ servers: nats.url, noAsyncTraces: true });
  await ensureStream(await jetstreamManager(nc, { checkAPI: false }));
  publisher = openPublisher(nc);
});
after(async () => {
  await nc?.close();
  await nats?.close();
});

function message(id: string, change: { readonly subject?: string; readonly stream?: string } = {}): Message {
  const headers = [["Nats-Msg-Id", id] as const, ["Nats-Expected-Stream", change.stream ?? STREAM] as const];
  return { subject: change.subject ?? "cauri.test.thing.done", payload: Buffer.from(id), headers };
}

test("publish_all: numbers in the order of the messages, and a repeat has the number of the first", async () => {
  assert.deepEqual(await publisher.publishAll([]), []);
  const first = await publisher.publishAll(["a", "b", "c"].map((id) => message(id)));
  assert.ok(first.every((seq, at) => typeof seq === "number" && seq === Number(first[0]) + at));
  const [again, next] = await publisher.publishAll([message("b"), message("d")]);
  assert.equal(again, first[1]);
  assert.equal(next, Number(first[2]) + 1);
  const stream = await jetstream(nc).streams.get(STREAM);
  assert.equal((await stream.info()).state.messages, 4);
});

test("publish_all: a message arrives with its headers, and none may have two lines", async () => {
  const subject = "cauri.test.headed";
  const headed = (value: string) => ({
    ...message(`headed ${value.length}`, { subject }),
    headers: [["Cauri-Account", value]] as const,
  });
  const [seq, refused] = await publisher.publishAll([headed("acct_é: 1"), headed("two\r\nlines")]);
  assert.match(String(refused), /more than one line/);
  const manager = await jetstreamManager(nc, { checkAPI: false });
  const kept = await manager.streams.getMessage(STREAM, { seq: Number(seq) });
  assert.deepEqual([...(kept?.header ?? [])], [["Cauri-Account", ["acct_é: 1"]]]);
});

test("publish_all: what is not taken fails alone, whatever the cause", async () => {
  const [good, other_stream, no_stream, impossible, last] = await publisher.publishAll([
    message("e"),
    message("f", { stream: "OTHER" }),
    message("g", { subject: "nobody.listens" }),
    message("h", { subject: "" }),
    message("i"),
  ]);
  for (const failed of [other_stream, no_stream, impossible]) assert.ok(failed instanceof Error);
  assert.equal(last, Number(good) + 1);
});

test("publish_all: a lost connection ends the wait at once, and what comes afterwards is answered again", async () => {
  await nats.kill();
  let ended: readonly Taken[] = [];
  void publisher.publishAll([message("j"), message("k")]).then((taken) => {
    ended = taken;
  });
  publisher.lose();
  await nextTurn();
  assert.equal(ended.length, 2, "not by its time-out");
  assert.ok(ended.every((taken) => taken instanceof Error));
  await nats.start();
  const until = Date.now() + 60_000;
  for (;;) {
    const [taken] = await publisher.publishAll([message("l")]);
    if (typeof taken === "number") break;
    assert.ok(Date.now() < until, "the server is back");
  }
});
