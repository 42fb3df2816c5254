import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { fingerprint } from "./fingerprint.ts";

const body = {
  amount_minor: 1500n,
  asset_id: "ast_xof",
  payer: { phone: "+2250712345607", name: undefined },
  metadata: { a: "1", b: "2" },
};

function same(a: object, b: object): boolean {
  return fingerprint("secret", "POST /v1/payments", a).equals(fingerprint("secret", "POST /v1/payments", b));
}

test("fingerprint: field order and absent fields don't matter", () => {
  assert.ok(same(body, { ...body, rail: undefined, client_ref: null }));
  assert.ok(same(body, { ...body, metadata: { b: "2", a: "1" } }));
  assert.ok(same(body, Object.fromEntries(Object.entries(body).reverse())));
  assert.ok(
    same(body, {
      ...body,
      metadata: new Map([
        ["b", "2"],
        ["a", "1"],
      ]),
    }),
  );
});

test("fingerprint: every value, the key and the route matter", () => {
  assert.ok(!same(body, { ...body, amount_minor: 1501n }));
  assert.ok(!same(body, { ...body, amount_minor: "1500" }));
  assert.ok(!same(body, { ...body, payer: { phone: "+2250712345608" } }));
  assert.ok(!same({ list: ["a", "b"] }, { list: ["b", "a"] }));
  assert.ok(!same({ at: new Date(0) }, { at: new Date(1) }));
  assert.ok(!same({ bytes: Uint8Array.of(1) }, { bytes: Uint8Array.of(2) }));
  assert.ok(!fingerprint("secret", "a", body).equals(fingerprint("secret", "b", body)));
  assert.ok(!fingerprint("secret", "a", body).equals(fingerprint("other", "a", body)));
});

test("fingerprint: two different bodies never have the same", () => {
  fc.assert(
    fc.property(fc.dictionary(fc.string(), fc.string()), fc.dictionary(fc.string(), fc.string()), (a, b) => {
      const entries = (value: Record<string, string>) => JSON.stringify(Object.entries(value).sort());
      assert.equal(same(a, b), entries(a) === entries(b));
    }),
  );
});
