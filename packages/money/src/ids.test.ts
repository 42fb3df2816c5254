import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { deriveId, deriveUuid, ID_PREFIXES, idFromUuid, isId, newId, uuidOf } from "./ids.ts";

const NOW = Date.UTC(2026, 10, 20);

test("new_id: has the prefix, 26 characters and the version 7", () => {
  const id = newId("pay", NOW);
  assert.match(id, /^pay_[0-7][0-9A-HJKMNP-TV-Z]{25}$/);
  assert.match(uuidOf(id), /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  assert.equal(Number.parseInt(uuidOf(id).replaceAll("-", "").slice(0, 12), 16), NOW);
});

test("new_id: a later one sorts after an earlier one", () => {
  const time = fc.integer({ min: 0, max: 2 ** 47 });
  fc.assert(
    fc.property(time, time, (a, b) => {
      if (a === b) return;
      assert.equal(newId("po", a) < newId("po", b), a < b);
    }),
  );
});

test("new_id: twenty thousand of one millisecond are all different", () => {
  const ids = new Set(Array.from({ length: 20_000 }, () => newId("evt", NOW)));
  assert.equal(ids.size, 20_000);
});

test("is_id: another prefix, a lower-case body, a wrong length or an excluded letter is none", () => {
  const id = newId("pl", NOW);
  assert.ok(isId("pl", id));
  assert.ok(!isId("plan", id));
  assert.ok(!isId("po", id));
  assert.ok(!isId("pl", `pl_${id.slice(3).toLowerCase()}`));
  assert.ok(!isId("pl", id.slice(0, -1)));
  assert.ok(!isId("pl", `${id}\n`));
  assert.ok(!isId("pl", `pl_8${id.slice(4)}`));
  assert.ok(!isId("pl", `${id.slice(0, -1)}U`));
});

test("uuid_of: goes there and back for every prefix and every UUID", () => {
  fc.assert(
    fc.property(fc.constantFrom(...ID_PREFIXES), fc.uuid(), (prefix, uuid) => {
      assert.equal(uuidOf(idFromUuid(prefix, uuid)), uuid);
      assert.ok(isId(prefix, idFromUuid(prefix, uuid)));
    }),
  );
  assert.throws(() => uuidOf("pay_short"), /not an internal id/);
  assert.throws(() => idFromUuid("pay", "nonsense"), /not a UUID/);
});

test("derive_uuid: the same step of the same parent has the same id, any other has another", () => {
  fc.assert(
    fc.property(fc.string(), fc.string(), fc.string(), fc.string(), (a, b, c, d) => {
      assert.equal(deriveUuid(a, b) === deriveUuid(c, d), a === c && b === d);
    }),
  );
  assert.notEqual(deriveUuid("a", "bc"), deriveUuid("ab", "c"));
});

test("derive_uuid: is a version 8 that keeps the time of an id", () => {
  const parent = newId("pay", NOW);
  const derived = deriveUuid(parent, "hold");
  assert.match(derived, /^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  assert.equal(derived.slice(0, 13), uuidOf(parent).slice(0, 13));
  assert.equal(uuidOf(deriveId("evt", parent, "hold")), derived);
});

test("derive_uuid: stays what it was, because ledgers hold these ids for ever", () => {
  assert.equal(deriveUuid("pay_01KAFZQ2W0E8R8Q0Z3T5V7X9YB", "hold"), "019a9ffb-8b80-89ca-9acb-da603f6191e7");
  assert.equal(deriveUuid("", ""), "6e340b9c-ffb3-8a98-9ca5-44e6bb780a2c");
});
