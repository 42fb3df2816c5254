import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { test } from "node:test";
import { Webhook } from "standardwebhooks";
import { noticeBody, noticeHeaders, signature } from "./notice.ts";

const notice = {
  event: "payment.success",
  created: new Date("2026-11-20T18:53:00Z"),
  id: "pay_01KAE8QK8Q5V6ZJ9T2N4B7C1XW",
  reference: "PAY-7F3K9Q2MBX4T",
  merchant_reference: null,
  amount_minor: 1500n,
  scale: 2,
  currency: "GHS",
  status: "success",
};

test("notice_body: compact, in the contract's order, a decimal amount", () => {
  assert.equal(
    noticeBody(notice),
    '{"event":"payment.success","created":"2026-11-20T18:53:00.000Z","data":{"id":"pay_01KAE8QK8Q5V6ZJ9T2N4B7C1XW",' +
      '"reference":"PAY-7F3K9Q2MBX4T","merchant_reference":null,"amount":"15.00","currency":"GHS","status":"success"}}',
  );
});

test("signature: HMAC of time and body under the whole secret text", () => {
  const expected = createHmac("sha256", "whsec_x").update("1700000000.{}").digest("hex");
  assert.equal(signature(["whsec_x"], "{}", 1_700_000_000_999), `t=1700000000,v1=${expected}`);
});

test("signature: during a rotation one v1 a secret, the current one first", () => {
  const [fresh, old] = ["whsec_new", "whsec_old"].map((secret) =>
    createHmac("sha256", secret).update("1700000000.{}").digest("hex"),
  );
  assert.equal(signature(["whsec_new", "whsec_old"], "{}", 1_700_000_000_000), `t=1700000000,v1=${fresh},v1=${old}`);
});

test("standard_headers: accepted by the specification's own library, with either secret of a rotation", () => {
  const [fresh, old, other] = [1, 2, 3].map((fill) => `whsec_${Buffer.alloc(32, fill).toString("base64")}`);
  assert.ok(fresh !== undefined && old !== undefined && other !== undefined);
  const body = noticeBody(notice);
  const facts = { event: "payment.success", event_id: "evt_1", mode: "live" as const, body };
  const headers = noticeHeaders(facts, { secrets: [fresh, old], standard_headers: true }, Date.now());
  assert.match(headers["webhook-signature"] ?? "", /^v1,[A-Za-z0-9+/]{43}= v1,[A-Za-z0-9+/]{43}=$/);
  for (const secret of [fresh, old]) {
    assert.deepEqual(new Webhook(secret).verify(body, headers), JSON.parse(body));
    assert.throws(() => new Webhook(secret).verify(body.replace("15.00", "16.00"), headers));
    assert.throws(() => new Webhook(secret).verify(body, { ...headers, "webhook-id": "evt_2" }));
  }
  assert.throws(() => new Webhook(other).verify(body, headers));
});

test("notice_headers: the mode is told in test mode only", () => {
  const facts = { event: "payment.success", event_id: "evt_1", body: "{}" };
  const plain = { secrets: ["s"], standard_headers: false };
  assert.equal(noticeHeaders({ ...facts, mode: "test" }, plain, 0)["x-service-mode"], "test");
  assert.equal("x-service-mode" in noticeHeaders({ ...facts, mode: "live" }, plain, 0), false);
  assert.equal("webhook-id" in noticeHeaders({ ...facts, mode: "live" }, plain, 0), false);
});
