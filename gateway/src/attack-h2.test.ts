// What a hostile client sends to the gRPC port, where no parser of HTTP/1.1 stands before us and Node has no clock for bodies.

import assert from "node:assert/strict";
import { type ClientHttp2Session, connect } from "node:http2";
import { test } from "node:test";
import { openDoor, type TestDoor } from "./testing.ts";

/** Whoever is not answered within this time will not be: the stream is then let go of, and what was heard is judged. */
const SILENCE_MS = 30_000;
const BIG = "x".repeat(65_536);

type Heard = { status: unknown; request_id: unknown; text: string };

async function session(t: { after(fn: () => unknown): void }) {
  const door = await openDoor(t);
  const line = connect(`http://127.0.0.1:${door.grpc_port}`);
  t.after(() => line.destroy());
  return { door, line, authorization: `Bearer ${door.key()}` };
}

/** The whole answer, once the stream is closed; a body without `ends` goes on for ever, one byte after the other. */
function ask(line: ClientHttp2Session, headers: { [name: string]: string }, body = "", ends = true): Promise<Heard> {
  const stream = line.request(headers, { endStream: body === "" && ends });
  const heard: Heard = { status: undefined, request_id: undefined, text: "" };
  stream.on("response", (head) => {
    heard.status = head[":status"];
    heard.request_id = head["x-request-id"];
  });
  stream.on("data", (chunk: Buffer) => {
    heard.text += chunk.toString("utf8");
  });
  stream.on("error", () => {});
  if (body !== "") stream.write(body);
  if (ends) stream.end();
  const trickle = ends ? undefined : setInterval(() => void (stream.writable && stream.write(" ")), 20);
  const silence = setTimeout(() => stream.close(), SILENCE_MS);
  return new Promise((resolve) => {
    stream.once("close", () => {
      clearInterval(trickle);
      clearTimeout(silence);
      resolve(heard);
    });
  });
}

function assertEnvelope({ status, request_id, text }: Heard, wanted: number, code: string): void {
  assert.equal(status, wanted, text);
  assert.equal(JSON.parse(text).error.code, code);
  assert.match(String(request_id), /^req_/);
}

/** Lines of the log that tell of a fault. */
const faults = (door: TestDoor) => door.lines.filter(({ level }) => level === "error");

test("attack, HTTP/2: a method that nobody knows and a tunnel are 400 with an envelope, never a fault", async (t) => {
  const { door, line, authorization } = await session(t);
  for (const [headers, name] of [
    [{ ":method": "FOO", ":path": "/v1/payments", authorization }, "unknown, with a key"],
    [{ ":method": "get", ":path": "/v1/payments" }, "in small letters, without a key"],
    [{ ":method": "FOO", ":path": "/cauri.collections.v1.PaymentService/ListPayments" }, "of an RPC"],
    [{ ":method": "CONNECT", ":authority": "elsewhere.example:443", authorization }, "a tunnel"],
  ] as const) {
    assertEnvelope(await ask(line, headers), 400, "invalid_request");
    assert.deepEqual(faults(door), [], name);
  }
  assertEnvelope(
    await ask(line, { ":method": "PURGE", ":path": "/v1/payments", authorization }),
    405,
    "method_not_allowed",
  );
});

test("attack, HTTP/2: an expectation that nobody knows is ignored", async (t) => {
  const { line, authorization } = await session(t);
  const answer = await ask(line, { ":path": "/v1/openapi.json", authorization, expect: "miracles" });
  assert.equal(answer.status, 200);
  assertEnvelope(await ask(line, { ":path": "/v1/nothing", authorization, expect: "miracles" }), 404, "not_found");
});

test("attack, HTTP/2: a body that nothing announces is read, and needs its type as by HTTP/1.1", async (t) => {
  const { line, authorization } = await session(t);
  const headers = { ":method": "PATCH", ":path": "/v1/webhooks/7", authorization };
  assertEnvelope(await ask(line, headers, '{"url":"https://example.com"}'), 415, "unsupported_media_type");
});

test("attack, HTTP/2: a body that never ends is refused in its time, and its stream ends with it", async (t) => {
  const { door, line, authorization } = await session(t);
  const { server } = door.app;
  assert.ok(server.requestTimeout > 0 && server.requestTimeout <= 30_000, "a slow body ends");
  // The same clock, faster: what is tested is that it is heard.
  server.requestTimeout = 2_000;
  const headers = { ":method": "POST", ":path": "/v1/payments", authorization, "content-type": "application/json" };
  const slow = Array.from({ length: 20 }, () => ask(line, headers, "{", false));
  const other = await ask(line, { ":path": "/v1/openapi.json", authorization });
  assert.equal(other.status, 200, "another call of the line is served meanwhile");
  for (const answer of await Promise.all(slow)) {
    assertEnvelope(answer, 422, "invalid_request");
    assert.match(answer.text, /"body: must come within 2 seconds"/);
  }
  const rpc = { ...headers, ":path": "/cauri.collections.v1.PaymentService/CreatePayment" };
  const grpc = await ask(line, { ...rpc, "content-type": "application/grpc" }, "\0", false);
  assert.equal(grpc.status, 200, "gRPC tells its status in the head");
});

test("attack, HTTP/2: a body of another type is refused at its first byte, and its stream ends with it", async (t) => {
  const { line, authorization } = await session(t);
  const headers = { ":method": "POST", ":path": "/v1/webhooks/test", authorization, "content-type": "text/plain" };
  assertEnvelope(await ask(line, headers, BIG, false), 415, "unsupported_media_type");
});
