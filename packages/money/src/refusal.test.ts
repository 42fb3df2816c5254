import assert from "node:assert/strict";
import { test } from "node:test";
import { isRefusal, refuse, refuseField } from "./refusal.ts";

test("refuse: carries what it is given and nothing else", () => {
  assert.deepEqual(refuse("not_found", "No such payment."), { refused: "not_found", message: "No such payment." });
  assert.deepEqual(refuse("concurrent_request", "Still running.", { retry_after_s: 1 }), {
    refused: "concurrent_request",
    message: "Still running.",
    retry_after_s: 1,
  });
  assert.deepEqual(refuseField("amount_minor", "must be positive"), {
    refused: "invalid_request",
    field: "amount_minor",
    message: "must be positive",
  });
});

test("is_refusal: tells a refusal from any answer", () => {
  assert.ok(isRefusal(refuse("not_found", "No such payment.")));
  for (const value of [null, undefined, "refused", {}, { refused: true }, []]) assert.ok(!isRefusal(value));
});
