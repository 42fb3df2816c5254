// Listeners on a real nats-server: who hears what, resuming, slow readers, a store that is lost, limits, ends.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { type Events, openEvents } from "@cauri/events/events";
import { publishAs, type TestNats, testNats } from "@cauri/events/testing";
import { newId } from "@cauri/money/ids";
import { OperationNews } from "@cauri/proto/ts/cauri/events/v1/events";
import { type ListenResponse, ListenServiceService } from "@cauri/proto/ts/cauri/webhooks/v1/listen";
import { houseCaller, writeMetadata } from "@cauri/rpc/caller";
import { logger } from "@cauri/rpc/log";
import { type RunningServer, startServer } from "@cauri/rpc/server";
import { Client, credentials, type ServiceError, status } from "@grpc/grpc-js";
import { listenService } from "./listen-service.ts";
import { type ListenRooms, listen, type Told } from "./listening.ts";
import { type NewsHub, openNewsHub } from "./news-hub.ts";
import { signature } from "./notice.ts";

const log = logger("webhooks-test", "silent");
const settings = { CAURI_BIND_HOST: "127.0.0.1", CAURI_RPC_PORT: 0, CAURI_RPC_TOKEN: "house", CAURI_DRAIN_MS: 2_000 };
const all = () => true;
let nats: TestNats;
let events: Events;
let hub: NewsHub;

before(async () => {
  nats = await testNats();
  events = await openEvents({ nats_url: nats.url, room: "webhooks", log });
  hub = openNewsHub({ events, log });
});
after(async () => {
  hub?.close();
  await events?.close();
  await nats?.close();
});

const rooms = (more: Partial<ListenRooms> = {}): ListenRooms => ({ events, hub, now: Date.now, ...more });
const account = () => newId("acct", Date.now());

async function publish(to: string, more: Partial<OperationNews> = {}, id = newId("evt", Date.now())): Promise<string> {
  const news = OperationNews.fromPartial({
    event: "payment.success",
    id: "pay_1",
    reference: "PAY-TEST00000000",
    amountMinor: 1500n,
    currency: "XOF",
    status: "success",
    account: to,
    mode: "test",
    version: 1n,
    occurredAt: new Date(),
    eventId: id,
    ...more,
  });
  const subject = `cauri.collections.${news.event}`;
  await publishAs(events, { subject, id, account: to, payload: OperationNews.encode(news).finish() });
  return id;
}

/** A listener whose stream is read by hand. */
function follow(to: string, { after: from, ...more }: Partial<ListenRooms> & { after?: string } = {}) {
  const gone = new AbortController();
  const told = listen(rooms(more), { account: to, wants: all, after: from }, gone.signal);
  const next = async (): Promise<Told> => {
    const { value, done } = await told.next();
    assert.ok(done !== true, "the stream has ended");
    return value;
  };
  return {
    next,
    /** The cursor of the opening, which comes first. */
    opened: async () => {
      const first = await next();
      assert.ok(first.kind === "opened");
      return first.cursor;
    },
    /** The next `count` events. */
    hears: async (count: number) => {
      const ids: string[] = [];
      let cursor = "";
      while (ids.length < count) {
        const one = await next();
        if (one.kind !== "heard") continue;
        ids.push(one.heard.event.event_id);
        cursor = one.heard.cursor;
      }
      return { ids, cursor };
    },
    leave: async () => {
      gone.abort();
      await told.return(undefined);
    },
    told,
  };
}

test("listen: an account's test events in their order, for each of its listeners, and nobody else's", async () => {
  const mine = account();
  const [one, other] = [follow(mine), follow(mine)];
  await Promise.all([one.opened(), other.opened()]);
  await publish(account());
  await publish(mine, { mode: "live" });
  await publish(mine, { event: "payment.cancelled" });
  const ids = [await publish(mine), await publish(mine), await publish(mine)];
  assert.deepEqual((await one.hears(3)).ids, ids);
  assert.deepEqual((await other.hears(3)).ids, ids);
  await Promise.all([one.leave(), other.leave()]);
});

test("listen: with the cursor of the last event nothing is lost and nothing comes twice", async () => {
  const mine = account();
  const first = follow(mine);
  await first.opened();
  const ids = [await publish(mine), await publish(mine)];
  const { cursor } = await first.hears(1);
  await first.leave();
  ids.push(await publish(mine));
  const second = follow(mine, { after: cursor });
  assert.equal(await second.opened(), cursor);
  ids.push(await publish(mine));
  assert.deepEqual((await second.hears(3)).ids, ids.slice(1));
  await second.leave();
});

test("listen: the cursor of the opening serves where no event has come yet", async () => {
  const mine = account();
  const first = follow(mine);
  const cursor = await first.opened();
  await first.leave();
  const id = await publish(mine);
  const second = follow(mine, { after: cursor });
  assert.deepEqual((await second.hears(1)).ids, [id]);
  await second.leave();
});

test("listen: a reader that is far behind gets everything once and in order, and little of it waits for it here", async () => {
  const mine = account();
  const slow = follow(mine);
  await slow.opened();
  const ids: string[] = [];
  // More than twice what is kept for one listener, so that it falls behind again while it catches up.
  for (let at = 0; at < 1_300; at += 100) {
    ids.push(...(await Promise.all(Array.from({ length: 100 }, () => publish(mine)))));
  }
  // Published at once, they are taken in whatever order the server read them: the stream's own order counts.
  const { ids: heard } = await slow.hears(ids.length);
  assert.equal(new Set(heard).size, ids.length);
  assert.deepEqual([...heard].sort(), [...ids].sort());
  const last = await publish(mine);
  assert.deepEqual((await slow.hears(1)).ids, [last]);
  await slow.leave();
});

test("listen: a cursor older than an hour is told, and the stream goes on from an hour ago", async () => {
  const mine = account();
  const first = follow(mine);
  const cursor = await first.opened();
  await first.leave();
  await publish(mine);
  const later = follow(mine, { after: cursor, now: () => Date.now() + 2 * 3_600_000 });
  await later.opened();
  assert.equal((await later.next()).kind, "skipped");
  const id = await publish(mine);
  assert.deepEqual((await later.hears(1)).ids, [id]);
  await later.leave();
});

test("listen: a quiet line says so, and a stream ends after its time", async () => {
  const quiet = follow(account(), { quiet_ms: 20 });
  await quiet.opened();
  assert.equal((await quiet.next()).kind, "quiet");
  await quiet.leave();
  const { opened, told } = follow(account(), { quiet_ms: 20, life_ms: 300 });
  await opened();
  for await (const one of told) assert.equal(one.kind, "quiet");
});

test("listen: when NATS was away, also with its store lost, listeners are told to come again and miss nothing", async () => {
  const mine = account();
  const { opened, hears, told } = follow(mine, { quiet_ms: 60_000 });
  await opened();
  await publish(mine);
  const { cursor } = await hears(1);
  const ended = assert.rejects(told.next(), { unavailable: true });
  await nats.kill();
  await nats.start({ empty: true });
  await ended;
  await events.ensureStream();
  const id = await publish(mine);
  const again = follow(mine, { after: cursor });
  assert.deepEqual((await again.hears(1)).ids, [id]);
  await again.leave();
});

/** The service as the gateway calls it. */
async function serve(t: { after(end: () => unknown): void }) {
  const services = [listenService(rooms())];
  const server: RunningServer = await startServer({ room: "webhooks", settings, log, services });
  const client = new Client(`127.0.0.1:${server.port}`, credentials.createInsecure());
  t.after(async () => {
    client.close();
    await server.drain();
  });
  const method = ListenServiceService.listen;
  const open = (to: string, mode: "test" | "live" = "test", asked: { secret?: string; events?: string[] } = {}) => {
    const caller = houseCaller(to, mode, "req-1");
    const request = { events: [], ...asked };
    const metadata = writeMetadata("house", caller);
    const call = client.makeServerStreamRequest(
      method.path,
      method.requestSerialize,
      method.responseDeserialize,
      request,
      metadata,
    );
    const messages = call[Symbol.asyncIterator]() as AsyncIterator<ListenResponse>;
    const next = async () => (await messages.next()).value?.message as ListenResponse["message"];
    return { call, next };
  };
  return { server, open };
}

const refusedBy = (reason: string) => (error: ServiceError) => error.metadata.get("cauri-reason")[0] === reason;

test("listen service: the notice is signed with the session's secret and has a delivery's headers", async (t) => {
  const { open } = await serve(t);
  const mine = account();
  const { next, call } = open(mine);
  const opened = await next();
  assert.ok(opened?.$case === "opened");
  assert.match(opened.value.secret, /^whsec_[A-Za-z0-9+/]{43}=$/);
  const id = await publish(mine);
  const notice = await next();
  assert.ok(notice?.$case === "notice");
  const { body, eventId, event } = notice.value;
  const headers = Object.fromEntries(notice.value.headers.map(({ name, value }) => [name, value]));
  assert.deepEqual([eventId, event, headers["x-service-delivery"], headers["x-service-mode"]], [id, event, id, "test"]);
  assert.deepEqual(Object.keys(JSON.parse(body)), ["event", "created", "data"]);
  const signed = String(headers["x-service-signature"]);
  const t_s = Number(/^t=(\d+),/.exec(signed)?.[1]);
  assert.equal(signed, signature([opened.value.secret], body, t_s * 1_000));
  call.cancel();
  const kept = open(mine, "test", { secret: opened.value.secret });
  const again = await kept.next();
  assert.equal(again?.$case === "opened" && again.value.secret, opened.value.secret);
  kept.call.cancel();
});

test("listen service: live keys and events that are none are refused by name; an eleventh listener waits its turn", async (t) => {
  const { open } = await serve(t);
  const mine = account();
  await assert.rejects(open(mine, "live").next(), refusedBy("insufficient_scope"));
  await assert.rejects(open(mine, "test", { events: ["payment.succes"] }).next(), (error: ServiceError) => {
    return error.metadata.get("cauri-field")[0] === "events.0" && refusedBy("invalid_request")(error);
  });
  const ten = Array.from({ length: 10 }, () => open(mine));
  for (const { next } of ten) assert.equal((await next())?.$case, "opened");
  await assert.rejects(open(mine).next(), refusedBy("rate_limited"));
  const other = open(account());
  assert.equal((await other.next())?.$case, "opened");
  ten[0]?.call.on("error", () => {}).cancel();
  for (;;) {
    const again = open(mine);
    const first = await again.next().catch(() => undefined);
    again.call.cancel();
    if (first?.$case === "opened") break;
  }
  for (const { call } of [...ten, other]) call.cancel();
});

test("listen service: a drain ends the streams at once, as unavailable", async (t) => {
  const { open, server } = await serve(t);
  const { next } = open(account());
  await next();
  const ended = assert.rejects(next(), { code: status.UNAVAILABLE });
  await server.drain();
  await ended;
});
