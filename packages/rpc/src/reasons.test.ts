import assert from "node:assert/strict";
import { test } from "node:test";
import { REASONS } from "@cauri/money/refusal";
import { meaningOf, meanings } from "./reasons.ts";

test("reasons: money and proto know the same words, and each has a status", () => {
  for (const reason of REASONS) assert.ok(meanings.has(reason), reason);
  for (const [word, meaning] of meanings) {
    assert.ok(word === "operator_refused" || (REASONS as readonly string[]).includes(word), word);
    assert.ok(meaning.http >= 400 && meaning.grpc > 0, word);
  }
});

test("reasons: the table of the contract", () => {
  assert.deepEqual(meaningOf("insufficient_funds"), { http: 422, code: "insufficient_funds", grpc: 9, retry: false });
  assert.deepEqual(meaningOf("rate_limited"), { http: 429, code: "rate_limited", grpc: 8, retry: true });
});
