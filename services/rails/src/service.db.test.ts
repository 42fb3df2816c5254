// The room as a process: its RPCs over gRPC, its callbacks through a gateway, its loops, its log, its test clock, and
// what a SIGKILL in the middle of payments leaves behind.

import assert from "node:assert/strict";
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { type TestNats, testNats } from "@cauri/events/testing";
import { systemClock } from "@cauri/money/clock";
import { newId } from "@cauri/money/ids";
import { newReference } from "@cauri/money/reference";
import { isRefusal } from "@cauri/money/refusal";
import {
  AttemptOutcome,
  type CollectRequest,
  type CollectResponse,
  RailsServiceClient,
  type RailsServiceService,
} from "@cauri/proto/ts/cauri/rails/v1/rails";
import { houseCaller } from "@cauri/rpc/caller";
import { connectClient, type Promisified } from "@cauri/rpc/client";
import { type TestDatabase, testDatabase } from "@cauri/store/testing";
import { moveClock, newsOf, phoneOf, until } from "./testing.ts";

type Client = Promisified<RailsServiceService>;

let database: TestDatabase;
let nats: TestNats;
let room: { client: Client; child: ChildProcess };
const lines: string[] = [];
const statuses: number[] = [];
const VAULT_KEY = Buffer.alloc(32, 3).toString("base64");

/** Passes callbacks on as the gateway does; 503 while the room is away. */
const gateway = createServer(async (request, response) => {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  const headers = Object.fromEntries(Object.entries(request.headers).map(([name, value]) => [name, String(value)]));
  const call = { connector: request.url?.split("/").at(-1) ?? "", headers, body: Buffer.concat(chunks) };
  const answer = await room.client.receiveCallback(call, { timeout_ms: 10_000 }).catch(() => null);
  const status =
    answer === null || isRefusal(answer) ? 503 : answer.authentic ? 200 : answer.connectorKnown ? 401 : 404;
  statuses.push(status);
  response.writeHead(status).end();
});

async function startRoom(): Promise<typeof room> {
  const child = fork(join(import.meta.dirname, "main.ts"), {
    env: {
      PATH: process.env["PATH"],
      NATS_URL: nats.url,
      CAURI_RAILS_DATABASE_URL: database.url,
      CAURI_RPC_TOKEN: "house",
      CAURI_VAULT_KEYS: `k1:${VAULT_KEY}`,
      CAURI_CALLBACK_URL: `http://127.0.0.1:${(gateway.address() as AddressInfo).port}`,
      CAURI_PAY_URL: "https://pay.test",
      CAURI_SIM_SECRET: "sim-secret-of-the-process",
      CAURI_SIM_DELAY_MS: "300",
    },
    stdio: ["ignore", "pipe", "inherit", "ipc"],
  });
  child.stdout?.on("data", (chunk: Buffer) => lines.push(chunk.toString("utf8")));
  const [message] = (await once(child, "message")) as [{ ports: { rpc: number } }];
  const client = connectClient(RailsServiceClient, { address: `127.0.0.1:${message.ports.rpc}`, token: "house" });
  return { client, child };
}

before(async () => {
  gateway.listen(0, "127.0.0.1");
  [database, nats] = await Promise.all([
    testDatabase("rails", [join(import.meta.dirname, "../migrations")]),
    testNats(),
    once(gateway, "listening"),
  ]);
  room = await startRoom();
});

after(async () => {
  room.client.closeChannel();
  room.child.kill("SIGTERM");
  const [code] = room.child.exitCode === null ? await once(room.child, "exit") : [room.child.exitCode];
  gateway.closeAllConnections();
  gateway.close();
  await nats.close();
  await database.close();
  assert.equal(code, 0, "the room leaves in order");
});

function payment(changes: Partial<CollectRequest> = {}): CollectRequest {
  return {
    operationId: newId("pay", systemClock()),
    reference: newReference("PAY", "test"),
    amountMinor: 2500n,
    assetId: "ast_xof",
    currency: "XOF",
    scale: 0,
    platformId: "plt_mtn_ci",
    rails: ["mtn_momo"],
    forced: false,
    expiresAt: new Date(systemClock() + 3_600_000),
    merchantName: "Chez Awa",
    ...changes,
  };
}

const ACCOUNT = newId("acct", systemClock());
const options = { caller: houseCaller(ACCOUNT, "test", "req-test"), timeout_ms: 60_000 };

async function collect(request: CollectRequest, phone?: string): Promise<CollectResponse> {
  if (phone !== undefined) {
    const payer = { phone, name: "Awa Koné", email: "awa.kone@exemple.com" };
    const kept = await room.client.keepPayer(
      { operationId: request.operationId, country: "CI", payer, fieldPath: "payer" },
      options,
    );
    assert.deepEqual(kept, { phone: `+22507*****${phone.slice(-2)}`, name: "A*** K***", email: "a***@e***.com" });
  }
  const answer = await room.client.collect(request, options);
  assert.ok(!isRefusal(answer));
  return answer;
}

const hears = (request: CollectRequest, status: string) =>
  until(`${status} is told`, async () =>
    (await newsOf(database.pool, request.operationId)).some((news) => news.status === status),
  );

test("keep_payer: a wrong phone is a refusal that names the field", async () => {
  const refused = await room.client.keepPayer(
    { operationId: newId("pay", 1), country: "CI", payer: { phone: "+221771234567" }, fieldPath: "payer" },
    options,
  );
  assert.deepEqual(refused, {
    refused: "invalid_request",
    field: "payer.phone",
    message: "not a valid phone number for CI",
  });
});

test("collect: pending, then the loop delivers, the callback passes the gateway and the news leave", async () => {
  const request = payment();
  const answer = await collect(request, phoneOf("00"));
  assert.equal(answer.outcome, AttemptOutcome.PENDING);
  assert.equal(answer.rail, "mtn_momo");
  await hears(request, "success");
  await until("the outbox is sent", async () => {
    const text = "select from outbox_unsent u join outbox o on o.seq = u.seq where o.topic = $1";
    return (await database.pool.query(text, [request.operationId])).rowCount === 0;
  });
  const again = await collect(request);
  assert.deepEqual([again.outcome, again.version, again.railAmountMinor], [AttemptOutcome.SUCCESS, 2n, 2500n]);
  assert.ok(statuses.includes(200));
});

test("collect: refused, unavailable and unknown are told apart", async () => {
  assert.equal((await collect(payment(), phoneOf("05"))).outcome, AttemptOutcome.REFUSED);
  assert.equal((await collect(payment(), phoneOf("12"))).outcome, AttemptOutcome.UNAVAILABLE);
  const unknown = payment();
  assert.equal((await collect(unknown, phoneOf("06"))).outcome, AttemptOutcome.UNKNOWN);
  await hears(unknown, "success");
});

test("page: approved over gRPC; an unknown token or decision is refused", async () => {
  const request = payment({ rails: ["wave"], platformId: "plt_wave_ci", returnUrl: "https://shop.test/back" });
  const { paymentUrl } = await collect(request);
  const token = paymentUrl?.split("/").at(-1) ?? "";
  const page = await room.client.decideSimulatorPage({ token, decision: "approve" });
  assert.ok(!isRefusal(page));
  assert.deepEqual([page.state, page.amount, page.nextUrl], ["approved", "2500 XOF", "https://shop.test/back"]);
  await hears(request, "success");
  const lost = await room.client.getSimulatorPage({ token: "lost" });
  assert.ok(isRefusal(lost) && lost.refused === "not_found");
  const wrong = await room.client.decideSimulatorPage({ token, decision: "perhaps" });
  assert.ok(isRefusal(wrong) && wrong.field === "decision");
});

test("ask, advance: only for the account that owns the operation", async () => {
  const request = payment();
  await collect(request, phoneOf("04"));
  const other = { ...options, caller: houseCaller(newId("acct", 1), "test", "req-other") };
  const { operationId } = request;
  assert.deepEqual(await room.client.advanceSimulator({ operationId, to: "success" }, other), { moved: false });
  const asked = await room.client.ask({ operationId }, other);
  assert.ok(!isRefusal(asked) && asked.outcome === AttemptOutcome.NOT_FOUND);
  assert.deepEqual(await room.client.advanceSimulator({ operationId, to: "failed" }, options), { moved: true });
  await hears(request, "failed");
  assert.deepEqual(await room.client.advanceSimulator({ operationId, to: "failed" }, options), { moved: false });
});

test("drain: does what is due on the account's clock, until nothing is", async () => {
  const request = payment();
  await collect(request, phoneOf("08"));
  await moveClock(database.pool, ACCOUNT, 61_000);
  const { rows } = await database.pool.query("select offset_ms from clocks where account = $1", [ACCOUNT]);
  const drained = await room.client.drain(
    { account: ACCOUNT, offsetMs: rows[0]?.["offset_ms"] },
    { timeout_ms: 60_000 },
  );
  assert.ok(!isRefusal(drained));
  await hears(request, "success");
  const again = await room.client.drain({ account: ACCOUNT, offsetMs: 0n }, { timeout_ms: 60_000 });
  assert.deepEqual(again, { done: 0n });
});

test("crash: a SIGKILL in the middle of payments loses none and charges none twice", async () => {
  const requests = Array.from({ length: 40 }, () => payment());
  const phones = requests.map((_, at) => phoneOf(["00", "01", "07", "11"][at % 4] ?? "00"));
  const first = Promise.allSettled(requests.map((request, at) => collect(request, phones[at])));
  setTimeout(() => room.child.kill("SIGKILL"), 40);
  await once(room.child, "exit");
  room.client.closeChannel();
  await first;
  room = await startRoom();
  // Collections goes on with what it heard nothing of, once its own lease is over; the room's lease is the shorter one.
  await database.pool.query("update attempts set lease_until = now() where lease_until is not null");
  await Promise.all(requests.map((request, at) => collect(request, phones[at])));
  for (const request of requests) await hears(request, "success");
  const ids = requests.map(({ reference }) => reference);
  const { rows } = await database.pool.query(
    "select count(reference)::integer as n from simulator_charges where reference = any($1)",
    [ids],
  );
  assert.deepEqual(rows, [{ n: requests.length }]);
  for (const request of requests) {
    const successes = (await newsOf(database.pool, request.operationId)).filter((news) => news.status === "success");
    assert.equal(successes.length, 1);
  }
});

test("log: no payer detail, token, key or secret was written", () => {
  const log = lines.join("");
  assert.ok(log.includes("RailsService/Collect"));
  for (const secret of ["0707070", "Koné", "awa.kone", "exemple.com", VAULT_KEY, "sim-secret", "pay.test/simulator"]) {
    assert.ok(!log.includes(secret), `${secret} was logged`);
  }
});
