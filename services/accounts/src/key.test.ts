import assert from "node:assert/strict";
import { test } from "node:test";
import { isRefusal } from "@cauri/money/refusal";
import { checkKeyName, checkOverlap, chooseScopes, DEFAULT_SCOPES, type Key, SCOPES, whyNotRotated } from "./key.ts";

const key: Key = {
  key_id: "key_1",
  account_id: "acct_1",
  mode: "test",
  scopes: [],
  name: "",
  created_at: new Date(0),
  revoked_at: null,
  expires_at: null,
  replaced_by: null,
};

test("choose_scopes: none named are the harmless three, all is every one, an unknown one is refused by its place", () => {
  assert.deepEqual(chooseScopes([]), DEFAULT_SCOPES);
  assert.ok(!DEFAULT_SCOPES.includes("can_payout") && !DEFAULT_SCOPES.includes("can_manage_webhooks"));
  assert.deepEqual(chooseScopes(["all"]), SCOPES);
  assert.deepEqual(chooseScopes(["can_refund", "can_payout", "can_refund"]), ["can_payout", "can_refund"]);
  for (const [asked, field] of [
    [["can_payout", "can_fly"], "scopes.1"],
    [["all", "can_payout"], "scopes"],
    [[""], "scopes.0"],
  ] as const) {
    const answer = chooseScopes(asked);
    assert.equal(isRefusal(answer) ? answer.field : "", field);
  }
});

test("check_overlap: from 0 to seven days", () => {
  assert.equal(checkOverlap(undefined), 0);
  assert.equal(checkOverlap(604_800n), 604_800);
  assert.ok(isRefusal(checkOverlap(-1n)));
  assert.ok(isRefusal(checkOverlap(604_801n)));
});

test("check_key_name: at most 80 characters, no control characters", () => {
  assert.equal(checkKeyName(undefined), "");
  assert.equal(checkKeyName(" shop "), "shop");
  assert.ok(isRefusal(checkKeyName("x".repeat(81))));
  assert.ok(isRefusal(checkKeyName("a\nb")));
});

test("why_not_rotated: only a working key that nothing replaced", () => {
  const now = new Date(1000);
  assert.equal(whyNotRotated(key, now), null);
  assert.equal(whyNotRotated({ ...key, expires_at: new Date(1001) }, now), null);
  assert.ok(whyNotRotated({ ...key, replaced_by: "key_2" }, now));
  assert.ok(whyNotRotated({ ...key, revoked_at: new Date(1) }, now));
  assert.ok(whyNotRotated({ ...key, expires_at: new Date(1000) }, now));
});
