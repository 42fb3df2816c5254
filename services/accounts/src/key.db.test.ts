import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { systemClock } from "@cauri/money/clock";
import { isRefusal } from "@cauri/money/refusal";
import { KeyChanged } from "@cauri/proto/ts/cauri/events/v1/events";
import { createKey, endKey, listKeysOf, resolve, rotateKey } from "./key-service.ts";
import { good, openTestHouse, refusedWith, type TestHouse } from "./testing.ts";

let at: TestHouse;
let db: TestHouse["db"];
let house: TestHouse["house"];
let signUp: TestHouse["signUp"];
let newKey: TestHouse["newKey"];
let resolveSecret: TestHouse["resolveSecret"];
let eventsOf: TestHouse["eventsOf"];

before(async () => {
  at = await openTestHouse();
  ({ db, house, signUp, newKey, resolveSecret, eventsOf } = at);
});
after(() => at.db.close());

test("create_key: the secret is shown once; bad input is refused with its field", async () => {
  const { accountId } = await signUp();
  const key = await newKey(accountId, ["all"]);
  assert.equal(key.scopes.length, 5);
  assert.equal((await resolveSecret(key.secret)).keyId, key.keyId);
  const { data } = good(await listKeysOf(house, { accountId }));
  assert.deepEqual(data.map(({ keyId, secret }) => [keyId, secret])[0], [key.keyId, undefined]);
  refusedWith(await createKey(house, { accountId, mode: "prod", scopes: [] }), "invalid_request", "mode");
  refusedWith(await createKey(house, { accountId, mode: "live", scopes: ["x"] }), "invalid_request", "scopes.0");
  refusedWith(await createKey(house, { accountId: "acct_nobody", mode: "live", scopes: [] }), "not_found");
});

test("rotate_key: without an overlap the old key ends at once, with one it works until then", async () => {
  const { accountId } = await signUp();
  const first = await newKey(accountId, ["can_payout"]);
  const second = good(await rotateKey(house, { keyId: first.keyId }));
  assert.deepEqual([second.scopes, second.name, second.mode], [first.scopes, first.name, first.mode]);
  assert.equal((await resolveSecret(first.secret)).known, false);
  const third = good(await rotateKey(house, { keyId: second.keyId, overlapS: 3600n }));
  const old = await resolveSecret(second.secret);
  assert.equal(old.known, true);
  assert.ok((old.expiresAt?.getTime() ?? 0) > systemClock() + 3_500_000);
  assert.equal((await resolveSecret(third.secret)).known, true);
  await db.pool.query("update keys set expires_at = clock_timestamp() where key_id = $1", [second.keyId]);
  assert.equal((await resolveSecret(second.secret)).known, false);
  refusedWith(await rotateKey(house, { keyId: third.keyId, overlapS: 604_801n }), "invalid_request", "overlap_s");
  refusedWith(await rotateKey(house, { keyId: "key_nobody" }), "not_found");
});

test("rotate_key: of many at once exactly one leaves a successor, also with an overlap", async () => {
  const { accountId } = await signUp();
  for (const overlapS of [undefined, 60n]) {
    const { keyId } = await newKey(accountId);
    const answers = await Promise.all(
      Array.from({ length: 8 }, () => rotateKey(house, overlapS === undefined ? { keyId } : { keyId, overlapS })),
    );
    assert.equal(answers.filter((answer) => !isRefusal(answer)).length, 1);
    for (const answer of answers.filter(isRefusal)) refusedWith(answer, "precondition_failed");
  }
});

test("revoke_key: no resolve that begins after it knows the key, and a repeat answers the same", async () => {
  const { accountId } = await signUp();
  const key = await newKey(accountId);
  let ended = false;
  const late: boolean[] = [];
  const asking = Array.from({ length: 8 }, async () => {
    for (let i = 0; i < 20; i += 1) {
      const began_after = ended;
      const { known } = await resolveSecret(key.secret);
      if (began_after) late.push(known);
    }
  });
  const revoked = good(await endKey(house, { keyId: key.keyId }));
  ended = true;
  await Promise.all(asking);
  assert.ok(late.every((known) => !known));
  assert.equal((await resolveSecret(key.secret)).known, false);
  const again = good(await endKey(house, { keyId: key.keyId }));
  assert.deepEqual(again.revokedAt, revoked.revokedAt);
  refusedWith(await rotateKey(house, { keyId: key.keyId }), "precondition_failed");
  const told = (await eventsOf(accountId)).map(({ payload }) => KeyChanged.decode(payload).keyId);
  assert.ok(told.filter((key_id) => key_id === key.keyId).length >= 2);
});

test("resolve_key: an unknown HMAC is not known, a malformed one is refused", async () => {
  assert.equal((await resolveSecret(`sk_test_${"a".repeat(43)}`)).known, false);
  refusedWith(await resolve(house, { hmac: Buffer.alloc(3) }), "invalid_request", "hmac");
});
