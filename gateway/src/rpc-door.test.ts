// Connect, gRPC-Web and gRPC with typed clients, at the same checks as REST; the admin door with its own.

import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { create } from "@bufbuild/protobuf";
import { refuse, refuseField } from "@cauri/money/refusal";
import { AccountService, KeyService } from "@cauri/proto/es/cauri/accounts/v1/accounts_pb";
import { Reason } from "@cauri/proto/es/cauri/api/v1/reason_pb";
import { PaymentService, PaymentStatus } from "@cauri/proto/es/cauri/collections/v1/payments_pb";
import { UpdateEndpointRequestSchema, WebhookService } from "@cauri/proto/es/cauri/webhooks/v1/webhooks_pb";
import { Code, createClient } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-node";
import { detailOf, failure, transports } from "./rpc-testing.ts";
import { exchange, OPERATOR_TOKEN, openDoor, paymentOf } from "./testing.ts";

const BODY = { amountMinor: 1500n, assetId: "ast_xof", platformId: "plt_mtn_ci" };

test("rpc: each protocol reaches the service with the caller, and tells the outcome", async (t) => {
  const door = await openDoor(t, {
    payments: {
      createPayment: async (request, call) => {
        call.outcome("created");
        const { account, idempotency_key, operation } = call.caller;
        assert.match(String(operation), /^pay_/);
        return paymentOf({ id: `${account} ${idempotency_key}`, amountMinor: request.amountMinor ?? 0n });
      },
    },
  });
  const headers = { authorization: `Bearer ${door.key()}`, "idempotency-key": "k1" };
  for (const [name, transport] of Object.entries(transports(door))) {
    let outcome: string | null = null;
    const onHeader = (got: Headers) => {
      outcome = got.get("cauri-outcome");
    };
    const options = { headers, onHeader };
    const payment = await createClient(PaymentService, transport).createPayment(BODY, options);
    assert.equal(payment.id, "acct_test k1", name);
    assert.equal(payment.status, PaymentStatus.PENDING, name);
    assert.equal(payment.amountMinor, 1500n, name);
    assert.equal(outcome, "created", name);
  }
});

test("rpc: refusals carry the reason and the field on each protocol", async (t) => {
  const door = await openDoor(t, {
    payments: {
      createPayment: async () => refuseField("payer.phone", "is needed by this rail"),
      getPayment: async () => refuse("not_found", "no such payment"),
    },
  });
  const reader = { authorization: `Bearer ${door.key({ scopes: ["can_read_transactions"] })}` };
  const all = { authorization: `Bearer ${door.key()}` };
  for (const [name, transport] of Object.entries(transports(door))) {
    const client = createClient(PaymentService, transport);
    const told = async (call: Promise<unknown>) => {
      const error = await failure(call);
      return [
        Code[error.code],
        error.metadata.get("cauri-reason"),
        error.metadata.get("cauri-field"),
        error.rawMessage,
      ];
    };
    const detail = detailOf(await failure(client.createPayment(BODY, { headers: { ...all, "x-request-id": "r-1" } })));
    const { $typeName, ...said } = detail;
    assert.deepEqual(
      said,
      {
        reason: Reason.INVALID_REQUEST,
        code: "invalid_request",
        field: "payer.phone",
        retryAfterS: 0,
        requestId: "r-1",
      },
      name,
    );
    assert.deepEqual(
      (await told(client.getPayment({ id: "x" }))).slice(0, 2),
      ["Unauthenticated", "missing_api_key"],
      name,
    );
    assert.deepEqual(
      (await told(client.createPayment(BODY, { headers: reader }))).slice(0, 2),
      ["PermissionDenied", "insufficient_scope"],
      name,
    );
    assert.deepEqual(
      await told(client.getPayment({ id: "x" }, { headers: all })),
      ["NotFound", "not_found", null, "no such payment"],
      name,
    );
    assert.deepEqual(
      await told(client.createPayment(BODY, { headers: all })),
      ["InvalidArgument", "invalid_request", "payer.phone", "payer.phone: is needed by this rail"],
      name,
    );
    assert.deepEqual(
      await told(client.createPayment({ assetId: "a", platformId: "p" }, { headers: all })),
      ["InvalidArgument", "invalid_request", "amount_minor", "amount_minor: is required"],
      name,
    );
    assert.deepEqual(
      (await told(client.createPayment({ ...BODY, description: "a\0" }, { headers: all }))).slice(1, 3),
      ["invalid_request", "description"],
      name,
    );
  }
});

test("rpc: the limit is the same one, and told as a refusal that may be repeated", async (t) => {
  const door = await openDoor(t, {
    limit: 4,
    payments: { getPayment: async () => refuse("not_found", "no such payment") },
  });
  const headers = { authorization: `Bearer ${door.key()}` };
  const reasons: (string | null)[] = [];
  for (const transport of [...Object.values(transports(door)), ...Object.values(transports(door))]) {
    const error = await failure(createClient(PaymentService, transport).getPayment({ id: "x" }, { headers }));
    reasons.push(error.metadata.get("cauri-reason"));
  }
  assert.deepEqual(reasons, [...Array(4).fill("not_found"), ...Array(4).fill("rate_limited")]);
});

test("rpc: a PATCH is told by its mask, else by the fields it holds", async (t) => {
  const masks: (string[] | undefined)[] = [];
  const door = await openDoor(t, {
    webhooks: {
      updateEndpoint: async ({ updateMask }) => {
        masks.push(updateMask);
        return refuse("not_found", "no such endpoint");
      },
    },
  });
  const client = createClient(WebhookService, createConnectTransport({ baseUrl: door.base_url, httpVersion: "1.1" }));
  const headers = { authorization: `Bearer ${door.key()}` };
  await failure(client.updateEndpoint(create(UpdateEndpointRequestSchema, { id: "7", isActive: false }), { headers }));
  await failure(
    client.updateEndpoint({ id: "7", updateMask: { paths: ["subscribed_events", "nowhere"] } }, { headers }),
  );
  assert.deepEqual(masks, [["is_active"], ["subscribed_events"]]);
});

test("rpc: what has no route cannot be reached, with any credential, at any door", async (t) => {
  const door = await openDoor(t);
  const headers = { authorization: `Bearer ${door.key()}` };
  for (const [name, transport] of Object.entries(transports(door))) {
    const inside = await failure(createClient(KeyService, transport).resolveKey({}, { headers }));
    assert.equal(inside.code, Code.NotFound, name);
    const operator = { authorization: `Bearer ${OPERATOR_TOKEN}` };
    const account = createClient(AccountService, transport).getAccount({ accountId: "acct_1" }, { headers });
    assert.equal((await failure(account)).code, Code.NotFound, name);
    const guessed = createClient(AccountService, transport).getAccount({ accountId: "acct_1" }, { headers: operator });
    assert.equal((await failure(guessed)).code, Code.Unauthenticated, name);
  }
});

test("admin: the operator token opens it, a message meets its schema, and no public route is there", async (t) => {
  const door = await openDoor(t, {
    accounts: { getAccount: async ({ accountId }) => refuse("not_found", `no account ${accountId}`) },
  });
  const client = createClient(AccountService, createConnectTransport({ baseUrl: door.admin_url, httpVersion: "1.1" }));
  const operator = { authorization: `Bearer ${OPERATOR_TOKEN}` };
  for (const headers of [{}, { authorization: "Bearer wrong" }, { authorization: `Bearer ${door.key()}` }]) {
    const error = await failure(client.getAccount({ accountId: "acct_1" }, { headers }));
    assert.equal(error.code, Code.Unauthenticated);
    assert.equal(error.metadata.get("cauri-reason"), "operator_refused");
  }
  const missing = await failure(client.getAccount({ accountId: "acct_1" }, { headers: operator }));
  assert.equal(missing.rawMessage, "no account acct_1");
  const empty = await failure(client.getAccount({}, { headers: operator }));
  assert.equal(empty.rawMessage, "account_id: is required");
  const country = await failure(
    client.createAccount({ name: "A", country: "ci", email: "a@b.example" }, { headers: operator }),
  );
  assert.match(country.rawMessage, /^country: must have the form/);
  const payments = createClient(
    PaymentService,
    createConnectTransport({ baseUrl: door.admin_url, httpVersion: "1.1" }),
  );
  assert.equal((await failure(payments.getPayment({ id: "x" }, { headers: operator }))).code, Code.NotFound);
  assert.equal((await exchange(door.admin_url, { path: "/v1/payments" })).status, 404);
  const metrics = await exchange(door.admin_url, { path: "/metrics" });
  assert.match(metrics.text, /cauri_http_request_seconds/);
});

test("admin: the token is asked for however the path is spelt", async (t) => {
  const door = await openDoor(t, { accounts: { getAccount: async () => assert.fail("it was reached") } });
  const path = "cauri.accounts.v1.AccountService/GetAccount";
  for (const spelt of [
    `/${path}`,
    `/%63${path.slice(1)}`,
    `http://elsewhere.example/${path}`,
    `http://x/%63${path.slice(1)}`,
  ]) {
    const answer = await exchange(door.admin_url, { method: "POST", path: spelt, body: { account_id: "acct_1" } });
    assert.equal(answer.status, 401, spelt);
  }
});

const PATH = "/cauri.collections.v1.PaymentService/CreatePayment";

test("rpc: what a protocol cannot read or take is a refusal of ours too", async (t) => {
  const door = await openDoor(t, { payments: { createPayment: async () => assert.fail("it was reached") } });
  const key = { "x-api-key": door.key() };
  const huge = { ...BODY, description: "x".repeat(1_100_000) };
  const warnings: string[] = [];
  const warn = ({ message }: Error) => void warnings.push(message);
  process.on("warning", warn);
  t.after(() => process.off("warning", warn));
  for (const [name, transport] of Object.entries(transports(door))) {
    const error = await failure(createClient(PaymentService, transport).createPayment(huge, { headers: key }));
    assert.deepEqual([error.code, detailOf(error).code], [Code.ResourceExhausted, "payload_too_large"], name);
  }
  assert.deepEqual(warnings, [], "nothing is said to HTTP/2 that it does not know, such as the end of a line");
  const json = { ...key, "content-type": "application/json" };
  for (const [headers, body, status, code] of [
    [json, '{"amountMinor": "a lot"}', 400, "invalid_request"],
    [json, '{"amountMinor": 1500', 400, "invalid_request"],
    [json, new Uint8Array([0x80, 0x81]), 400, "invalid_request"],
    [{ ...key, "content-type": "application/proto" }, new Uint8Array([0xff]), 400, "invalid_request"],
    [{ ...key, "content-type": "text/plain" }, "hello", 415, "unsupported_media_type"],
    [key, "{}", 415, "unsupported_media_type"],
    [{ ...json, "content-encoding": "gzip" }, "{}", 415, "unsupported_media_type"],
    [{ ...json, "connect-timeout-ms": "soon" }, "{}", 400, "invalid_request"],
  ] as const) {
    const answer = await door.send({ method: "POST", path: PATH, headers, body });
    const said = JSON.stringify([headers, answer.text]);
    assert.equal(answer.status, status, said);
    assert.equal(answer.headers["cauri-reason"], code, said);
    assert.equal(answer.json.details[0].debug.code, code, said);
  }
});

test("rpc: a number, a time and a word that no JSON form of ours can hold are refused by their field", async (t) => {
  const unreached = async () => assert.fail("it was reached");
  const door = await openDoor(t, { payments: { createPayment: unreached, listPayments: unreached } });
  const headers = { "x-api-key": door.key() };
  for (const [name, transport] of Object.entries(transports(door))) {
    const client = createClient(PaymentService, transport);
    for (const [call, field] of [
      [client.createPayment({ ...BODY, amountMinor: 2n ** 53n }, { headers }), "amount_minor"],
      [client.createPayment({ ...BODY, amountMinor: -(2n ** 63n) }, { headers }), "amount_minor"],
      [client.listPayments({ page: 2n ** 62n }, { headers }), "page"],
      [client.listPayments({ createdFrom: { seconds: 2n ** 60n, nanos: 0 } }, { headers }), "created_from"],
      [client.listPayments({ status: 99 as PaymentStatus }, { headers }), "status"],
    ] as const) {
      const detail = detailOf(await failure(call));
      assert.deepEqual([detail.code, detail.field], ["invalid_request", field], name);
    }
  }
});

test("rpc: in JSON, a word that an enum has not is refused, never dropped with the filter that it was", async (t) => {
  const seen: unknown[] = [];
  const door = await openDoor(t, {
    payments: {
      listPayments: async ({ status }) => {
        seen.push(status);
        return { data: [], page: 1n, perPage: 25, total: 0n, hasMore: false };
      },
    },
  });
  const path = "/cauri.collections.v1.PaymentService/ListPayments";
  const headers = { "x-api-key": door.key(), "content-type": "application/json" };
  const ask = (body: object) => door.send({ method: "POST", path, headers, body });
  for (const body of [{ status: "success" }, { status: "PAYMENT_STATUS_SETTLED" }]) {
    const answer = await ask(body);
    assert.deepEqual([answer.status, answer.headers["cauri-field"]], [400, "status"], answer.text);
    assert.match(answer.json.message, /^status: must be one of PAYMENT_STATUS_INITIATED, /);
  }
  for (const body of [{ status: "PAYMENT_STATUS_SUCCESS" }, { status: 3 }, { status: null }, { unknown: "x" }]) {
    assert.equal((await ask(body)).status, 200);
  }
  assert.deepEqual(seen, [3, 3, undefined, undefined]);
});

test("rpc: a client's own deadline ends its waiting and nothing else; one of weeks is none", async (t) => {
  let [begun, ended] = [0, 0];
  const door = await openDoor(t, {
    payments: {
      createPayment: async (_, call) => {
        begun += 1;
        assert.ok(call.deadline_ms - Date.now() > 5_000, "the work has the route's own deadline");
        await sleep(300);
        ended += 1;
        return paymentOf();
      },
      getPayment: async () => paymentOf({ id: "pay_7" }),
    },
  });
  const headers = { "x-api-key": door.key() };
  for (const [name, transport] of Object.entries(transports(door))) {
    const client = createClient(PaymentService, transport);
    const error = await failure(client.createPayment(BODY, { headers, timeoutMs: 100 }));
    assert.equal(error.code, Code.DeadlineExceeded, name);
    const patient = { ...headers, "connect-timeout-ms": "9999999999", "grpc-timeout": "99999999S" };
    assert.equal((await client.getPayment({ id: "pay_7" }, { headers: patient })).id, "pay_7", name);
  }
  // A client that does not watch its own clock is told.
  const answer = await door.send({
    method: "POST",
    path: PATH,
    headers: { ...headers, "connect-timeout-ms": "100", "content-type": "application/json" },
    body: { amountMinor: 1500, assetId: "ast_xof", platformId: "plt_mtn_ci" },
  });
  assert.deepEqual([answer.json.code, answer.headers["retry-after"]], ["deadline_exceeded", "1"]);
  // A hurried client may have given up before it even asked; what was asked for is done.
  while (ended < begun) await sleep(10);
  assert.ok(begun > 0 && ended === begun, `${ended} of ${begun}`);
});

test("rpc: a body over the limit is 413 by HTTP, and GET is 405", async (t) => {
  const door = await openDoor(t);
  const path = PATH;
  const headers = { "content-type": "application/json", "x-api-key": door.key() };
  const answer = await door.send({ method: "POST", path, headers, body: `{"description":"${"x".repeat(1_100_000)}"}` });
  assert.equal(answer.status, 413);
  const get = await door.send({ method: "GET", path, headers });
  assert.equal(get.status, 405);
});
