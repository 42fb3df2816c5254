import assert from "node:assert/strict";
import { test } from "node:test";
import { hmacOfSecret, isSecret, newSecret } from "./api-key.ts";

test("new_secret: names its mode, has 43 characters of base62 and never repeats", () => {
  const secrets = Array.from({ length: 1000 }, (_, i) => newSecret(i % 2 === 0 ? "test" : "live"));
  assert.equal(new Set(secrets).size, secrets.length);
  for (const [i, secret] of secrets.entries()) {
    assert.ok(isSecret(secret), secret);
    assert.ok(secret.startsWith(i % 2 === 0 ? "sk_test_" : "sk_live_"));
  }
});

test("is_secret: another prefix, length or character is none", () => {
  const body = "a".repeat(43);
  assert.ok(isSecret(`sk_test_${body}`));
  for (const text of [
    `sk_prod_${body}`,
    `sk_test_${body}a`,
    `sk_live_${body.slice(1)}`,
    `sk_live_-${body.slice(1)}`,
    "",
  ]) {
    assert.ok(!isSecret(text), text);
  }
});

test("hmac_of_secret: known answer; another pepper or secret is another HMAC", () => {
  // RFC 4231, test case 2.
  assert.equal(
    hmacOfSecret("what do ya want for nothing?", "Jefe").toString("hex"),
    "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
  );
  assert.notDeepEqual(hmacOfSecret("a", "pepper"), hmacOfSecret("a", "other"));
});
