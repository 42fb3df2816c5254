// Seen and replayed, through the real gRPC server on a real PostgreSQL: pages without gaps, and nothing sent twice by one word.

import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { newId } from "@cauri/money/ids";
import { isRefusal, type Refusal } from "@cauri/money/refusal";
import {
  DeliveryServiceClient,
  ListDeliveriesRequest,
  ReplayDeliveriesRequest,
} from "@cauri/proto/ts/cauri/webhooks/v1/deliveries";
import { connectClient } from "@cauri/rpc/client";
import { logger } from "@cauri/rpc/log";
import { type RunningServer, startServer } from "@cauri/rpc/server";
import { type Pool, transact } from "@cauri/store/pool";
import { type TestDatabase, testDatabase } from "@cauri/store/testing";
import { type Event, insertDeliveries } from "./arrival-store.ts";
import { deliveryService } from "./delivery-service.ts";
import { type Claimed, claimDue, returnLost } from "./delivery-store.ts";
import { endpointIds, insertEndpoint, lockAccount } from "./endpoint-store.ts";
import { endAttempts } from "./result-store.ts";

const settings = { CAURI_BIND_HOST: "127.0.0.1", CAURI_RPC_PORT: 0, CAURI_RPC_TOKEN: "house", CAURI_DRAIN_MS: 1_000 };
const START = Date.parse("2026-11-20T08:00:00Z");
let database: TestDatabase;
let pool: Pool;
let server: RunningServer;
let client: ReturnType<typeof connect>;
let woken = 0;
let serial = 0;

const connect = () => connectClient(DeliveryServiceClient, { address: `127.0.0.1:${server.port}`, token: "house" });

before(async () => {
  database = await testDatabase("webhooks", [join(import.meta.dirname, "..", "migrations")]);
  pool = database.pool;
  const services = [
    deliveryService({
      pool,
      wake: () => {
        woken += 1;
      },
    }),
  ];
  server = await startServer({ room: "webhooks", settings, services, log: logger("webhooks-test", "silent") });
  client = connect();
});
after(async () => {
  client?.closeChannel();
  await server?.drain();
  await database?.close();
});

async function endpoint(account: string): Promise<bigint> {
  serial += 1;
  const made = await transact(pool, async (tx) => {
    await lockAccount(tx, account);
    const url = `https://shop.example.com/${serial}`;
    const rest = { description: null, subscribed_events: [], standard_headers: false, secret_sealed: Buffer.from("-") };
    return insertEndpoint(tx, { operation_id: newId("whk", serial), account, url, ...rest });
  });
  assert.ok(made !== null);
  // Older than the events below, which it would otherwise never be asked to hear.
  await pool.query("update endpoints set created_at = $2 where id = $1", [made.id, new Date(START - 60_000)]);
  return made.id;
}

/** Events a second apart from 08:00 on, each for every endpoint of the account. */
async function happen(account: string, count: number): Promise<void> {
  const events = Array.from({ length: count }, (_, at): Event => {
    serial += 1;
    const event_id = newId("evt", serial);
    const facts = { event: "payment.success", account, mode: "live" as const, version: 1n, body: "{}" };
    return { ...facts, event_id, operation_id: newId("pay", serial), occurred_at: new Date(START + at * 1000) };
  });
  await insertDeliveries(pool, events, null);
}

/** Sends all that is pending; one failure is the last. */
async function end(account: string, status: "failed" | "delivered"): Promise<void> {
  for (let all = await claim(account); all.length > 0; all = await claim(account))
    for (const claimed of all) await finish(claimed, status);
}

async function claim(account: string, lease_ms = 600_000): Promise<Claimed[]> {
  const endpoints = await endpointIds(pool, account);
  const bounds = { limit: 100, per_endpoint: 100, per_account: 1_000, lease_ms };
  // So many failures would suspend the endpoints, which is not the matter here.
  await pool.query("update endpoints set consecutive_failures = 0, suspended_until = null where account = $1", [
    account,
  ]);
  await returnLost(pool);
  const options = { ...bounds, endpoints, now: new Date(), patient: true };
  return [...(await transact(pool, (tx) => claimDue(tx, options))).claimed];
}

async function finish(claimed: Claimed, status: "failed" | "delivered"): Promise<void> {
  const delivered = status === "delivered";
  const error = delivered ? null : "answered 500";
  const attempt = { delivered, status_code: delivered ? 200 : 500, duration_ms: 1, error, answer: null };
  const rules = { ladder_s: [], suspend_ms: 0, now: new Date() };
  await transact(pool, (tx) => endAttempts(tx, [{ claimed, attempt, at: new Date() }], rules));
}

function standing<T extends object>(answer: T | Refusal): T {
  if (isRefusal(answer)) assert.fail(JSON.stringify(answer));
  return answer;
}

function refused(answer: object | Refusal): readonly (string | undefined)[] {
  assert.ok(isRefusal(answer));
  return [answer.refused, answer.field];
}

const list = async (accountId: string, more: Partial<ListDeliveriesRequest> = {}) =>
  standing(await client.listDeliveries(ListDeliveriesRequest.fromPartial({ accountId, ...more })));
const replay = (accountId: string, replayId: string, more: Partial<ReplayDeliveriesRequest> = {}) =>
  client.replayDeliveries(ReplayDeliveriesRequest.fromPartial({ accountId, replayId, ...more }));
const pending = async (account: string) => (await list(account, { status: "pending", limit: 100 })).data.length;

test("list_deliveries: every delivery once, newest first, over pages, endpoints and equal times", async () => {
  const account = "acct_pages";
  const [first, second] = [await endpoint(account), await endpoint(account)];
  await happen(account, 30);
  const seen = [];
  let cursor: string | undefined;
  do {
    const page = await list(account, { limit: 7, cursor });
    assert.equal(page.hasMore, page.nextCursor !== undefined);
    seen.push(...page.data);
    cursor = page.nextCursor;
  } while (cursor !== undefined);
  assert.equal(new Set(seen.map(({ deliveryId }) => deliveryId)).size, 60);
  const times = seen.map(({ occurredAt }) => occurredAt?.getTime() ?? 0);
  assert.deepEqual(
    times,
    [...times].sort((a, b) => b - a),
  );
  assert.equal((await list(account, { endpointId: second, limit: 100 })).data.length, 30);
  const span = { from: new Date(START + 10_000), to: new Date(START + 12_000) };
  assert.equal((await list(account, { endpointId: first, ...span })).data.length, 2);
  const page = await list(account, { limit: 7 });
  const other = ListDeliveriesRequest.fromPartial({ accountId: account, endpointId: first, cursor: page.nextCursor });
  assert.deepEqual(refused(await client.listDeliveries(other)), ["invalid_request", "cursor"]);
});

test("list_deliveries: another account's endpoint is not found, and its deliveries are not in the list", async () => {
  const id = await endpoint("acct_owner");
  await happen("acct_owner", 1);
  const [delivery] = (await list("acct_owner")).data;
  assert.ok(delivery !== undefined);
  const { deliveryId } = delivery;
  assert.deepEqual((await list("acct_thief")).data, []);
  const foreign = { accountId: "acct_thief", deliveryId };
  for (const answer of [
    await client.listDeliveries(ListDeliveriesRequest.fromPartial({ accountId: "acct_thief", endpointId: id })),
    await client.listAttempts(foreign),
    await client.replayDelivery({ ...foreign, replayId: "word" }),
    await replay("acct_thief", "word", { endpointId: id }),
  ])
    assert.deepEqual(refused(answer), ["not_found", undefined]);
});

test("list_deliveries: what holds a pending one is told, and when its next attempt is due", async () => {
  const account = "acct_held";
  const id = await endpoint(account);
  await happen(account, 1);
  const read = async () => (await list(account)).data[0];
  assert.equal((await read())?.heldBy, undefined);
  const until = new Date(Date.now() + 1_800_000);
  await pool.query("update endpoints set suspended_until = $2 where id = $1", [id, until]);
  const suspended = await read();
  assert.equal(suspended?.heldBy, "suspended");
  assert.ok(Math.abs((suspended?.nextAttemptAt?.getTime() ?? 0) - until.getTime()) < 5);
  await pool.query("update endpoints set is_active = false where id = $1", [id]);
  const inactive = await read();
  assert.deepEqual([inactive?.heldBy, inactive?.nextAttemptAt], ["inactive", undefined]);
});

test("replay_delivery: a new round, once a word, and never of one that is pending", async () => {
  const account = "acct_one";
  await endpoint(account);
  await happen(account, 1);
  const [waiting] = (await list(account)).data;
  assert.ok(waiting !== undefined);
  const { deliveryId, eventId } = waiting;
  const ask = async (replayId: string) =>
    standing(await client.replayDelivery({ accountId: account, deliveryId, replayId }));
  const rounds = async () => {
    const { rows } = await pool.query("select replay_id, attempts from deliveries where id = $1", [deliveryId]);
    return rows[0];
  };
  assert.equal((await ask("early")).status, "pending");
  assert.equal((await rounds()).replay_id, null);
  await end(account, "failed");
  const awake = woken;
  const again = await ask("click");
  assert.deepEqual([again.status, again.eventId, again.endedAt], ["pending", eventId, undefined]);
  assert.ok(woken > awake);
  assert.deepEqual(await rounds(), { replay_id: "click", attempts: 0 });
  await end(account, "delivered");
  assert.equal((await ask("click")).status, "delivered", "the second click comes after the delivery");
  const answers = await Promise.all(Array.from({ length: 16 }, () => ask("race")));
  assert.ok(answers.every(({ status }) => status === "pending"));
  assert.equal((await claim(account)).length, 1, "it waits once");
});

test("replay_delivery: a result that comes late from the round before moves nothing", async () => {
  const account = "acct_late";
  await endpoint(account);
  await happen(account, 1);
  const [lost] = await claim(account, 0);
  const [taken] = await claim(account);
  assert.ok(lost !== undefined && taken !== undefined);
  await finish(taken, "failed");
  standing(await client.replayDelivery({ accountId: account, deliveryId: lost.id, replayId: "again" }));
  await finish(lost, "delivered");
  assert.equal((await list(account)).data[0]?.status, "pending");
  const [replayed] = await claim(account);
  await finish(lost, "failed");
  assert.ok(replayed !== undefined && replayed.attempts === 0);
  await finish(replayed, "delivered");
  const [delivery] = (await list(account)).data;
  assert.deepEqual([delivery?.status, delivery?.attempts.length], ["delivered", 4], "every attempt is in the log");
});

test("replay_deliveries: an operation's events begin their new round in order", async () => {
  const account = "acct_ordered";
  await endpoint(account);
  await happen(account, 1);
  const [first] = await claim(account);
  assert.ok(first !== undefined);
  await finish(first, "failed");
  const second = { event: "payment.failed", account, mode: "live" as const, version: 2n, body: "{}" };
  const rest = { event_id: newId("evt", 9_999), operation_id: first.about, occurred_at: new Date(START + 60_000) };
  await insertDeliveries(pool, [{ ...second, ...rest }], null);
  await end(account, "failed");
  assert.equal(standing(await replay(account, "both", { from: new Date(START) })).replayed, 2);
  const [one, none] = await claim(account);
  assert.deepEqual([one?.version, none], [1n, undefined]);
  if (one !== undefined) await finish(one, "delivered");
  assert.deepEqual(
    (await claim(account)).map(({ version }) => version),
    [2n],
  );
});

test("replay_deliveries: what failed, in batches that go on where they were interrupted, nothing twice", async () => {
  const account = "acct_many";
  const id = await endpoint(account);
  await happen(account, 25);
  await end(account, "failed");
  const first = standing(await replay(account, "run", { endpointId: id, limit: 10 }));
  assert.deepEqual([first.replayed, first.upTo], [10, new Date(START + 9_000)]);
  // The answer was lost and the caller begins again: the ten are not counted a second time.
  const again = standing(await replay(account, "run", { endpointId: id, limit: 10 }));
  assert.deepEqual([again.replayed, again.upTo], [10, new Date(START + 19_000)]);
  const last = standing(await replay(account, "run", { endpointId: id, limit: 10, cursor: again.nextCursor }));
  assert.deepEqual([last.replayed, last.nextCursor], [5, undefined]);
  assert.equal(await pending(account), 25);
  await end(account, "failed");
  assert.equal(
    standing(await replay(account, "run", { endpointId: id })).replayed,
    0,
    "the same run again sends nothing",
  );
  const racing = await Promise.all(Array.from({ length: 8 }, (_, at) => replay(account, `r${at}`, { endpointId: id })));
  assert.equal(
    racing.reduce((sum, answer) => sum + standing(answer).replayed, 0),
    25,
    "of eight operators at once each delivery has one",
  );
});

test("replay_deliveries: a time span, the failed alone unless what was delivered is asked for too", async () => {
  const account = "acct_span";
  await endpoint(account);
  await happen(account, 10);
  await end(account, "delivered");
  const span = { from: new Date(START + 2_000), to: new Date(START + 5_000) };
  assert.equal(standing(await replay(account, "a", span)).replayed, 0);
  assert.equal(standing(await replay(account, "b", { ...span, includeDelivered: true })).replayed, 3);
  assert.equal(await pending(account), 3);
  assert.deepEqual(refused(await replay(account, "c")), ["invalid_request", "endpoint_id"]);
  assert.deepEqual(refused(await replay(account, "two words", span)), ["invalid_request", "replay_id"]);
  assert.deepEqual(refused(await replay(account, "d", { ...span, limit: 501 })), ["invalid_request", "limit"]);
});
