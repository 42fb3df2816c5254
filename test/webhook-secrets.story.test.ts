// What a merchant signs by: the secret, its rotation by an operator, and the Standard Webhooks headers beside ours.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Webhook } from "standardwebhooks";
import Stripe from "stripe";
import { cauri, eventually, type Merchant, merchant, noteSecret, paymentBody } from "./house.ts";
import { type Notice, type Receiver, startReceiver } from "./receiver.ts";

let receiver: Receiver;
before(async () => {
  receiver = await startReceiver();
});
after(() => receiver.close());

async function endpointOf(at: Merchant, more: Record<string, unknown> = {}) {
  const answer = await at.test.post("/v1/webhooks", { url: receiver.url, ...more });
  assert.equal(answer.status, 201, answer.text);
  noteSecret(answer.body.secret);
  return answer.body;
}

async function rotate(at: Merchant, id: number, ...options: string[]) {
  const args = ["webhook", "secret", "rotate", at.account_id, String(id), ...options, "--json"];
  const { code, stdout, stderr } = await cauri(args);
  const json = JSON.parse(stdout);
  if (code === 0) noteSecret(json.secret);
  return { code, json, stderr };
}

/** A payment's notice of success. */
async function noticeOf(at: Merchant): Promise<Notice> {
  const payment = await at.test.post("/v1/payments", paymentBody("01"));
  const [notice] = await receiver.hears(payment.body.id, ["payment.success"]);
  assert.ok(notice !== undefined);
  return notice;
}

/** Whether Stripe's library takes our header with this secret. */
function taken({ raw, headers }: Notice, secret: string): boolean {
  try {
    new Stripe("unused").webhooks.constructEvent(raw, String(headers["x-service-signature"]), secret);
    return true;
  } catch (error) {
    assert.ok(error instanceof Stripe.errors.StripeSignatureVerificationError);
    return false;
  }
}

/** Whether the specification's own library takes the standard headers with this secret. */
function takenAsStandard({ raw, headers }: Notice, secret: string): boolean {
  try {
    new Webhook(secret).verify(raw, headers as Record<string, string>);
    return true;
  } catch (error) {
    assert.equal((error as Error).name, "WebhookVerificationError");
    return false;
  }
}

test("rotation: both secrets verify during the overlap, the current one first, and the old one ends with it", async () => {
  const at = await merchant("Rotation");
  const { id, secret: old } = await endpointOf(at, { standard_headers: true });
  const { code, json, stderr } = await rotate(at, id, "--overlap", "20s");
  assert.equal(code, 0, stderr);
  assert.deepEqual([json.id, json.previous_secret], [id, old]);
  assert.match(json.secret, /^whsec_[A-Za-z0-9+/]{43}=$/);
  const read = async () => (await at.test.get(`/v1/webhooks/${id}/secret`)).body;
  assert.deepEqual(await read(), { secret: json.secret, previous_secret: old });
  const during = await noticeOf(at);
  assert.match(String(during.headers["x-service-signature"]), /^t=\d+,v1=[0-9a-f]{64},v1=[0-9a-f]{64}$/);
  assert.match(String(during.headers["webhook-signature"]), /^v1,\S{44} v1,\S{44}$/);
  for (const secret of [json.secret, old]) assert.ok(taken(during, secret) && takenAsStandard(during, secret));
  const again = await rotate(at, id);
  assert.deepEqual([again.code, again.json.error.code], [1, "precondition_failed"]);
  // Slowly: twenty seconds of quick questions are more than a key's limit.
  const slowly = async () => {
    await sleep(500);
    return await read();
  };
  await eventually("the overlap is over", slowly, ({ secret, previous_secret }) => secret && !previous_secret, 40_000);
  const past = await noticeOf(at);
  assert.deepEqual(
    [json.secret, old].flatMap((secret) => [taken(past, secret), takenAsStandard(past, secret)]),
    [true, true, false, false],
  );
});

test("rotation: without an overlap the old secret ends at once; a test delivery is signed with the new one", async () => {
  const at = await merchant("Rotation");
  const { id, secret: old } = await endpointOf(at);
  const { json } = await rotate(at, id, "--overlap", "0s");
  assert.deepEqual([json.previous_secret, json.previous_secret_until], [null, null]);
  const seen = receiver.notices.length;
  const tested = await at.test.post("/v1/webhooks/test");
  assert.equal(tested.body.data[0].delivered, true, tested.text);
  const notice = receiver.notices.slice(seen).find(({ event }) => event === "payment.test");
  assert.ok(notice !== undefined);
  assert.deepEqual([taken(notice, json.secret), taken(notice, old)], [true, false]);
});

test("rotation: a foreign endpoint, a word that is no number, an overlap that is too long", async () => {
  const [at, other] = [await merchant("Rotation"), await merchant("Rotation")];
  const { id } = await endpointOf(at);
  assert.equal((await rotate(other, id)).json.error.code, "not_found");
  assert.equal((await rotate(at, id, "--overlap", "8d")).json.error.code, "invalid_request");
  const wrong = await cauri(["webhook", "secret", "rotate", at.account_id, "first"]);
  assert.equal(wrong.code, 2, wrong.stderr);
});

test("standard_headers: off unless asked for, switched by PATCH, beside ours and never in their place", async () => {
  const at = await merchant("Standard");
  const { id, secret, standard_headers } = await endpointOf(at);
  assert.equal(standard_headers, false);
  const without = await noticeOf(at);
  assert.deepEqual(
    ["webhook-id", "webhook-timestamp", "webhook-signature"].map((name) => without.headers[name]),
    [undefined, undefined, undefined],
  );
  const patched = await at.test.patch(`/v1/webhooks/${id}`, { standard_headers: true });
  assert.deepEqual([patched.status, patched.body.standard_headers], [200, true], patched.text);
  const with_ = await noticeOf(at);
  assert.ok(taken(with_, secret) && takenAsStandard(with_, secret));
  assert.equal(with_.headers["webhook-id"], with_.headers["x-service-delivery"]);
  assert.match(String(with_.headers["x-service-signature"]), new RegExp(`^t=${with_.headers["webhook-timestamp"]},`));
  assert.equal((await at.test.patch(`/v1/webhooks/${id}`, { description: "x" })).body.standard_headers, true);
  assert.equal((await at.test.patch(`/v1/webhooks/${id}`, { standard_headers: false })).body.standard_headers, false);
});
