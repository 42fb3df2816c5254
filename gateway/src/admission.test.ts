// The contract's order of checks, and what every answer carries, at a real door before doubled services.

import assert from "node:assert/strict";
import { test } from "node:test";
import { openDoor } from "./testing.ts";

const STATUS = { pending: 1, approved: 2, suspended: 3, closed: 4 } as const;

test("admission: a key is asked for first, whatever the path or the body", async (t) => {
  const door = await openDoor(t);
  for (const path of [
    "/v1/payments",
    "/v1/nowhere",
    "/v1",
    "/v1/%zz",
    "/%76%31/payments",
    "/%761/%zz",
    "http://elsewhere.example/v1/payments",
    "/%63auri.collections.v1.PaymentService/GetPayment",
    "/cauri.collections.v1.PaymentService/GetPayment",
  ]) {
    const answer = await door.send({ method: "POST", path, body: "{", headers: { "content-type": "text/plain" } });
    assert.equal(answer.status, 401, path);
  }
  const { json, headers } = await door.send({ path: "/v1/payments" });
  assert.deepEqual(Object.keys(json), ["error"]);
  assert.deepEqual(Object.keys(json.error), ["code", "message"]);
  assert.equal(json.error.code, "missing_api_key");
  assert.equal(headers["ratelimit"], undefined, "only authenticated answers tell the limit");
  assert.equal(headers["cache-control"], "no-store");
});

test("admission: a scheme other than Bearer counts as absent, and X-API-Key then counts", async (t) => {
  const door = await openDoor(t);
  const key = door.key();
  const get = (headers: Record<string, string>) => door.send({ path: "/v1/openapi.json", headers });
  assert.equal((await get({ authorization: `Basic ${key}` })).json.error.code, "missing_api_key");
  assert.equal((await get({ authorization: "Bearer " })).json.error.code, "missing_api_key");
  assert.equal((await get({ authorization: "Basic xyz", "x-api-key": key })).status, 200);
  assert.equal((await get({ "x-api-key": key })).status, 200);
  assert.equal((await get({ authorization: `bearer ${key}` })).status, 200);
  assert.equal(
    (await get({ authorization: "Bearer sk_test_wrong", "x-api-key": key })).json.error.code,
    "invalid_api_key",
  );
  assert.equal((await door.send({ path: `/v1/openapi.json?api_key=${key}` })).json.error.code, "missing_api_key");
});

test("admission: 404 and 405 come after the key and before the account", async (t) => {
  const door = await openDoor(t);
  const headers = { authorization: `Bearer ${door.key({ accountStatus: STATUS.pending, scopes: [] })}` };
  const send = (method: string, path: string) => door.send({ method, path, headers });
  assert.equal((await send("GET", "/v1/nowhere")).json.error.code, "not_found");
  assert.equal((await send("GET", "/v1/payments/%E0%A4%A")).status, 404);
  assert.equal((await send("GET", "/v1/payments/")).status, 404);
  const wrong = await send("PUT", "/v1/payments");
  assert.equal(wrong.json.error.code, "method_not_allowed");
  assert.equal(wrong.headers.allow, "GET, HEAD, POST");
  for (const method of ["OPTIONS", "PROPFIND", "TRACE"])
    assert.equal((await send(method, "/v1/payments")).status, 405, method);
  const static_path = await send("GET", "/v1/webhooks/test");
  assert.deepEqual(
    [static_path.status, static_path.headers.allow],
    [405, "POST"],
    "the word test is no endpoint's number",
  );
  assert.equal((await send("GET", "/v1/payments")).json.error.code, "client_inactive");
});

test("admission: account, scope and body in this order", async (t) => {
  const door = await openDoor(t);
  const post = async (key: string, body: string, type = "text/plain") => {
    const headers = { authorization: `Bearer ${key}`, "content-type": type };
    return (await door.send({ method: "POST", path: "/v1/payments", headers, body })).json.error.code;
  };
  const large = `{"description":"${"x".repeat(1_100_000)}"}`;
  assert.equal(await post(door.key({ known: false }), large), "invalid_api_key");
  assert.equal(await post(door.key({ accountStatus: STATUS.closed }), large), "invalid_api_key");
  assert.equal(await post(door.key({ accountStatus: STATUS.suspended, scopes: [] }), large), "client_inactive");
  assert.equal(await post(door.key({ scopes: ["can_read_transactions"] }), large), "insufficient_scope");
  assert.equal(await post(door.key(), large), "unsupported_media_type");
  assert.equal(await post(door.key(), large, "application/json"), "payload_too_large");
  assert.equal(await post(door.key(), "{", "application/json"), "invalid_request");
});

test("admission: the limit counts what is not found too, and a refused request is told when to come again", async (t) => {
  const door = await openDoor(t, { limit: 3 });
  const headers = { authorization: `Bearer ${door.key()}` };
  const left: string[] = [];
  const begun = performance.now();
  for (const path of ["/v1/openapi.json", "/v1/nowhere", "/v1/openapi.json"]) {
    const answer = await door.send({ path, headers });
    assert.equal(answer.headers["ratelimit-policy"], '"default";q=3;w=60');
    left.push(String(answer.headers["ratelimit"]).split(";")[1] ?? "");
  }
  assert.deepEqual(left, ["r=2", "r=1", "r=0"]);
  const refused = await door.send({ path: "/v1/nowhere", headers });
  assert.equal(refused.status, 429);
  assert.equal(refused.json.error.code, "rate_limited");
  assert.equal(refused.headers["ratelimit"], `"default";r=0;t=${refused.headers["retry-after"]}`);
  const wait_s = Number(refused.headers["retry-after"]);
  const gone_s = (performance.now() - begun) / 1_000;
  assert.ok(
    Number.isInteger(wait_s) && wait_s <= 60 && wait_s >= 60 - gone_s,
    `${wait_s} s, ${gone_s} s after the first`,
  );
  assert.equal((await door.send({ path: "/v1/openapi.json", headers: { "x-api-key": door.key() } })).status, 200);
});

test("admission: unknown keys are limited by client address, known ones from there are not", async (t) => {
  const door = await openDoor(t, { unknown_limit: 2 });
  const from = (address: string, key: string) =>
    door.send({ path: "/v1/openapi.json", headers: { "x-forwarded-for": address, "x-api-key": key } });
  const codes: number[] = [];
  for (let i = 0; i < 3; i += 1) codes.push((await from("198.51.100.1", door.key({ known: false }))).status);
  assert.deepEqual(codes, [401, 401, 429]);
  assert.equal((await from("198.51.100.2", "sk_test_short")).status, 401);
  assert.equal((await from("198.51.100.1", door.key())).status, 200);
});

test("admission: only a trusted proxy tells a client's address, and only the hop before it", async (t) => {
  const codes = async (trusted_proxies: readonly string[], forwarded: (n: number) => string) => {
    const door = await openDoor(t, { unknown_limit: 2, trusted_proxies });
    const seen: number[] = [];
    for (let n = 0; n < 3; n += 1) {
      const headers = { "x-forwarded-for": forwarded(n), "x-api-key": door.key({ known: false }) };
      seen.push((await door.send({ path: "/v1/assets", headers })).status);
    }
    return seen;
  };
  assert.deepEqual(await codes([], (n) => `198.51.100.${n}`), [401, 401, 429], "nobody is trusted: one client");
  assert.deepEqual(await codes(["10.0.0.0/8"], (n) => `198.51.100.${n}`), [401, 401, 429], "we are no proxy of theirs");
  assert.deepEqual(await codes(["127.0.0.1"], (n) => `203.0.113.${n}, 198.51.100.1`), [401, 401, 429], "made up by it");
  assert.deepEqual(await codes(["127.0.0.1"], (n) => `203.0.113.1, 198.51.100.${n}`), [401, 401, 401]);
});

test("admission: a request id that is valid is kept, another is replaced, and every answer has one", async (t) => {
  const door = await openDoor(t);
  const kept = await door.send({ path: "/nowhere", headers: { "x-request-id": "abc-1" } });
  assert.equal(kept.status, 404);
  assert.equal(kept.headers["x-request-id"], "abc-1");
  const minted = await door.send({ path: "/healthz", headers: { "x-request-id": "with space" } });
  assert.match(String(minted.headers["x-request-id"]), /^req_[0-9A-Z]{26}$/);
});

test("admission: the log names template, status and key id, and neither URL nor key", async (t) => {
  const door = await openDoor(t);
  const key = door.key({ keyId: "key_seen" });
  await door.send({ path: "/v1/payments/secret-ref?client_ref=hidden", headers: { authorization: `Bearer ${key}` } });
  const line = door.lines.find((one) => one["msg"] === "request");
  assert.equal(line?.["route"], "/v1/payments/:id");
  assert.equal(line?.["key_id"], "key_seen");
  assert.equal(line?.["status"], 500);
  const all = JSON.stringify(door.lines);
  for (const secret of [key, "secret-ref", "hidden"]) assert.ok(!all.includes(secret), secret);
});
