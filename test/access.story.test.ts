// Who may call: keys, scopes, states of an account; and that another account's everything is a 404.

import assert from "node:assert/strict";
import { before, test } from "node:test";
import { type Answer, api, call, handles, type Merchant, merchant, noteSecret, operate, paymentBody } from "./house.ts";
import { startReceiver } from "./receiver.ts";

const ACCOUNTS = "cauri.accounts.v1.AccountService";
const KEYS = "cauri.accounts.v1.KeyService";

let at: Merchant;
before(async () => {
  at = await merchant("Access");
});

function is(answer: Answer, status: number, code: string): void {
  assert.deepEqual([answer.status, answer.body?.error?.code], [status, code], answer.text);
}

test("no key: 401 missing_api_key, also with another scheme or a key in the query", async () => {
  is(await call(null, "GET", "/v1/payments"), 401, "missing_api_key");
  is(await call(null, "GET", "/v1/payments", { headers: { authorization: "Basic abc" } }), 401, "missing_api_key");
  is(await call(null, "GET", `/v1/payments?api_key=${at.test.key}`), 401, "missing_api_key");
  is(await call(null, "GET", "/v1/nonsense"), 401, "missing_api_key");
});

test("keys: X-API-Key is as good as Bearer, Authorization wins, an unknown key is refused", async () => {
  const unknown = `sk_test_${"A".repeat(43)}`;
  assert.equal((await call(null, "GET", "/v1/payments", { headers: { "x-api-key": at.test.key } })).status, 200);
  is(await call(unknown, "GET", "/v1/payments"), 401, "invalid_api_key");
  is(await call(unknown, "GET", "/v1/payments", { headers: { "x-api-key": at.test.key } }), 401, "invalid_api_key");
});

test("account states: pending, approved, suspended, reinstated, closed, each at once", async () => {
  const account = await operate(`${ACCOUNTS}/CreateAccount`, { name: "States", country: "CI", email: "s@example.com" });
  const key = api(noteSecret(account.firstKey.secret));
  const account_id = account.accountId;
  is(await key.get("/v1/assets"), 403, "client_inactive");
  await operate(`${ACCOUNTS}/ApproveAccount`, { account_id });
  const reader = api(
    noteSecret((await operate(`${KEYS}/CreateKey`, { account_id, mode: "test", scopes: ["all"] })).secret),
  );
  assert.equal((await reader.get("/v1/assets")).status, 200);
  await operate(`${ACCOUNTS}/SuspendAccount`, { account_id });
  is(await reader.get("/v1/assets"), 403, "client_inactive");
  await operate(`${ACCOUNTS}/ReinstateAccount`, { account_id });
  assert.equal((await reader.get("/v1/assets")).status, 200);
  await operate(`${ACCOUNTS}/CloseAccount`, { account_id });
  is(await reader.get("/v1/assets"), 401, "invalid_api_key");
});

test("revoked and rotated keys: refused at once; with an overlap both work", async () => {
  const first = await at.key("test");
  assert.equal((await first.get("/v1/assets")).status, 200);
  const second = await operate(`${KEYS}/RotateKey`, { key_id: first.key_id, overlap_s: 3600 });
  const renewed = api(noteSecret(second.secret));
  assert.deepEqual([(await first.get("/v1/assets")).status, (await renewed.get("/v1/assets")).status], [200, 200]);
  const third = await operate(`${KEYS}/RotateKey`, { key_id: second.keyId });
  const last = api(noteSecret(third.secret));
  is(await renewed.get("/v1/assets"), 401, "invalid_api_key");
  assert.equal((await last.get("/v1/assets")).status, 200);
  await operate(`${KEYS}/RevokeKey`, { key_id: third.keyId });
  is(await last.get("/v1/assets"), 401, "invalid_api_key");
});

test("scopes: what a key may not do is 403 insufficient_scope", async () => {
  const reader = await at.key("test", ["can_read_transactions"]);
  assert.equal((await reader.get("/v1/payments")).status, 200);
  is(await reader.post("/v1/payments", paymentBody("01")), 403, "insufficient_scope");
  is(await reader.get("/v1/webhooks"), 403, "insufficient_scope");
  is(await reader.post("/v1/webhooks/test"), 400, "no_active_endpoint");
  const writer = await at.key("test", ["can_initiate_payment"]);
  is(await writer.get("/v1/payments"), 403, "insufficient_scope");
  is(await writer.get("/v1/balances"), 403, "insufficient_scope");
  assert.equal((await writer.get("/v1/openapi.json")).status, 200);
});

test("order of checks: key, path, method, account, scope, type, size, body", async () => {
  const reader = await at.key("test", ["can_read_transactions"]);
  is(
    await call(reader.key, "POST", "/v1/nonsense", { raw: "{", headers: { "content-type": "text/plain" } }),
    404,
    "not_found",
  );
  is(await call(reader.key, "PUT", "/v1/payments", { raw: "{" }), 405, "method_not_allowed");
  is(
    await call(reader.key, "POST", "/v1/payments", { raw: "{", headers: { "content-type": "text/plain" } }),
    403,
    "insufficient_scope",
  );
  is(
    await call(at.test.key, "POST", "/v1/payments", { raw: "{", headers: { "content-type": "text/plain" } }),
    415,
    "unsupported_media_type",
  );
});

test("another account's everything is a 404, as is the other mode's", async () => {
  const receiver = await startReceiver();
  const other = await merchant("Other");
  const live = await at.key("live");
  const payment = (await at.test.post("/v1/payments", paymentBody("01", { client_ref: "mine" }))).body;
  const endpoint = (await at.test.post("/v1/webhooks", { url: receiver.url })).body;
  for (const name of [payment.id, payment.reference, "mine", "pay_01KAE8QK8Q5V6ZJ9T2N4B7C1XW", "nothing"]) {
    is(await other.test.get(`/v1/payments/${name}`), 404, "not_found");
    is(await live.get(`/v1/payments/${name}`), 404, "not_found");
  }
  assert.equal((await other.test.get("/v1/payments")).body.total, 0);
  assert.equal((await other.test.get("/v1/payments?client_ref=mine")).body.total, 0);
  for (const id of [endpoint.id, 999_999_999, "abc", "-1", "1e3", "9".repeat(30)]) {
    is(await other.test.get(`/v1/webhooks/${id}`), 404, "not_found");
    is(await other.test.get(`/v1/webhooks/${id}/secret`), 404, "not_found");
    is(await other.test.patch(`/v1/webhooks/${id}`, { is_active: false }), 404, "not_found");
    is(await other.test.del(`/v1/webhooks/${id}`), 404, "not_found");
  }
  assert.equal((await live.get(`/v1/webhooks/${endpoint.id}`)).status, 200, "endpoints are not separated by mode");
  await receiver.close();
});

test("operator RPCs: not on the public port with any credential, and behind the token on the admin port", async () => {
  const { base_url, admin_url, operator_token } = handles();
  const ask = (base: string, token: string) =>
    fetch(`${base}/${ACCOUNTS}/ListAccounts`, {
      method: "POST",
      headers: { "content-type": "application/json", authorization: `Bearer ${token}` },
      body: "{}",
    });
  assert.equal((await ask(base_url, operator_token)).status, 401, "to the public door it is no key at all");
  assert.equal((await ask(base_url, at.test.key)).status, 404, "with a good key there is no such method");
  assert.equal((await ask(admin_url, `${operator_token}x`)).status, 401);
  assert.equal((await ask(admin_url, at.test.key)).status, 401);
  assert.equal((await ask(admin_url, operator_token)).status, 200);
  assert.equal((await fetch(`${base_url}/metrics`)).status, 404);
  assert.equal((await fetch(`${admin_url}/metrics`)).status, 200);
});

test("callbacks: a forged one is refused, an unknown connector is not there", async () => {
  const { base_url } = handles();
  const forged = await fetch(`${base_url}/callbacks/simulator`, { method: "POST", body: '{"status":"success"}' });
  assert.equal(forged.status, 401);
  assert.equal((await fetch(`${base_url}/callbacks/nobody`, { method: "POST", body: "{}" })).status, 404);
});
