import assert from "node:assert/strict";
import { test } from "node:test";
import { newId } from "./ids.ts";
import { looksLikeOurs, newReference, parseOperationRef, REFERENCE_KINDS } from "./reference.ts";

test("new_reference: tells the mode, and fits an operator's field of 20 characters", () => {
  for (const kind of REFERENCE_KINDS) {
    assert.match(newReference(kind, "test"), new RegExp(`^${kind}-TEST[0-9A-HJKMNP-TV-Z]{8}$`));
    for (let i = 0; i < 200; i += 1) {
      const live = newReference(kind, "live");
      assert.match(live, new RegExp(`^${kind}-(?!TEST)[0-9A-HJKMNP-TV-Z]{12}$`));
      assert.ok(live.length <= 20);
    }
  }
});

test("looks_like_ours: prefix and length of an id or reference, whatever the case or the alphabet", () => {
  const id = newId("pay", 0);
  for (const text of [id, id.toLowerCase(), `plan_${"i".repeat(26)}`, "PAY-7F3K9Q2MBX4T", "pay-oooooooooooo"]) {
    assert.ok(looksLikeOurs(text), text);
  }
  for (const text of [id.slice(1), `${id}0`, "PAY-7F3K9Q2MBX4", "PAY-7F3K9Q2MBX4TT", "ORD-7F3K9Q2MBX4T", "order_1"]) {
    assert.ok(!looksLikeOurs(text), text);
  }
});

test("parse_operation_ref: an id, a reference in any case, a client_ref, or nothing", () => {
  const id = newId("pay", 0);
  assert.deepEqual(parseOperationRef(id), [{ by: "id", value: id }]);
  assert.deepEqual(parseOperationRef("pay-7f3k9q2mbx4t"), [{ by: "reference", value: "PAY-7F3K9Q2MBX4T" }]);
  assert.deepEqual(parseOperationRef("order-1:a.b"), [{ by: "client_ref", value: "order-1:a.b" }]);
  for (const text of ["", "-order", "a b", "é", "x".repeat(65), id.toLowerCase(), "PAY-7F3K9Q2MBX4U", `${id}\n`]) {
    assert.deepEqual(parseOperationRef(text), [], JSON.stringify(text));
  }
});
