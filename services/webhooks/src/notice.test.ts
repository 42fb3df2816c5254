import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { test } from "node:test";
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
  assert.equal(signature("whsec_x", "{}", 1_700_000_000_999), `t=1700000000,v1=${expected}`);
});

test("notice_headers: the mode is told in test mode only", () => {
  const facts = { event: "payment.success", event_id: "evt_1", body: "{}" };
  assert.equal(noticeHeaders({ ...facts, mode: "test" }, "s", 0)["x-service-mode"], "test");
  assert.equal("x-service-mode" in noticeHeaders({ ...facts, mode: "live" }, "s", 0), false);
});
