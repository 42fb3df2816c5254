// A payment as an SRE follows it: one trace from the edge to the delivered webhook, with log lines that carry its ids.
// It has a house of its own, because that of the other stories is not traced.

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { uuidOf } from "@cauri/money/ids";
import { type HouseProcess, startHouseProcess } from "../tools/house-process.ts";
import { makeTestFolder, removeTestFolder } from "../tools/test-folder.ts";
import { type Collector, startCollector } from "./collector.ts";
import { call, eventually, handles, merchant, paymentBody } from "./house.ts";
import { type Receiver, startReceiver } from "./receiver.ts";

/** Those on a payment's way; webhooks delivers it without a line of its own. */
const ROOMS = ["accounts", "collections", "gateway", "ledger", "rails", "webhooks"];
const folder = makeTestFolder();
const data = join(folder, "data");
let collector: Collector;
let receiver: Receiver;
let house: HouseProcess | undefined;

before(async () => {
  collector = await startCollector();
  receiver = await startReceiver();
  house = await startHouseProcess({
    data,
    output: join(folder, "start.log"),
    settings: {
      OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
      CAURI_SIM_DELAY_MS: "300",
      CAURI_WEBHOOK_ALLOW: "127.0.0.0/8,::1",
      CAURI_WEBHOOK_CA: join(process.env["CAURI_TEST_CERTS"] ?? "", "ca.pem"),
    },
  });
});
after(async () => {
  const code = await house?.stop();
  await Promise.all([receiver.close(), collector.close()]);
  removeTestFolder(folder);
  assert.equal(code, 0);
});

test("a payment: its trace has its own UUID and reaches from the edge over every room to the delivered webhook", async () => {
  const { base_url } = handles(data);
  const { test: api } = await merchant("Traced", data);
  const post = (path: string, body: object) => call(api.key, "POST", path, { body, base_url });
  assert.equal((await post("/v1/webhooks", { url: receiver.url })).status, 201);
  const made = await call(api.key, "POST", "/v1/payments", {
    body: paymentBody("00"),
    base_url,
    // A stranger's trace is not joined.
    headers: { traceparent: "00-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-bbbbbbbbbbbbbbbb-01" },
  });
  assert.equal(made.status, 201, made.text);
  await receiver.hears(made.body.id, ["payment.success"]);

  const trace_id = uuidOf(made.body.id).replaceAll("-", "");
  const wanted = [
    "gateway: POST /v1/payments",
    "gateway: cauri.collections.v1.PaymentService/CreatePayment",
    "collections: cauri.collections.v1.PaymentService/CreatePayment",
    "rails: publish cauri.rails.collection.success",
    "collections: process cauri.rails.collection.success",
    "collections: publish cauri.collections.payment.success",
    "webhooks: process cauri.collections.payment.success",
    "webhooks: POST webhook payment.success",
  ];
  await eventually(
    "the spans of the payment",
    async () => collector.of(trace_id),
    (seen) => wanted.every((name) => seen.some((span) => `${span.service}: ${span.name}` === name)),
  );
  const rooms = new Set(collector.of(trace_id).map(({ service }) => service));
  assert.deepEqual([...rooms].sort(), ROOMS);
  const known = () => new Set(collector.of(trace_id).map(({ span_id }) => span_id));
  // Each process sends its spans by itself, a second apart.
  const begun = await eventually(
    "no span hangs loose",
    async () => collector.of(trace_id).filter(({ parent_id }) => !known().has(parent_id)),
    (loose) => loose.length === 1,
  );
  assert.deepEqual([begun[0]?.name, begun[0]?.parent_id], ["POST /v1/payments", ""]);
  assert.deepEqual(collector.of("a".repeat(32)), []);

  const lines = linesOf(trace_id);
  assert.deepEqual([...new Set(lines.map(({ room }) => room))].sort(), ROOMS.slice(0, -1));
  await eventually(
    "every line's span is there",
    async () => lines.filter(({ span_id }) => !known().has(span_id)),
    (loose) => loose.length === 0,
  );
});

test("a read: its trace begins at the edge with a random id; probes and loops begin none", async () => {
  const { base_url } = handles(data);
  const { test: api } = await merchant("Reader", data);
  assert.equal((await call(api.key, "GET", "/v1/balances", { base_url })).status, 200);
  await eventually(
    "the span of the read",
    async () => collector.spans.find(({ name }) => name === "GET /v1/balances"),
    (span) => span !== undefined && span.parent_id === "",
  );
  const first = new Set(collector.spans.filter(({ parent_id }) => parent_id === "").map(({ name }) => name));
  for (const name of first) assert.match(name, /^(GET|POST) \/|^cauri\./, name);
});

function linesOf(trace_id: string): { room: string; span_id: string }[] {
  const logs = join(data, "logs");
  const lines = readdirSync(logs).flatMap((file) => readFileSync(join(logs, file), "utf8").split("\n"));
  return lines.filter((line) => line.includes(`"trace_id":"${trace_id}"`)).map((line) => JSON.parse(line));
}
