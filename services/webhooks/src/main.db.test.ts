// The process as it runs in the house: from an event on the stream to the merchant's receiver, through a SIGKILL.

import assert from "node:assert/strict";
import { type ChildProcess, fork } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type Server } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { type Events, openEvents } from "@cauri/events/events";
import { type TestNats, testNats } from "@cauri/events/testing";
import { newId } from "@cauri/money/ids";
import { isRefusal } from "@cauri/money/refusal";
import { ClockAdvanced, OperationNews } from "@cauri/proto/ts/cauri/events/v1/events";
import { CreateEndpointRequest, WebhookServiceClient } from "@cauri/proto/ts/cauri/webhooks/v1/webhooks";
import { houseCaller } from "@cauri/rpc/caller";
import { connectClient } from "@cauri/rpc/client";
import { logger } from "@cauri/rpc/log";
import { type TestDatabase, testDatabase } from "@cauri/store/testing";
import { serverIdentity, writeAuthority } from "../../../test/authority.ts";

type Ready = { readonly ports: { readonly rpc: number; readonly metrics: number } };

const folder = mkdtempSync(join(tmpdir(), "cauri-webhooks-main-"));
/** The operation whose first attempt is refused. */
const LADDER = "pay_ladder";
const log = logger("webhooks-test", "silent");
/** How often each event arrived, by its id, and the status that the ladder's operation is answered. */
const arrivals = new Map<string, number>();
const order: string[] = [];
let answer = 200;
let receiver: Server;
let url: string;
let database: TestDatabase;
let nats: TestNats;
let events: Events;
let child: ChildProcess;

before(async () => {
  await writeAuthority(folder);
  receiver = createServer(serverIdentity(folder), async (request, response) => {
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    const id = String(request.headers["x-service-delivery"]);
    arrivals.set(id, (arrivals.get(id) ?? 0) + 1);
    order.push(id);
    // Others may come once more meanwhile: what the killed process held. Twenty failures would suspend the endpoint.
    response.writeHead(Buffer.concat(parts).includes(LADDER) ? answer : 200).end();
  });
  // It never hangs up: an attempt on a connection that is just being closed would fail without having arrived.
  receiver.keepAliveTimeout = 0;
  await new Promise<void>((open) => receiver.listen(0, "127.0.0.1", open));
  url = `https://127.0.0.1:${(receiver.address() as AddressInfo).port}/hooks`;
  database = await testDatabase("webhooks", [join(import.meta.dirname, "..", "migrations")]);
  nats = await testNats();
  events = await openEvents({ nats_url: nats.url, room: "collections", log });
});
after(async () => {
  child?.kill("SIGKILL");
  await events?.close();
  await nats?.close();
  await database?.close();
  receiver?.closeAllConnections();
  receiver?.close();
  rmSync(folder, { recursive: true });
});

const environment = () => ({
  NATS_URL: nats.url,
  CAURI_WEBHOOKS_DATABASE_URL: database.url,
  CAURI_RPC_TOKEN: "house",
  CAURI_FINGERPRINT_KEY: "fingerprint",
  CAURI_VAULT_KEYS: vault,
  CAURI_WEBHOOK_ALLOW: "127.0.0.0/8",
  CAURI_WEBHOOK_CA: join(folder, "ca.pem"),
  // A lease is the time-out plus 10 s: what a killed process held comes again after this.
  CAURI_WEBHOOK_TIMEOUT_MS: "10000",
  CAURI_LOG_LEVEL: "error",
});
const vault = `k1:${randomBytes(32).toString("base64")}`;

/** Starts the process; its client is opened to the port that it tells. */
async function start() {
  const unset = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("CAURI_")));
  child = fork(join(import.meta.dirname, "main.ts"), {
    env: { ...unset, ...environment() },
    stdio: ["ignore", 2, 2, "ipc"],
  });
  const { ports } = await new Promise<Ready>((resolve, reject) => {
    child.once("message", (said) => resolve(said as Ready));
    child.once("exit", (code) => reject(new Error(`the process left with ${code}`)));
  });
  return connectClient(WebhookServiceClient, { address: `127.0.0.1:${ports.rpc}`, token: "house" });
}

/** Asks the process to leave and answers its exit code. */
async function leave(): Promise<number | null> {
  const left = new Promise<number | null>((resolve) => child.once("exit", resolve));
  child.kill("SIGTERM");
  return child.exitCode ?? left;
}

async function publish(account: string, operation_id: string, version: number): Promise<string> {
  const event_id = newId("evt", Date.now());
  const payload = OperationNews.encode(
    OperationNews.fromPartial({
      event: version === 1 ? "payment.initiated" : "payment.success",
      id: operation_id,
      reference: "PAY-TEST00000000",
      amountMinor: 1500n,
      assetId: "ast_xof",
      currency: "XOF",
      status: version === 1 ? "initiated" : "success",
      account,
      mode: "test",
      version: BigInt(version),
      occurredAt: new Date(),
      eventId: event_id,
    }),
  ).finish();
  await events.js.publish(`cauri.collections.payment.${version === 1 ? "initiated" : "success"}`, payload, {
    msgID: event_id,
  });
  return event_id;
}

async function until(what: string, ask: () => boolean, within_ms: number): Promise<void> {
  for (const end = Date.now() + within_ms; !ask(); await new Promise((wake) => setTimeout(wake, 10))) {
    if (Date.now() > end) assert.fail(`not within ${within_ms} ms: ${what}`);
  }
}

test("process: an event on the stream reaches the receiver, in the order of its operation", async () => {
  const client = await start();
  const caller = houseCaller("acct_1", "test", "req-1", newId("whk", Date.now()));
  assert.ok(!isRefusal(await client.createEndpoint(CreateEndpointRequest.fromPartial({ url }), { caller })));
  const first = await publish("acct_1", "pay_1", 1);
  const second = await publish("acct_1", "pay_1", 2);
  await until("both events", () => arrivals.has(first) && arrivals.has(second), 60_000);
  assert.ok(order.indexOf(first) < order.indexOf(second));
  client.closeChannel();
});

test("process: killed in the middle of a stream of events, every one arrives, and few twice", async () => {
  const ids: string[] = [];
  for (let at = 0; at < 150; at += 1) {
    ids.push(await publish("acct_1", `pay_k${at}`, 2));
    if (at === 75) child.kill("SIGKILL");
  }
  const client = await start();
  await until("all events", () => ids.every((id) => arrivals.has(id)), 60_000);
  const again = ids.filter((id) => (arrivals.get(id) ?? 0) > 1).length;
  assert.ok(again <= 20, `${again} arrived twice; no more than what was under way may`);
  client.closeChannel();
});

test("process: a drain makes the ladder's next attempt when the test clock has passed it", async () => {
  assert.equal(await leave(), 0);
  const client = await start();
  answer = 500;
  const id = await publish("acct_1", LADDER, 2);
  // What the killed process had under way may fill the endpoint's cap until its leases run out.
  await until("the first attempt", () => arrivals.get(id) === 1, 60_000);
  // Its result must be written before the clock moves: the next attempt is due 60 s of the test clock after that.
  const attempts = "select attempts from deliveries where event_id = $1";
  while ((await database.pool.query(attempts, [id])).rows[0]?.attempts !== 1) await sleep(10);
  answer = 200;
  const offset = { account: "acct_1", offsetMs: 61_000n };
  const payload = ClockAdvanced.encode(offset).finish();
  await events.js.publish("cauri.accounts.clock.advanced", payload, { msgID: "evt_clock" });
  const drained = await client.drain(offset, { timeout_ms: 60_000 });
  assert.ok(!isRefusal(drained));
  assert.equal(arrivals.get(id), 2, "the attempt had ended when the drain answered");
  const rest = await client.drain(offset, { timeout_ms: 60_000 });
  assert.ok(!isRefusal(rest) && rest.done === 0n);
  client.closeChannel();
  assert.equal(await leave(), 0);
});
