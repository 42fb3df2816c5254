// Every collection row of the sandbox's table, as a merchant lives it: the answer, the end, the books, the notices.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import {
  type Answer,
  advanceClock,
  balance,
  eventually,
  type Merchant,
  merchant,
  paymentBody,
  paymentIs,
} from "./house.ts";
import { type Receiver, startReceiver } from "./receiver.ts";

const AMOUNT = 10_000;
/** The seeded default: 150 basis points. */
const FEE = 150;

let receiver: Receiver;

before(async () => {
  receiver = await startReceiver();
});
after(() => receiver.close());

/** A merchant of the row's own, so that its books hold this one payment. */
async function shop(): Promise<Merchant> {
  const made = await merchant("Rows");
  const answer = await made.test.post("/v1/webhooks", { url: receiver.url });
  assert.equal(answer.status, 201, answer.text);
  return made;
}

async function created(at: Merchant, row: string, headers: Record<string, string> = {}): Promise<Answer["body"]> {
  const answer = await at.test.post("/v1/payments", paymentBody(row), headers);
  assert.equal(answer.status, 201, `row ${row}: ${answer.text}`);
  return answer.body;
}

async function collected(at: Merchant, id: string, events: readonly string[]): Promise<void> {
  const payment = await paymentIs(at.test, id, "success");
  assert.equal(payment.fee_minor, FEE);
  assert.equal(payment.net_minor, AMOUNT - FEE);
  assert.equal(payment.failure, null);
  assert.notEqual(payment.completed_at, null);
  const books = await balance(at.test);
  assert.deepEqual([books.available_minor, books.reserved_minor, books.pending_minor], [AMOUNT - FEE, 0, 0]);
  const notices = await receiver.hears(id, events);
  const last = notices.at(-1)?.data;
  assert.equal(last?.amount, String(AMOUNT));
  assert.equal(last?.currency, "XOF");
  assert.equal(last?.status, "success");
}

async function notCollected(at: Merchant, id: string, code: string): Promise<void> {
  const payment = await paymentIs(at.test, id, "failed");
  assert.equal(payment.failure.code, code);
  const books = await balance(at.test);
  assert.deepEqual([books.available_minor, books.reserved_minor, books.pending_minor], [0, 0, 0]);
  await receiver.hears(id, ["payment.initiated", "payment.failed"]);
}

for (const row of ["00", "42"]) {
  test(`row ${row}: pending at first, then collected`, async () => {
    const at = await shop();
    const payment = await created(at, row);
    assert.equal(payment.status, "pending");
    assert.equal(payment.is_test, true);
    assert.match(payment.reference, /^PAY-TEST[0-9A-HJKMNP-TV-Z]{8}$/);
    await collected(at, payment.id, ["payment.initiated", "payment.pending", "payment.success"]);
    const order = receiver.about(payment.id).map(({ event }) => event);
    assert.deepEqual(order, ["payment.initiated", "payment.pending", "payment.success"]);
  });
}

for (const row of ["01", "09", "13", "14"]) {
  test(`row ${row}: collected${row === "09" ? "" : " before the 201 leaves"}`, async () => {
    const at = await shop();
    const payment = await created(at, row);
    if (row !== "09") assert.equal(payment.status, "success");
    await collected(at, payment.id, ["payment.initiated", "payment.success"]);
  });
}

test("row 02: the payer has no money", async () => {
  const at = await shop();
  await notCollected(at, (await created(at, "02")).id, "insufficient_funds");
});

test("row 03: the payer says no", async () => {
  const at = await shop();
  await notCollected(at, (await created(at, "03")).id, "payer_rejected");
});

test("row 04: silent until it expires by the test clock", async () => {
  const at = await shop();
  const payment = await created(at, "04");
  assert.equal(payment.status, "pending");
  assert.equal((await balance(at.test)).pending_minor, AMOUNT);
  await advanceClock(at.account_id, "2h");
  await notCollected(at, payment.id, "expired");
});

test("row 05: refused by the rail, 502; the same key goes on and succeeds", async () => {
  const at = await shop();
  const headers = { "idempotency-key": "row-05" };
  const first = await at.test.post("/v1/payments", paymentBody("05"), headers);
  assert.deepEqual([first.status, first.body.error.code], [502, "upstream_error"], first.text);
  const listed = await at.test.get("/v1/payments");
  assert.deepEqual([listed.body.total, listed.body.data[0].status], [1, "initiated"]);
  const second = await created(at, "05", headers);
  assert.equal(second.id, listed.body.data[0].id);
  await collected(at, second.id, ["payment.initiated", "payment.success"]);
});

test("row 06: accepted, answered 500: found by asking", async () => {
  const at = await shop();
  const payment = await created(at, "06");
  await collected(at, payment.id, ["payment.initiated", "payment.success"]);
});

test("row 07: the callback arrives twice, the money once", async () => {
  const at = await shop();
  const payment = await created(at, "07");
  await collected(at, payment.id, ["payment.initiated", "payment.success"]);
  const ids = receiver.about(payment.id).map(({ headers }) => headers["x-service-delivery"]);
  assert.equal(new Set(ids).size, receiver.about(payment.id).filter(({ event }) => event !== "").length);
  assert.equal(receiver.about(payment.id).filter(({ event }) => event === "payment.success").length, 1);
});

test("row 08: collected after a minute of the test clock", async () => {
  const at = await shop();
  const payment = await created(at, "08");
  assert.equal(payment.status, "pending");
  await advanceClock(at.account_id, "30s");
  assert.equal((await at.test.get(`/v1/payments/${payment.id}`)).body.status, "pending");
  await advanceClock(at.account_id, "31s");
  await collected(at, payment.id, ["payment.initiated", "payment.pending", "payment.success"]);
});

test("row 10: failed, then the money comes late and counts", async () => {
  const at = await shop();
  const payment = await created(at, "10");
  await receiver.hears(payment.id, ["payment.failed"]);
  await collected(at, payment.id, ["payment.initiated", "payment.failed", "payment.success"]);
});

test("row 11: the callback overtakes the call's own answer", async () => {
  const at = await shop();
  const payment = await created(at, "11");
  await collected(at, payment.id, ["payment.initiated", "payment.success"]);
});

test("row 12: unavailable, 503 with Retry-After, for as long as one asks", async () => {
  const at = await shop();
  for (const _ of [1, 2]) {
    const answer = await at.test.post("/v1/payments", paymentBody("12"), { "idempotency-key": "row-12" });
    assert.deepEqual([answer.status, answer.body.error.code], [503, "temporarily_unavailable"], answer.text);
    assert.match(answer.headers.get("retry-after") ?? "", /^[1-9]\d*$/);
  }
  const listed = await at.test.get("/v1/payments");
  assert.equal(listed.body.total, 1);
  assert.deepEqual([(await balance(at.test)).available_minor, (await balance(at.test)).pending_minor], [0, 0]);
  await advanceClock(at.account_id, "11m");
  // The ten minutes after a 5xx are real time or the test clock's; either way nothing is charged meanwhile.
  assert.equal((await balance(at.test)).available_minor, 0);
});

test("rails: what each platform gives back to charge the payer", async () => {
  const at = await merchant("Shapes");
  const ask = async (platform_id: string) => {
    const answer = await at.test.post("/v1/payments", { amount_minor: 1500, asset_id: "ast_xof", platform_id });
    assert.equal(answer.status, 201, answer.text);
    const { rail, payment_url, deep_link, qr, status } = answer.body;
    assert.equal(status, "pending");
    return { rail, page: payment_url !== null, link: deep_link !== null, qr: qr !== null };
  };
  assert.deepEqual(await ask("plt_orange_ci"), { rail: "orange_webpay", page: true, link: false, qr: false });
  assert.deepEqual(await ask("plt_wave_ci"), { rail: "wave", page: true, link: true, qr: false });
  assert.deepEqual(await ask("plt_pi_ci"), { rail: "instant", page: false, link: false, qr: true });
});

test("simulator page: approve, decline and cancel decide a payment without a phone", async () => {
  const at = await merchant("Pages");
  const decide = async (decision: string) => {
    const { body } = await at.test.post("/v1/payments", {
      amount_minor: 1500,
      asset_id: "ast_xof",
      platform_id: "plt_orange_ci",
      description: "Two <b>cups</b>",
    });
    const page = await fetch(body.payment_url);
    const html = await page.text();
    assert.equal(page.status, 200);
    assert.ok(html.includes("cups") && !html.includes("<b>cups"), "the description is shown, escaped");
    const posted = await fetch(body.payment_url, {
      method: "POST",
      headers: { "content-type": "application/x-www-form-urlencoded" },
      body: `decision=${decision}`,
      redirect: "manual",
    });
    assert.ok(posted.status < 400, `${decision}: ${posted.status}`);
    return eventually(
      decision,
      async () => (await at.test.get(`/v1/payments/${body.id}`)).body,
      (payment) => payment.status !== "pending",
    );
  };
  assert.equal((await decide("approve")).status, "success");
  const declined = await decide("decline");
  assert.deepEqual([declined.status, declined.failure.code], ["failed", "payer_rejected"]);
  assert.equal((await decide("cancel")).status, "cancelled");
});
