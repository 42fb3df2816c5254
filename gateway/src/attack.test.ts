// What a hostile client sends, byte for byte on a raw line: heads that are too long, too many, doubled or missing; bodies that
// are deep, slow or poisoned; encodings that hide what they say. Nothing is a 500, and the next client is served.

import assert from "node:assert/strict";
import { connect } from "node:net";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { refuse } from "@cauri/money/refusal";
import { openDoor, paymentOf, type TestDoor } from "./testing.ts";

/** Whoever is not answered within this time will not be: the test then says what it has heard. */
const SILENCE_MS = 30_000;
const BODY = { amount_minor: 1500, asset_id: "ast_xof", platform_id: "plt_mtn_ci" };

/** Sends text as it is, in pieces if there are several, and reads until the line closes or the answer stands still. */
async function raw(door: TestDoor, ...pieces: readonly (string | Buffer)[]): Promise<string> {
  const { hostname, port } = new URL(door.base_url);
  const socket = connect(Number(port), hostname);
  let heard = "";
  socket.on("data", (chunk) => {
    heard += chunk.toString("latin1");
  });
  // A door that has said no may close the line while the rest is still under way.
  socket.on("error", () => {});
  const closed = new Promise<void>((resolve) => socket.once("close", () => resolve()));
  for (const piece of pieces) socket.write(piece);
  await Promise.race([closed, answered(() => heard), sleep(SILENCE_MS, undefined, { ref: false })]);
  socket.destroy();
  return heard;
}

async function answered(heard: () => string): Promise<void> {
  while (!/\r\n\r\n/.test(heard())) await sleep(5);
  // The body comes with its head or right behind it.
  await sleep(20);
}

function statusOf(answer: string): number {
  return Number(/^HTTP\/1\.1 (\d{3})/.exec(answer)?.[1] ?? 0);
}

async function payments(t: { after(fn: () => unknown): void }) {
  const seen: unknown[] = [];
  const door = await openDoor(t, {
    payments: {
      createPayment: async (request) => {
        seen.push(request);
        return paymentOf();
      },
      getPayment: async () => refuse("not_found", "no such payment"),
    },
  });
  return { door, seen, key: door.key() };
}

const head = (key: string, ...more: string[]) =>
  ["POST /v1/payments HTTP/1.1", "Host: x", `Authorization: Bearer ${key}`, ...more, "", ""].join("\r\n");

test("attack: 10,000 headers, and one of 64 KiB, are 431 with an envelope, and the line closes", async (t) => {
  const { door, key } = await payments(t);
  const many = Array.from({ length: 10_000 }, (_, index) => `X-Header-${index}: value`);
  for (const headers of [many, [`X-Long: ${"x".repeat(65_536)}`]]) {
    const answer = await raw(door, head(key, ...headers));
    assert.equal(statusOf(answer), 431);
    assert.match(answer, /\{"error":\{"code":"invalid_request","message":/);
    assert.match(answer, /x-request-id: req_/i);
  }
  assert.equal((await door.call("POST", "/v1/payments", BODY)).status, 201, "the next client is served");
});

test("attack: what is no HTTP, a tunnel, HTTP/1.1 without Host, two lengths, a length beside chunks are 400", async (t) => {
  const { door, key } = await payments(t);
  const authorized = `Authorization: Bearer ${key}\r\n`;
  const requests = [
    "\x16\x03\x01\x02\x00\x01\x00",
    "GET\r\n\r\n",
    `GET /v1/payments HTTP/1.1\r\n${authorized}\r\n`,
    `GET /v1/payments HTTP/9.9\r\nHost: x\r\n${authorized}\r\n`,
    `POST /v1/payments HTTP/1.1\r\nHost: x\r\n${authorized}Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}`,
    `POST /v1/payments HTTP/1.1\r\nHost: x\r\n${authorized}Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
    `POST /v1/payments HTTP/1.1\r\nHost: x\r\n${authorized}Transfer-Encoding: chunked\r\n\r\nzz\r\n`,
    `CONNECT elsewhere.example:443 HTTP/1.1\r\nHost: x\r\n${authorized}\r\n`,
    `GET /v1/pay\0ments HTTP/1.1\r\nHost: x\r\n${authorized}\r\n`,
    `GET /v1/payments HTTP/1.1\r\nHost: x\r\nX-Bad\0: 1\r\n${authorized}\r\n`,
  ];
  for (const request of requests) {
    const answer = await raw(door, request);
    assert.equal(statusOf(answer), 400, JSON.stringify(request));
    assert.match(answer, /connection: close/i, JSON.stringify(request));
    assert.match(answer, /\{"error":\{"code":"invalid_request","message":"[^"]+"\}\}$/, JSON.stringify(request));
    assert.match(answer, /x-request-id: req_/i, JSON.stringify(request));
  }
});

test("attack: an expectation that nobody knows is ignored, and HTTP/1.0 needs no Host", async (t) => {
  const { door, key } = await payments(t);
  const expecting = await raw(door, `${head(key, "Expect: miracles", "Content-Length: 2")}{}`);
  assert.equal(statusOf(expecting), 415, "it is served like any other");
  const old = await raw(door, `GET /v1/openapi.json HTTP/1.0\r\nAuthorization: Bearer ${key}\r\n\r\n`);
  assert.equal(statusOf(old), 200);
});

test("attack: a second request smuggled behind a refused body is never read as one", async (t) => {
  const { door, seen, key } = await payments(t);
  const inner = `${head(key, "Content-Type: application/json", "Content-Length: 2")}{}`;
  const outer = head(key, "Content-Type: text/plain", `Content-Length: ${inner.length}`);
  const answer = await raw(door, outer + inner);
  assert.equal(statusOf(answer), 415);
  assert.equal(answer.split("HTTP/1.1 ").length, 2, "one answer");
  assert.deepEqual(seen, []);
});

test("attack: paths that spell what is not theirs stay 404 or 405, with a key and without", async (t) => {
  const { door, key } = await payments(t);
  const targets = [
    "/v1/../metrics",
    "/v1/%2e%2e/metrics",
    "/v1/payments/..%2f..%2fmetrics",
    "//v1/payments",
    "/v1\\payments",
    "/v1/payments;x=1",
    "/V1/payments",
    "/v1/payments%00",
    "/v1/payments/%c0%ae%c0%ae",
    "/v1/payments/%ed%a0%80",
    `/v1/payments/${"%41".repeat(3_000)}`,
    "/v1/payments/__proto__/constructor",
  ];
  for (const target of targets) {
    const answer = await raw(door, `GET ${target} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${key}\r\n\r\n`);
    assert.ok([404, 405].includes(statusOf(answer)), `${target}: ${statusOf(answer)}`);
  }
});

test("attack: JSON a million levels deep, in a known field or an unknown one, is refused or ignored, never a fault", async (t) => {
  const { door } = await payments(t);
  const deep = (open: string, close: string, depth: number) => open.repeat(depth) + close.repeat(depth);
  const types = { "content-type": "application/json" };
  for (const nested of [deep("[", "]", 500_000), `${'{"a":'.repeat(170_000)}1${"}".repeat(170_000)}`]) {
    for (const body of [nested, `{"metadata":${nested}}`, `{"unknown":${nested},"amount_minor":1.5}`]) {
      const { status, json } = await door.call("POST", "/v1/payments", body, types);
      assert.equal(status, 422, body.slice(0, 30));
      assert.equal(json.error.code, "invalid_request");
    }
  }
});

test("attack: prototype keys are unknown fields, of double keys the last counts, nobody's prototype is touched", async (t) => {
  const { door, seen } = await payments(t);
  const { amount_minor: _, ...rest } = BODY;
  const tail = JSON.stringify(rest).slice(1);
  const bodies = [
    `{"__proto__":{"amount_minor":7},"constructor":{"prototype":{"x":1}},"amount_minor":1500,${tail}`,
    `{"amount_minor":"x","amount_minor":1500,${tail}`,
    `{"amount_minor":1500,"metadata":{"__proto__":"a","constructor":"b","toString":"c"},${tail}`,
  ];
  const types = { "content-type": "application/json" };
  for (const body of bodies) assert.equal((await door.call("POST", "/v1/payments", body, types)).status, 201, body);
  const [first, second, third] = seen as { amountMinor: bigint; metadata?: { values: object } }[];
  assert.deepEqual([first?.amountMinor, second?.amountMinor], [1500n, 1500n]);
  assert.deepEqual(Object.keys(third?.metadata?.values ?? {}).sort(), ["constructor", "toString"]);
  assert.equal(({} as { x?: number }).x, undefined);
  const only_proto = `{"__proto__":{"amount_minor":1500},${tail}`;
  assert.equal((await door.call("POST", "/v1/payments", only_proto, types)).status, 422, "nothing is inherited");
});

test("attack: NUL, lone surrogates and bytes that are no UTF-8 are refused by the field's name; a BOM is skipped", async (t) => {
  const { door } = await payments(t);
  const types = { "content-type": "application/json" };
  const text = JSON.stringify(BODY).slice(0, -1);
  const refused: (string | Buffer)[] = [
    `${text},"description":"a\\u0000b"}`,
    `${text},"description":"\\ud800"}`,
    `${text},"description":"\\udc00\\ud800"}`,
    Buffer.concat([Buffer.from(`${text},"description":"`), Buffer.from([0xc0, 0xaf]), Buffer.from('"}')]),
    Buffer.concat([Buffer.from(`${text},"description":"`), Buffer.from([0xed, 0xa0, 0x80]), Buffer.from('"}')]),
  ];
  for (const body of refused) {
    const { status, json } = await door.call("POST", "/v1/payments", body, types);
    assert.equal(status, 422);
    assert.match(json.error.message, /^description: /);
  }
  assert.equal((await door.call("POST", "/v1/payments", `\ufeff${JSON.stringify(BODY)}`, types)).status, 201);
  const utf16 = Buffer.from(`\ufeff${JSON.stringify(BODY)}`, "utf16le");
  assert.equal((await door.call("POST", "/v1/payments", utf16, types)).status, 422);
});

test("attack: compressed, mislabelled and multipart bodies are 415 before a byte is unpacked", async (t) => {
  const { door } = await payments(t);
  const labels = [
    { "content-type": "application/json", "content-encoding": "gzip" },
    { "content-type": "application/json", "content-encoding": "identity" },
    { "content-type": "application/json; charset=utf-16" },
    { "content-type": "application/jsonp" },
    { "content-type": "application/x-www-form-urlencoded" },
    { "content-type": "multipart/form-data; boundary=x" },
    { "content-type": "text/json" },
    { "content-type": ",application/json" },
  ];
  for (const headers of labels) {
    const { status } = await door.call("POST", "/v1/payments", JSON.stringify(BODY), headers);
    assert.equal(status, 415, JSON.stringify(headers));
  }
});

test("attack: a body without end is cut at the limit, told 413, and its line closes", async (t) => {
  const { door, key } = await payments(t);
  const begin = head(key, "Content-Type: application/json", "Transfer-Encoding: chunked");
  const chunk = `10000\r\n${"x".repeat(65_536)}\r\n`;
  const answer = await raw(door, begin, ...Array(40).fill(chunk));
  assert.equal(statusOf(answer), 413);
  assert.match(answer, /connection: close/i);
});

test("attack: heads and bodies that never end keep nobody waiting, and each is told 408 in its time", async (t) => {
  const { door, key } = await payments(t);
  const { server } = door.app;
  assert.ok(server.headersTimeout > 0 && server.headersTimeout <= 10_000, "a slow head ends");
  assert.ok(server.requestTimeout > 0 && server.requestTimeout <= 30_000, "a slow body ends");
  // The same clocks, faster: what is tested is that they are heard.
  server.headersTimeout = 2_000;
  server.requestTimeout = 2_000;
  const slow_head = "POST /v1/payments HTTP/1.1\r\nHost: x\r\nX-Slow: ";
  const slow_body = `${head(key, "Content-Type: application/json", "Content-Length: 100")}{`;
  const slow = Array.from({ length: 100 }, (_, index) => hear(door, index % 2 === 0 ? slow_head : slow_body));
  assert.equal((await door.call("GET", "/v1/openapi.json")).status, 200, "another client is served meanwhile");
  for (const answer of await Promise.all(slow)) {
    assert.equal(statusOf(answer), 408);
    assert.match(answer, /connection: close/i);
  }
});

/** Sends the beginning of a request and says what is heard until the line closes. */
function hear(door: TestDoor, begin: string): Promise<string> {
  const { hostname, port } = new URL(door.base_url);
  const socket = connect(Number(port), hostname);
  let heard = "";
  socket.on("data", (chunk) => {
    heard += chunk.toString("latin1");
  });
  socket.on("error", () => {});
  socket.write(begin);
  return new Promise((resolve) => socket.once("close", () => resolve(heard)));
}
