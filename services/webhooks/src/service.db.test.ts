// The routes through the real gRPC server, on a real PostgreSQL, with a real HTTPS receiver; races are races here.

import assert from "node:assert/strict";
import { createHmac, randomBytes } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer, type Server } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { newId } from "@cauri/money/ids";
import { isRefusal, type Refusal } from "@cauri/money/refusal";
import {
  CreateEndpointRequest,
  type EndpointWithSecret,
  UpdateEndpointRequest,
  WebhookServiceClient,
} from "@cauri/proto/ts/cauri/webhooks/v1/webhooks";
import { type Caller, houseCaller } from "@cauri/rpc/caller";
import { connectClient } from "@cauri/rpc/client";
import { logger } from "@cauri/rpc/log";
import { type RunningServer, startServer } from "@cauri/rpc/server";
import { openCipher } from "@cauri/store/cipher";
import { type Pool, transact } from "@cauri/store/pool";
import { type TestDatabase, testDatabase } from "@cauri/store/testing";
import { serverIdentity, writeAuthority } from "../../../test/authority.ts";
import { type Event, insertDeliveries } from "./arrival-store.ts";
import { claimDue, giveBack } from "./delivery-store.ts";
import { type Dialer, openDialer } from "./dialer.ts";
import { parseNetworks } from "./guard.ts";
import { openSender, type Sender } from "./sender.ts";
import { webhookService } from "./service.ts";
import { forgetRemoved } from "./upkeep-store.ts";

type Received = { readonly path: string; readonly body: string; readonly headers: NodeJS.Dict<string | string[]> };

const settings = { CAURI_BIND_HOST: "127.0.0.1", CAURI_RPC_PORT: 0, CAURI_RPC_TOKEN: "house", CAURI_DRAIN_MS: 1_000 };
const log = logger("webhooks-test", "silent");
const folder = mkdtempSync(join(tmpdir(), "cauri-webhooks-"));
const received: Received[] = [];
const given_up = Promise.withResolvers<void>();
let receiver: Server;
let base: string;
let database: TestDatabase;
let dialer: Dialer;
let sender: Sender;
let openSenderOn: (pool: Pool) => Sender;
let server: RunningServer;
let client: ReturnType<typeof connect>;

const connect = () => connectClient(WebhookServiceClient, { address: `127.0.0.1:${server.port}`, token: "house" });

before(async () => {
  await writeAuthority(folder);
  // `/hang…` does not answer until it is told to give up, `/no…` answers 500, everything else 200.
  receiver = createServer(serverIdentity(folder), async (request, response) => {
    const path = request.url ?? "";
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    received.push({ path, body: Buffer.concat(parts).toString("utf8"), headers: request.headers });
    if (path.startsWith("/hang")) await given_up.promise.then(() => response.destroy());
    else response.writeHead(path.startsWith("/no") ? 500 : 200).end();
  });
  // It never hangs up: an attempt on a connection that is just being closed would fail without having arrived.
  receiver.keepAliveTimeout = 0;
  await new Promise<void>((open) => receiver.listen(0, "127.0.0.1", open));
  base = `https://localhost:${(receiver.address() as AddressInfo).port}`;
  database = await testDatabase("webhooks", [join(import.meta.dirname, "..", "migrations")]);
  const { pool } = database;
  const cipher = openCipher(`k1:${randomBytes(32).toString("base64")}`);
  const ca = readFileSync(join(folder, "ca.pem"), "utf8");
  dialer = openDialer({ allowed: parseNetworks("127.0.0.0/8,::1"), timeout_ms: 30_000, ca });
  openSenderOn = (lane) =>
    openSender({
      ...{ pool: lane, dialer, cipher, parallel: 64, per_endpoint: 8, per_account: 40 },
      ...{ grace_ms: 1_000, timeout_ms: 30_000, ladder_s: [60, 300, 1800, 7200], suspend_ms: 3_600_000 },
      ...{ wake: () => {}, now: Date.now, log, observe: () => {} },
    });
  sender = openSenderOn(pool);
  const service = webhookService({
    pool,
    dialer,
    cipher,
    fingerprint_key: "fingerprint",
    now: Date.now,
    wake: () => {},
    drain: async () => ({ done: 0n }),
  });
  server = await startServer({ room: "webhooks", settings, services: [service], log });
  client = connect();
});
after(async () => {
  client?.closeChannel();
  await server?.drain();
  await dialer?.close();
  await sender?.stop();
  await database?.close();
  receiver?.closeAllConnections();
  receiver?.close();
  rmSync(folder, { recursive: true });
});

/** A request as the gateway sends it: an operation id is minted for each. */
function caller(account: string, key: string | null = null): Caller {
  const caller = houseCaller(account, "test", "req", newId("whk", Date.now()));
  return { ...caller, key_id: "key_1", idempotency_key: key, deadline_ms: Date.now() + 60_000 };
}

function register(account: string, body: Partial<CreateEndpointRequest>, key: string | null = null) {
  return client.createEndpoint(CreateEndpointRequest.fromPartial(body), { caller: caller(account, key) });
}

async function registered(account: string, path: string, body: Partial<CreateEndpointRequest> = {}) {
  return standing(await register(account, { url: `${base}${path}`, ...body }));
}

function standing<T extends object>(answer: T | Refusal): T {
  if (isRefusal(answer)) assert.fail(JSON.stringify(answer));
  return answer;
}

function refused(answer: object | Refusal): Refusal {
  assert.ok(isRefusal(answer));
  return answer;
}

async function list(account: string) {
  return standing(await client.listEndpoints({}, { caller: caller(account) })).data;
}

/** Changes as the gateway does: the mask names what was sent. */
function patch(account: string, id: bigint | string, body: Partial<UpdateEndpointRequest>, mask: string[]) {
  const message = UpdateEndpointRequest.fromPartial({ ...body, id: String(id), updateMask: mask });
  return client.updateEndpoint(message, { caller: caller(account) });
}

function event(account: string, operation_id: string): Event {
  const event_id = newId("evt", Date.now());
  const body = JSON.stringify({ event: "payment.success", data: { id: operation_id } });
  const occurred_at = new Date();
  const shared = { event_id, event: "payment.success", account, mode: "test" as const, body };
  return { ...shared, operation_id, version: 1n, occurred_at };
}

const deliver = (...events: Event[]) => insertDeliveries(database.pool, events, null);
const secretForm = /^whsec_[A-Za-z0-9+/]{43}=$/;

test("create_endpoint: what was asked for stands, with a secret that can be read again and is nowhere in the clear", async () => {
  const made = await registered("acct_make", "/a", { description: "shop", subscribedEvents: ["payment.success"] });
  assert.match(made.secret, secretForm);
  assert.deepEqual([made.description, made.subscribedEvents, made.isActive], ["shop", ["payment.success"], true]);
  const { secret, ...rest } = made;
  const again = await client.getEndpointSecret({ id: String(made.id) }, { caller: caller("acct_make") });
  assert.deepEqual(again, { secret, previousSecret: undefined });
  assert.deepEqual(await client.getEndpoint({ id: String(made.id) }, { caller: caller("acct_make") }), rest);
  const { rows } = await database.pool.query("select encode(secret_sealed, 'escape') as kept from endpoints");
  assert.ok(!JSON.stringify(rows).includes(secret));
});

test("create_endpoint: the same URL again is the same endpoint, unchanged, also at the limit of ten", async () => {
  const made = [];
  for (let at = 0; at < 10; at += 1) made.push(await registered("acct_ten", `/t/${at}`));
  const again = standing(await register("acct_ten", { url: `${base.toUpperCase()}/t/../t/3`, description: "new" }));
  assert.deepEqual(again, made[3]);
  const eleventh = refused(await register("acct_ten", { url: `${base}/t/10` }));
  assert.deepEqual([eleventh.refused, eleventh.field], ["invalid_request", "url"]);
  assert.equal((await list("acct_ten")).length, 10);
});

test("create_endpoint: ten hold under a race of thirty, and one URL is one endpoint", async () => {
  const answers = await Promise.all(
    Array.from({ length: 30 }, (_, at) => register("acct_race", { url: `${base}/r/${at % 15}` })),
  );
  const stand = answers.filter((answer): answer is EndpointWithSecret => !isRefusal(answer));
  assert.equal(new Set(stand.map(({ id }) => id)).size, 10);
  assert.equal((await list("acct_race")).length, 10);
  for (const answer of answers) if (isRefusal(answer)) assert.equal(answer.refused, "invalid_request");
});

test("create_endpoint: a key answers the same payload with the same endpoint, and refuses another", async () => {
  const account = "acct_key";
  const first = standing(await register(account, { url: `${base}/k/1` }, "key-1"));
  assert.deepEqual(await register(account, { url: `${base}/k/1` }, "key-1"), first);
  assert.equal(refused(await register(account, { url: `${base}/k/2` }, "key-1")).refused, "concurrent_request");
  // A key that found an endpoint standing is bound to its payload too.
  assert.deepEqual(await register(account, { url: `${base}/k/1` }, "key-2"), first);
  assert.deepEqual(await register(account, { url: `${base}/k/1` }, "key-2"), first);
  assert.equal(refused(await register(account, { url: `${base}/k/3` }, "key-2")).refused, "concurrent_request");
  assert.equal((await list(account)).length, 1);
});

test("create_endpoint: a refused request is not remembered, its key may be used with a mended payload", async () => {
  const account = "acct_mend";
  assert.equal(refused(await register(account, { url: "http://shop.example.com" }, "key-1")).field, "url");
  for (let at = 0; at < 10; at += 1) await registered(account, `/m/${at}`);
  assert.equal(refused(await register(account, { url: `${base}/m/x` }, "key-2")).field, "url");
  const [newest] = await list(account);
  await client.deleteEndpoint({ id: String(newest?.id) }, { caller: caller(account) });
  standing(await register(account, { url: `${base}/m/y` }, "key-2"));
});

test("create_endpoint: 64 racing requests with one key make one endpoint", async () => {
  const account = "acct_64";
  const answers = await Promise.all(
    Array.from({ length: 64 }, () => register(account, { url: `${base}/64` }, "one-key")),
  );
  assert.equal(new Set(answers.map((answer) => standing(answer).id)).size, 1);
  assert.equal((await list(account)).length, 1);
});

test("create_endpoint: every refusal names its field, and nothing is created", async () => {
  const wrong: [Partial<CreateEndpointRequest>, string][] = [
    [{ url: "http://shop.example.com/" }, "url"],
    [{ url: "shop.example.com" }, "url"],
    [{ url: "https://user:pass@shop.example.com/" }, "url"],
    [{ url: "https://shop.example.com/#part" }, "url"],
    [{ url: "https://10.0.0.1/" }, "url"],
    [{ url: "https://[::ffff:169.254.169.254]/" }, "url"],
    [{ url: "https://0xA9FEA9FE/" }, "url"],
    [{ url: `${base}/`, subscribedEvents: ["payment.success", "transfer.success"] }, "subscribed_events.1"],
    [{ url: `${base}/`, subscribedEvents: ["payment.*"] }, "subscribed_events.0"],
  ];
  for (const [body, field] of wrong) {
    const answer = refused(await register("acct_wrong", body));
    assert.deepEqual([answer.refused, answer.field], ["invalid_request", field], JSON.stringify(body));
  }
  assert.deepEqual(await list("acct_wrong"), []);
});

test("update_endpoint: only what the mask names changes; an empty text and an empty list clear", async () => {
  const account = "acct_patch";
  const made = await registered(account, "/p/1", { description: "old", subscribedEvents: ["payment.failed"] });
  const other = await registered(account, "/p/2");
  const paused = standing(await patch(account, made.id, { isActive: false, description: "x" }, ["is_active"]));
  assert.deepEqual([paused.isActive, paused.description, paused.url], [false, "old", made.url]);
  const cleared = standing(await patch(account, made.id, { description: "" }, ["description", "subscribed_events"]));
  assert.deepEqual([cleared.description, cleared.subscribedEvents, cleared.isActive], [undefined, [], false]);
  assert.equal(standing(await patch(account, made.id, { url: `${base}/p/3` }, ["url"])).url, `${base}/p/3`);
  assert.equal(refused(await patch(account, made.id, { url: other.url }, ["url"])).field, "url");
  assert.equal(refused(await patch(account, made.id, { url: "https://192.168.1.1/" }, ["url"])).field, "url");
  const mask = ["standard_headers"];
  assert.equal(standing(await patch(account, made.id, { standardHeaders: true }, mask)).standardHeaders, true);
  assert.equal(standing(await patch(account, made.id, { isActive: true }, ["is_active"])).standardHeaders, true);
  assert.equal(standing(await patch(account, made.id, { standardHeaders: false }, mask)).standardHeaders, false);
});

test("another account's endpoint is not found, whatever is done with it; neither is what can't be a number", async () => {
  const { id } = await registered("acct_owner", "/o");
  for (const number of [String(id), "0", "-1", "x", "1.5", "99999999999999999999"]) {
    const as = { caller: caller("acct_thief") };
    for (const answer of [
      await client.getEndpoint({ id: number }, as),
      await client.getEndpointSecret({ id: number }, as),
      await client.deleteEndpoint({ id: number }, as),
      await patch("acct_thief", number, { url: "nonsense" }, ["url"]),
    ]) {
      assert.equal(refused(answer).refused, "not_found", number);
    }
  }
  assert.equal((await list("acct_owner")).length, 1);
});

test("test_endpoints: every active endpoint at once, signed; a success reinstates, a failure counts nowhere", async () => {
  const account = "acct_test";
  assert.equal(refused(await client.testEndpoints({}, { caller: caller(account) })).refused, "no_active_endpoint");
  const good = await registered(account, "/good", { subscribedEvents: ["payment.failed"] });
  const bad = await registered(account, "/no/1");
  const off = await registered(account, "/off");
  await patch(account, off.id, { isActive: false }, ["is_active"]);
  const suspend = "update endpoints set consecutive_failures = 20, suspended_until = now() + interval '1 hour'";
  await database.pool.query(`${suspend} where id = $1`, [good.id]);
  const { data } = standing(await client.testEndpoints({}, { caller: caller(account) }));
  assert.deepEqual(
    data.map(({ endpointId, delivered, statusCode, error }) => [endpointId, delivered, statusCode, error]),
    [
      [bad.id, false, 500, "answered 500"],
      [good.id, true, 200, undefined],
    ],
  );
  const [, badNow, goodNow] = await list(account);
  assert.deepEqual([goodNow?.consecutiveFailures, goodNow?.suspendedUntil], [0, undefined]);
  assert.deepEqual([badNow?.consecutiveFailures, badNow?.lastDeliveryAt], [0, undefined]);
  const arrived = received.find(({ path }) => path === "/good");
  assert.ok(arrived !== undefined && !received.some(({ path }) => path === "/off"));
  const form =
    /^\{"event":"payment\.test","created":"[^"]+Z","data":\{"id":"(evt_[0-9A-Z]{26})","reference":"PAY-TEST[0-9A-Z]{8}","merchant_reference":null,"amount":"0","currency":"XOF","status":"test"\}\}$/;
  assert.equal(form.exec(arrived.body)?.[1], arrived.headers["x-service-delivery"]);
  const [, t, v1] = /^t=(\d+),v1=([0-9a-f]{64})$/.exec(String(arrived.headers["x-service-signature"])) ?? [];
  assert.equal(v1, createHmac("sha256", good.secret).update(`${t}.${arrived.body}`).digest("hex"));
  assert.equal(arrived.headers["x-service-mode"], "test");
});

test("sender: an endpoint that hangs and one that fails delay nobody", async () => {
  const account = "acct_pump";
  const hanging = await registered(account, "/hang");
  const failing = await registered(account, "/no/2");
  await registered(account, "/quick");
  const events = Array.from({ length: 30 }, (_, at) => event(account, `pay_${at}`));
  await deliver(...events);
  const arrived = () => new Set(received.filter(({ path }) => path === "/quick").map(({ body }) => body)).size;
  sender.hint();
  while (arrived() < 30) {
    await sender.pump();
    const { rowCount } = await database.pool.query("select 1 from flights where endpoint_id = $1", [hanging.id]);
    assert.ok((rowCount ?? 0) <= 8, `${rowCount} attempts under way at the hanging endpoint`);
    await new Promise((wake) => setTimeout(wake, 10));
  }
  assert.ok(received.filter(({ path }) => path === "/hang").length <= 8, "the quick one's are done first");
  given_up.resolve();
  await sender.drain(account);
  const states = new Map((await list(account)).map((endpoint) => [endpoint.id, endpoint]));
  for (const { id } of [hanging, failing]) {
    assert.equal(states.get(id)?.consecutiveFailures, 20);
    assert.ok(states.get(id)?.suspendedUntil !== undefined);
  }
  const delivered = received.filter(({ path }) => path === "/no/2").length;
  assert.equal(delivered, 20, "not one attempt more than twenty");
});

/** Ten deliveries wait, and another replica has eight of them under way: that is the endpoint's cap. */
async function filled(account: string) {
  const { id } = await registered(account, `/${account}`);
  await deliver(...Array.from({ length: 10 }, (_, at) => event(account, `pay_${at}`)));
  const other = { endpoints: [id], limit: 8, per_endpoint: 8, per_account: 40, lease_ms: 600_000, now: new Date() };
  const { claimed } = await transact(database.pool, (tx) => claimDue(tx, other));
  assert.equal(claimed.length, 8);
  return claimed;
}

test("drain: waits for what another replica has under way, which may fill the endpoint's cap", async () => {
  const account = "acct_cap";
  const claimed = await filled(account);
  const drained = sender.drain(account);
  assert.equal(await Promise.race([drained, sleep(300, "waits")]), "waits");
  // The other one dies: its leases run out.
  await giveBack(database.pool, claimed);
  assert.equal(await drained, 10);
  assert.equal(received.filter(({ path }) => path === "/acct_cap").length, 10);
});

test("drain: what comes back from another replica between its claim and its next look is sent as well", async () => {
  const account = "acct_between";
  const claimed = await filled(account);
  const { pool } = database;
  let back: Promise<void> | undefined;
  let has_claimed = false;
  const connect = () => {
    has_claimed = true;
    return pool.connect();
  };
  const query = async (text: string, values: unknown[]) => {
    if (has_claimed) back ??= giveBack(pool, claimed);
    await back;
    return pool.query(text, values);
  };
  const other = openSenderOn(Object.create(pool, { connect: { value: connect }, query: { value: query } }));
  assert.equal(await other.drain(account), 10);
  await other.stop();
});

test("delete_endpoint: what waits for it goes with it, and the URL may be registered anew", async () => {
  const account = "acct_delete";
  const made = await registered(account, "/d");
  await deliver(event(account, "pay_1"));
  standing(await client.deleteEndpoint({ id: String(made.id) }, { caller: caller(account) }));
  while ((await forgetRemoved(database.pool)) !== null);
  const { rows } = await database.pool.query("select id from deliveries where account = $1", [account]);
  assert.deepEqual(rows, []);
  const anew = await registered(account, "/d");
  assert.ok(anew.id > made.id);
  assert.notEqual(anew.secret, made.secret);
});

test("insert_deliveries: an endpoint does not get events that are older than itself", async () => {
  const account = "acct_young";
  await registered(account, "/y");
  const old = { ...event(account, "pay_old"), occurred_at: new Date(Date.now() - 60_000) };
  assert.equal((await deliver(old, event(account, "pay_new"))).queued.length, 1);
});
