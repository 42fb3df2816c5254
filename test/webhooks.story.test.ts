// Endpoints and signed deliveries as a merchant sees them.

import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { after, before, test } from "node:test";
import Stripe from "stripe";
import { advanceClock, eventually, type Merchant, merchant, noteSecret, paymentBody } from "./house.ts";
import { type Receiver, startReceiver } from "./receiver.ts";

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

test("register: 201 with the secret; the same URL again is 200 and unchanged; the secret can be read again", async () => {
  const at = await merchant("Hooks");
  const first = await endpointOf(at, { description: "Shop", subscribed_events: ["payment.success", "subscription.*"] });
  assert.match(first.secret, /^whsec_[A-Za-z0-9+/]{43}=$/);
  const { secret, ...endpoint } = first;
  assert.deepEqual(Object.keys(endpoint).sort(), [
    "consecutive_failures",
    "created_at",
    "description",
    "id",
    "is_active",
    "last_delivery_at",
    "last_failure_at",
    "last_success_at",
    "standard_headers",
    "subscribed_events",
    "suspended_until",
    "updated_at",
    "url",
  ]);
  assert.equal(typeof endpoint.id, "number");
  const again = await at.test.post("/v1/webhooks", {
    url: receiver.url.replace("https://", "HTTPS://"),
    description: "Other",
  });
  assert.deepEqual(
    [again.status, again.body.id, again.body.description, again.body.secret],
    [200, endpoint.id, "Shop", secret],
  );
  assert.deepEqual((await at.test.get(`/v1/webhooks/${endpoint.id}/secret`)).body, { secret });
  assert.deepEqual((await at.test.get(`/v1/webhooks/${endpoint.id}`)).body, endpoint);
  const list = await at.test.get("/v1/webhooks");
  assert.deepEqual([list.body.data, list.body.total, list.body.page, list.body.has_more], [[endpoint], 1, 1, false]);
});

test("register: what is refused, each naming its field", async () => {
  const at = await merchant("Hooks");
  const bad: [Record<string, unknown>, string][] = [
    [{}, "url"],
    [{ url: "http://shop.example.com/hook" }, "url"],
    [{ url: "https://user:pw@shop.example.com/hook" }, "url"],
    [{ url: "https://shop.example.com/hook#part" }, "url"],
    [{ url: "https://10.0.0.1/hook" }, "url"],
    [{ url: "https://169.254.169.254/latest" }, "url"],
    [{ url: "https://[::ffff:10.0.0.1]/hook" }, "url"],
    [{ url: "https://0x0a000001/hook" }, "url"],
    [{ url: receiver.url, subscribed_events: ["payment.nonsense"] }, "subscribed_events"],
    [{ url: receiver.url, subscribed_events: ["transfer.success"] }, "subscribed_events"],
    [{ url: receiver.url, subscribed_events: "payment.success" }, "subscribed_events"],
    [{ url: receiver.url, standard_headers: "yes" }, "standard_headers"],
  ];
  for (const [body, field] of bad) {
    const answer = await at.test.post("/v1/webhooks", body);
    assert.deepEqual(
      [answer.status, answer.body.error.code],
      [422, "invalid_request"],
      JSON.stringify(body) + answer.text,
    );
    assert.ok(answer.body.error.message.startsWith(field), answer.text);
  }
  assert.equal((await at.test.get("/v1/webhooks")).body.total, 0);
});

test("ten endpoints: of 14 at once ten are made; a known URL is still 200", async () => {
  const at = await merchant("Hooks");
  const urls = Array.from({ length: 14 }, (_, i) => `${receiver.url}/${i}`);
  const answers = await Promise.all(urls.map((url) => at.test.post("/v1/webhooks", { url })));
  assert.equal(answers.filter(({ status }) => status === 201).length, 10);
  assert.equal(answers.filter(({ status }) => status === 422).length, 4);
  const known = answers.find(({ status }) => status === 201)?.body;
  assert.equal((await at.test.post("/v1/webhooks", { url: known.url })).status, 200);
  assert.equal((await at.test.del(`/v1/webhooks/${known.id}`)).status, 204);
  assert.equal((await at.test.post("/v1/webhooks", { url: known.url })).status, 201);
});

test("signature: over the raw body, accepted by a public library; body in the contract's order", async () => {
  const at = await merchant("Hooks");
  const { secret } = await endpointOf(at);
  const payment = (await at.test.post("/v1/payments", paymentBody("01", { client_ref: "signed-1" }))).body;
  const [notice] = await receiver.hears(payment.id, ["payment.success"]);
  assert.ok(notice !== undefined);
  const header = String(notice.headers["x-service-signature"]);
  const event = new Stripe("unused").webhooks.constructEvent(notice.raw, header, secret);
  assert.equal((event as unknown as { event: string }).event, "payment.success");
  const [, t, v1] = /^t=(\d+),v1=([0-9a-f]{64})$/.exec(header) ?? [];
  assert.equal(createHmac("sha256", secret).update(`${t}.`).update(notice.raw).digest("hex"), v1);
  const body = JSON.parse(notice.raw.toString());
  assert.deepEqual(Object.keys(body), ["event", "created", "data"]);
  assert.deepEqual(Object.keys(body.data), ["id", "reference", "merchant_reference", "amount", "currency", "status"]);
  assert.match(body.created, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  assert.deepEqual(body.data, {
    id: payment.id,
    reference: payment.reference,
    merchant_reference: "signed-1",
    amount: "10000",
    currency: "XOF",
    status: "success",
  });
  assert.equal(notice.raw.toString(), JSON.stringify(body), "compact JSON");
  assert.equal(notice.headers["x-service-event"], "payment.success");
  assert.match(String(notice.headers["x-service-delivery"]), /^evt_[0-9A-Z]{26}$/);
  assert.equal(notice.headers["x-service-mode"], "test");
  assert.equal(notice.headers["content-type"], "application/json");
});

test("amount: the decimal amount in an asset of scale 2", async () => {
  const at = await merchant("Hooks");
  await endpointOf(at);
  const { status, body, text } = await at.test.post("/v1/payments", {
    amount_minor: 1_550,
    asset_id: "ast_ghs",
    platform_id: "plt_mtn_gh",
    payer: { phone: "+233241234501" },
  });
  assert.equal(status, 201, text);
  const [notice] = await receiver.hears(body.id, ["payment.success"]);
  assert.deepEqual([notice?.data.amount, notice?.data.currency], ["15.50", "GHS"]);
});

test("subscribed events: only those named arrive", async () => {
  const at = await merchant("Hooks");
  await endpointOf(at, { subscribed_events: ["payment.failed"] });
  const good = (await at.test.post("/v1/payments", paymentBody("01"))).body;
  const bad = (await at.test.post("/v1/payments", paymentBody("03"))).body;
  await receiver.hears(bad.id, ["payment.failed"]);
  assert.deepEqual(receiver.about(good.id), []);
  assert.deepEqual(
    receiver.about(bad.id).map(({ event }) => event),
    ["payment.failed"],
  );
});

test("ladder: five attempts by the test clock, then no more; the counter tells", async () => {
  const at = await merchant("Hooks");
  const { id } = await endpointOf(at, { subscribed_events: ["payment.success"] });
  receiver.answer((notice) => (notice.data.merchant_reference === "ladder" ? 500 : 200));
  const payment = (await at.test.post("/v1/payments", paymentBody("01", { client_ref: "ladder" }))).body;
  const attempts = () => receiver.about(payment.id).length;
  await eventually(
    "first attempt",
    async () => attempts(),
    (count) => count === 1,
  );
  for (const [step, by] of ["61s", "301s", "1801s", "7201s"].entries()) {
    await advanceClock(at.account_id, by);
    await eventually(
      `attempt ${step + 2}`,
      async () => attempts(),
      (count) => count === step + 2,
    );
  }
  await advanceClock(at.account_id, "30h");
  assert.equal(attempts(), 5);
  const endpoint = (await at.test.get(`/v1/webhooks/${id}`)).body;
  assert.deepEqual([endpoint.consecutive_failures, endpoint.suspended_until], [5, null]);
  assert.equal(new Set(receiver.about(payment.id).map(({ headers }) => headers["x-service-delivery"])).size, 1);
  receiver.answer(200);
});

test("suspension: the 20th failure in a row suspends; a test delivery reinstates at once; nothing is lost", async () => {
  const at = await merchant("Hooks");
  const { id } = await endpointOf(at, { subscribed_events: ["payment.success"] });
  receiver.answer((notice) => (String(notice.data.merchant_reference).startsWith("sus") ? 503 : 200));
  const made = await Promise.all(
    Array.from({ length: 22 }, (_, i) => at.test.post("/v1/payments", paymentBody("01", { client_ref: `sus-${i}` }))),
  );
  const read = async () => (await at.test.get(`/v1/webhooks/${id}`)).body;
  const suspended = await eventually("suspended", read, (endpoint) => endpoint.suspended_until !== null);
  assert.equal(suspended.consecutive_failures, 20);
  const sent = () => made.flatMap(({ body }) => receiver.about(body.id)).length;
  assert.equal(sent(), 20, "waiting deliveries burn no attempt");
  receiver.answer(200);
  const tested = await at.test.post("/v1/webhooks/test");
  assert.deepEqual(
    tested.body.data.map(({ delivered, status_code, error }: Record<string, unknown>) => [
      delivered,
      status_code,
      error,
    ]),
    [[true, 200, null]],
  );
  const reinstated = await read();
  assert.deepEqual([reinstated.consecutive_failures, reinstated.suspended_until], [0, null]);
  await advanceClock(at.account_id, "61s");
  await Promise.all(made.map(({ body }) => receiver.hears(body.id, ["payment.success"])));
});

test("is_active false keeps events, true resumes; PATCH changes only what is sent", async () => {
  const at = await merchant("Hooks");
  const { id } = await endpointOf(at, { description: "Shop", subscribed_events: ["payment.success"] });
  const paused = await at.test.patch(`/v1/webhooks/${id}`, { is_active: false });
  assert.deepEqual([paused.status, paused.body.is_active, paused.body.description], [200, false, "Shop"], paused.text);
  assert.deepEqual(paused.body.subscribed_events, ["payment.success"]);
  assert.equal((await at.test.post("/v1/webhooks/test")).body.error.code, "no_active_endpoint");
  const payment = (await at.test.post("/v1/payments", paymentBody("01"))).body;
  await new Promise((wake) => setTimeout(wake, 500));
  assert.deepEqual(receiver.about(payment.id), []);
  await at.test.patch(`/v1/webhooks/${id}`, { is_active: true, description: null });
  await receiver.hears(payment.id, ["payment.success"]);
  const cleared = await at.test.patch(`/v1/webhooks/${id}`, { description: "", subscribed_events: [] });
  assert.deepEqual(cleared.body.subscribed_events, []);
  const refused = await at.test.patch(`/v1/webhooks/${id}`, { url: "http://shop.example.com" });
  assert.deepEqual([refused.status, refused.body.error.code], [422, "invalid_request"]);
});
