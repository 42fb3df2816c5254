// Bodies, queries and answers of REST at a real door before doubled services.

import assert from "node:assert/strict";
import { test } from "node:test";
import { refuse, refuseField } from "@cauri/money/refusal";
import type { CreatePaymentRequest, ListPaymentsRequest } from "@cauri/proto/ts/cauri/collections/v1/payments";
import { EndpointWithSecret, type UpdateEndpointRequest } from "@cauri/proto/ts/cauri/webhooks/v1/webhooks";
import type { Call } from "@cauri/rpc/server";
import { openDoor, paymentOf } from "./testing.ts";

const BODY = { amount_minor: 1500, asset_id: "ast_xof", platform_id: "plt_mtn_ci" };

test("create: the message arrives typed, the answer has every field and its headers", async (t) => {
  const seen: { request: CreatePaymentRequest; call: Call }[] = [];
  const createPayment = async (request: CreatePaymentRequest, call: Call) => {
    seen.push({ request, call });
    call.outcome("created");
    return paymentOf({ metadata: request.metadata });
  };
  const door = await openDoor(t, { payments: { createPayment } });
  const body = {
    ...BODY,
    payer: { phone: "+2250700000000", name: null, nickname: "x" },
    metadata: { order: "1" },
    more: [1],
  };
  const answer = await door.call("POST", "/v1/payments", body, { "idempotency-key": '"k 1"', "x-request-id": "r1" });
  assert.equal(answer.status, 201, answer.text);
  assert.equal(answer.headers.location, "/v1/payments/pay_1");
  assert.equal(answer.headers["idempotent-replayed"], undefined);
  assert.equal(answer.json.created_at, "1970-01-01T00:00:00.000Z");
  assert.equal(answer.json.amount_minor, 1500);
  assert.equal(answer.json.status, "pending");
  assert.deepEqual(answer.json.metadata, { order: "1" });
  for (const field of ["client_ref", "rail", "failure", "payer", "completed_at"])
    assert.equal(answer.json[field], null, field);
  const [{ request, call } = assert.fail("nothing arrived")] = seen;
  assert.equal(request.amountMinor, 1500n);
  assert.deepEqual(request.payer, { phone: "+2250700000000", name: undefined, email: undefined });
  assert.equal(call.caller.idempotency_key, "k 1");
  assert.equal(call.request_id, "r1");
  assert.match(String(call.caller.operation), /^pay_[0-9A-Z]{26}$/);
  assert.equal(call.caller.mode, "test");
});

test("create: a replay is told by header, with the original status and Location", async (t) => {
  const createPayment = async (_: CreatePaymentRequest, call: Call) => {
    call.outcome("replayed");
    return paymentOf();
  };
  const door = await openDoor(t, { payments: { createPayment } });
  const answer = await door.call("POST", "/v1/payments", BODY);
  assert.equal(answer.status, 201);
  assert.equal(answer.headers["idempotent-replayed"], "true");
  assert.equal(answer.headers.location, "/v1/payments/pay_1");
});

test("create: each wrong field is named, and nothing reaches the service", async (t) => {
  const door = await openDoor(t, { payments: { createPayment: async () => assert.fail("it was reached") } });
  const wrong: [object | string, RegExp][] = [
    [{}, /^amount_minor: is required/],
    ["", /^amount_minor: is required/],
    [{ ...BODY, amount_minor: null }, /^amount_minor: is required/],
    ['{"amount_minor":1.5,"asset_id":"a","platform_id":"p"}', /^amount_minor: must be a whole number/],
    ['{"amount_minor":1e3,"asset_id":"a","platform_id":"p"}', /^amount_minor: must be a whole number/],
    ['{"amount_minor":100.0,"asset_id":"a","platform_id":"p"}', /^amount_minor: must be a whole number/],
    ['{"amount_minor":1500.0000000000000001,"asset_id":"a","platform_id":"p"}', /^amount_minor: must be a whole/],
    ['{"amount_minor":9007199254740991.4,"asset_id":"a","platform_id":"p"}', /^amount_minor: must be a whole/],
    ['{"amount_minor":9007199254740993,"asset_id":"a","platform_id":"p"}', /^amount_minor: must be at most/],
    [{ ...BODY, amount_minor: "100" }, /^amount_minor: must be a whole number/],
    [{ ...BODY, amount_minor: 0 }, /^amount_minor: must be at least 1/],
    [{ ...BODY, amount_minor: -5 }, /^amount_minor: must be at least 1/],
    [{ ...BODY, expires_in_s: 299 }, /^expires_in_s: must be at least 300/],
    [{ ...BODY, client_ref: "-x" }, /^client_ref: must have the form/],
    [{ ...BODY, client_ref: "x".repeat(65) }, /^client_ref: /],
    [{ ...BODY, payer: { email: "nobody" } }, /^payer\.email: must be an e-mail/],
    [{ ...BODY, payer: "x" }, /^payer: must be an object/],
    [{ ...BODY, payer: 1.5 }, /^payer: must be an object/],
    [{ ...BODY, metadata: 1.5 }, /^metadata: must be an object/],
    [{ ...BODY, return_url: "http://a.example" }, /^return_url: must be an absolute https/],
    [{ ...BODY, description: "é".repeat(141) }, /^description: must have at most 140/],
    [{ ...BODY, description: "a\0b" }, /^description: must not contain the character NUL/],
    [
      `{"amount_minor":5,"asset_id":"a","platform_id":"p","description":"\\ud800"}`,
      /^description: is not valid Unicode/,
    ],
    [{ ...BODY, metadata: { x: 5 } }, /^metadata\.x: must be a text/],
    [{ ...BODY, metadata: { ["k".repeat(41)]: "v" } }, /^metadata\.k+: the key must have at most 40/],
    [{ ...BODY, metadata: Object.fromEntries([...Array(21)].map((_, i) => [`k${i}`, "v"])) }, /^metadata: .*20 keys/],
    ["{", /^body: is not valid JSON/],
    ["[]", /^body: must be a JSON object/],
    ["null", /^body: must be a JSON object/],
    [`{"a":${"[".repeat(200_000)}`, /^body: /],
    [`{"a":1.5,"b":${"[".repeat(100_000)}${"]".repeat(100_000)}}`, /^body: is nested too deeply/],
  ];
  for (const [body, message] of wrong) {
    const answer = await door.call("POST", "/v1/payments", body, { "content-type": "application/json" });
    const about = JSON.stringify(body).slice(0, 90);
    assert.equal(answer.status, 422, `${about} ${answer.text}`);
    assert.equal(answer.json.error.code, "invalid_request", about);
    assert.match(answer.json.error.message, message);
  }
});

test("create: bytes that are no UTF-8 are refused by the name of their field", async (t) => {
  const door = await openDoor(t, { payments: { createPayment: async () => paymentOf() } });
  const text = (description: Buffer) =>
    Buffer.concat([
      Buffer.from('{"amount_minor":5,"asset_id":"a","platform_id":"p","description":"'),
      description,
      Buffer.from('"}'),
    ]);
  const json = { "content-type": "application/json; charset=utf-8" };
  const answer = await door.call("POST", "/v1/payments", text(Buffer.from([0xc3, 0x28])), json);
  assert.match(answer.json.error.message, /^description: is not valid Unicode/);
  assert.equal((await door.call("POST", "/v1/payments", text(Buffer.from("caurí")), json)).status, 201);
  const bom = Buffer.concat([Buffer.from([0xef, 0xbb, 0xbf]), text(Buffer.from("x"))]);
  assert.equal((await door.call("POST", "/v1/payments", bom, json)).status, 201);
});

test("create: of duplicate keys the last counts, prototype keys are unknown fields", async (t) => {
  const seen: CreatePaymentRequest[] = [];
  const door = await openDoor(t, {
    payments: {
      createPayment: async (request) => {
        seen.push(request);
        return paymentOf();
      },
    },
  });
  const body =
    '{"__proto__":{"rail":"evil"},"constructor":1,"amount_minor":1,"amount_minor":2,"asset_id":"a","platform_id":"p","metadata":{"__proto__":"x","a":"b"}}';
  const answer = await door.call("POST", "/v1/payments", body, { "content-type": "application/json" });
  assert.equal(answer.status, 201, answer.text);
  assert.equal(seen[0]?.amountMinor, 2n);
  assert.equal(seen[0]?.rail, undefined);
  assert.deepEqual(seen[0]?.metadata?.values, { a: "b" });
});

test("body: type, encoding, size and emptiness are told apart", async (t) => {
  const door = await openDoor(t, {
    payments: { createPayment: async () => paymentOf() },
    webhooks: { testEndpoints: async () => ({ data: [] }) },
  });
  const post = async (path: string, body: string | undefined, headers: Record<string, string>, chunked = false) => {
    const authorization = `Bearer ${door.key()}`;
    return (
      await door.send({
        method: "POST",
        path,
        headers: { authorization, ...headers },
        chunked,
        ...(body === undefined ? {} : { body }),
      })
    ).status;
  };
  const json = JSON.stringify(BODY);
  const type = { "content-type": "application/json" };
  assert.equal(await post("/v1/payments", json, type), 201);
  assert.equal(await post("/v1/payments", json, type, true), 201);
  assert.equal(await post("/v1/payments", json, { "content-type": 'Application/JSON; charset="UTF-8"' }), 201);
  assert.equal(await post("/v1/payments", json, {}), 415);
  assert.equal(await post("/v1/payments", json, { "content-type": "application/json; charset=utf-16" }), 415);
  assert.equal(await post("/v1/payments", json, { "content-type": "text/json" }), 415);
  assert.equal(await post("/v1/payments", json, { ...type, "content-encoding": "gzip" }), 415);
  assert.equal(await post("/v1/payments", json, { ...type, "content-encoding": "identity" }), 415);
  assert.equal(await post("/v1/payments", undefined, { "content-type": "text/plain" }), 415);
  assert.equal(await post("/v1/payments", `${" ".repeat(1_048_577)}`, type), 413);
  assert.equal(await post("/v1/payments", `${" ".repeat(1_048_577)}`, type, true), 413);
  assert.equal(await post("/v1/webhooks/test", undefined, {}), 200);
  assert.equal(await post("/v1/webhooks/test", undefined, { "content-type": "text/plain" }), 200);
  assert.equal(await post("/v1/webhooks/test", "", { "content-type": "text/plain" }, true), 200);
  assert.equal(await post("/v1/webhooks/test", "x", { "content-type": "text/plain" }), 415);
  assert.equal(await post("/v1/webhooks/test", "x", { "content-type": "text/plain" }, true), 415);
});

test("idempotency key: quoted and bare are the same, other characters and lengths are refused", async (t) => {
  const keys: (string | null)[] = [];
  const createPayment = async (_: CreatePaymentRequest, call: Call) => {
    keys.push(call.caller.idempotency_key);
    return paymentOf();
  };
  const door = await openDoor(t, { payments: { createPayment } });
  const status = async (key: string) =>
    (await door.call("POST", "/v1/payments", BODY, { "idempotency-key": key })).status;
  assert.equal(await status("abc"), 201);
  assert.equal(await status('"abc"'), 201);
  assert.equal(await status("k".repeat(255)), 201);
  assert.deepEqual(keys.slice(0, 2), ["abc", "abc"]);
  for (const wrong of ["", '""', "k".repeat(256), "clé"]) assert.equal(await status(wrong), 422, wrong);
});

test("list: the query is typed by its fields, unknown parameters are ignored", async (t) => {
  const seen: ListPaymentsRequest[] = [];
  const listPayments = async (request: ListPaymentsRequest) => {
    seen.push(request);
    return { data: [], page: 2n, perPage: 10, total: 0n, hasMore: false };
  };
  const door = await openDoor(t, { payments: { listPayments } });
  const answer = await door.call(
    "GET",
    "/v1/payments?page=2&per_page=10&status=success&created_from=2026-11-20T18:53:00.5Z&x=1&page=3",
  );
  assert.deepEqual(answer.json, { data: [], page: 2, per_page: 10, total: 0, has_more: false });
  assert.equal(seen[0]?.page, 3n);
  assert.equal(seen[0]?.status, 3);
  assert.equal(seen[0]?.createdFrom?.toISOString(), "2026-11-20T18:53:00.500Z");
  for (const query of [
    "page=0",
    "page=1.0",
    "page=",
    "page=1e1",
    "page=9007199254740992",
    "per_page=101",
    "status=paid",
    "status=",
    "created_to=today",
    "client_ref=%ff",
    "client_ref=%00",
  ]) {
    const refused = await door.call("GET", `/v1/payments?${query}`);
    assert.equal(refused.status, 422, query);
    assert.ok(refused.json.error.message.startsWith(`${query.split("=")[0]}: `), refused.text);
  }
  const head = await door.call("HEAD", "/v1/payments");
  assert.equal(head.status, 200);
  assert.equal(head.text, "");
});

test("patch: the mask names the known keys that were sent with a value", async (t) => {
  const seen: UpdateEndpointRequest[] = [];
  const updateEndpoint = async (request: UpdateEndpointRequest) => {
    seen.push(request);
    return EndpointWithSecret.fromPartial({ id: 7n, url: "https://a.example" });
  };
  const door = await openDoor(t, { webhooks: { updateEndpoint } });
  const body = {
    description: "",
    subscribed_events: [],
    url: null,
    is_active: false,
    id: "9",
    update_mask: "url",
    other: 1,
  };
  const answer = await door.call("PATCH", "/v1/webhooks/7", body);
  assert.equal(answer.status, 200, answer.text);
  assert.deepEqual(seen[0]?.updateMask?.toSorted(), ["description", "is_active", "subscribed_events"]);
  assert.equal(seen[0]?.id, "7", "the path says which one");
  assert.equal(answer.json.id, 7);
});

test("answers: 204 has no body, an existing thing is 200 without Location", async (t) => {
  const door = await openDoor(t, {
    webhooks: {
      deleteEndpoint: async () => ({}),
      createEndpoint: async (request, call) => {
        call.outcome("existing");
        return EndpointWithSecret.fromPartial({ id: 1n, url: request.url ?? "", secret: "whsec_x" });
      },
    },
  });
  const gone = await door.call("DELETE", "/v1/webhooks/1", undefined, { "content-type": "application/json" });
  assert.equal(gone.status, 204);
  assert.equal(gone.text, "");
  const known = await door.call("POST", "/v1/webhooks", { url: "https://a.example/h" });
  assert.equal(known.status, 200);
  assert.equal(known.headers.location, undefined);
  assert.deepEqual(known.json.subscribed_events, []);
});

test("refusals: the reason's status and code, the field before the sentence, Retry-After where it helps", async (t) => {
  const answers = [
    refuseField("payer.phone", "not a valid phone number for CI"),
    refuse("insufficient_funds", "not enough balance"),
    refuse("concurrent_request", "still running", { retry_after_s: 1 }),
    refuse("already_exists", "client_ref is used"),
    refuse("upstream_error", "the rail refused the call"),
    refuse("temporarily_unavailable", "the rail is away"),
  ];
  const door = await openDoor(t, { payments: { createPayment: async () => answers.shift() ?? paymentOf() } });
  const told: unknown[] = [];
  for (let i = 0; i < 6; i += 1) {
    const { status, json, headers } = await door.call("POST", "/v1/payments", BODY);
    told.push([status, json.error.code, json.error.message, headers["retry-after"]]);
  }
  assert.deepEqual(told, [
    [422, "invalid_request", "payer.phone: not a valid phone number for CI", undefined],
    [422, "insufficient_funds", "not enough balance", undefined],
    [409, "concurrent_request", "still running", "1"],
    [409, "already_exists", "client_ref is used", undefined],
    [502, "upstream_error", "the rail refused the call", undefined],
    [503, "temporarily_unavailable", "the rail is away", "1"],
  ]);
});

test("faults: a lost service is asked once more with the same operation, a defect tells nothing", async (t) => {
  const operations: (string | null)[] = [];
  const createPayment = async (_: CreatePaymentRequest, call: Call) => {
    operations.push(call.caller.operation);
    if (operations.length === 1) throw Object.assign(new Error("connection lost"), { code: "ECONNREFUSED" });
    if (operations.length === 3) throw new Error("the secret detail");
    return paymentOf();
  };
  const door = await openDoor(t, { payments: { createPayment } });
  assert.equal((await door.call("POST", "/v1/payments", BODY)).status, 201);
  assert.equal(operations.length, 2);
  assert.equal(operations[0], operations[1]);
  const broken = await door.call("POST", "/v1/payments", BODY);
  assert.equal(broken.status, 500);
  assert.deepEqual(broken.json, { error: { code: "internal_error", message: "an internal error occurred" } });
});

test("paths: what names nothing possible is 404", async (t) => {
  const door = await openDoor(t, { payments: { getPayment: async () => paymentOf() } });
  assert.equal((await door.call("GET", "/v1/payments/order%2F1")).status, 200);
  assert.equal((await door.call("GET", "/v1/payments/a%00b")).status, 404);
  assert.equal((await door.call("GET", `/v1/payments/${"x".repeat(64)}`)).status, 200);
  for (const length of [65, 5_000]) {
    assert.equal((await door.call("GET", `/v1/payments/${"x".repeat(length)}`)).status, 404, "longer than any id");
  }
  assert.equal((await door.call("GET", "/v1/payments/x/")).status, 404);
  assert.equal((await door.call("GET", "/v1//payments")).status, 404);
});
