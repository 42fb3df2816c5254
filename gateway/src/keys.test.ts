// The key cache: how old an answer may get, and what a change does to it.

import assert from "node:assert/strict";
import { test } from "node:test";
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { newSecret } from "@cauri/money/api-key";
import { AccountStatus, ResolvedKeySchema } from "@cauri/proto/es/cauri/accounts/v1/accounts_pb";
import { networkOf, sameToken } from "./admit.ts";
import { createKeys } from "./keys.ts";

const KNOWN = { known: true, keyId: "key_1", accountId: "acct_1", mode: "test", accountStatus: AccountStatus.APPROVED };

function setUp(
  answer: () => MessageInitShape<typeof ResolvedKeySchema> | Promise<MessageInitShape<typeof ResolvedKeySchema>>,
) {
  const state = { now: 1_000_000, asked: 0 };
  const keys = createKeys({
    pepper: "pepper",
    now: () => state.now,
    resolve: async () => {
      state.asked += 1;
      return create(ResolvedKeySchema, await answer());
    },
  });
  return { state, keys, secret: newSecret("test") };
}

test("keys: an answer is kept for 5 s at most, known or not", async () => {
  for (const known of [true, false]) {
    const { state, keys, secret } = setUp(() => ({ ...KNOWN, known }));
    await keys.find(secret, "req_1");
    state.now += 4_999;
    await keys.find(secret, "req_1");
    assert.equal(state.asked, 1);
    state.now += 1;
    await keys.find(secret, "req_1");
    assert.equal(state.asked, 2);
  }
});

test("keys: a change is seen with the next request, and an answer from before it is not kept", async () => {
  let status: AccountStatus = AccountStatus.APPROVED;
  const gate = Promise.withResolvers<void>();
  const { keys, secret } = setUp(async () => {
    const told = { ...KNOWN, accountStatus: status };
    if (status === AccountStatus.APPROVED) await gate.promise;
    return told;
  });
  const before = keys.find(secret, "req_1");
  status = AccountStatus.SUSPENDED;
  keys.forget();
  gate.resolve();
  assert.equal((await before)?.approved, true, "the question was under way");
  assert.equal((await keys.find(secret, "req_1"))?.approved, false);
});

test("keys: many requests with a new key ask once; a failed question is asked again", async () => {
  let fails = true;
  const { state, keys, secret } = setUp(() => (fails ? Promise.reject(new Error("away")) : KNOWN));
  const all = await Promise.allSettled([...Array(20)].map(() => keys.find(secret, "req_1")));
  assert.equal(state.asked, 1);
  assert.ok(all.every(({ status }) => status === "rejected"));
  fails = false;
  assert.equal((await keys.find(secret, "req_1"))?.key_id, "key_1");
});

test("keys: a closed account's key is unknown, the end of an overlap ends the answer", async () => {
  const closed = setUp(() => ({ ...KNOWN, accountStatus: AccountStatus.CLOSED }));
  assert.equal(await closed.keys.find(closed.secret, "req_1"), null);
  const ending = setUp(() => ({ ...KNOWN, expiresAt: { seconds: 1_001n, nanos: 0 } }));
  await ending.keys.find(ending.secret, "req_1");
  ending.state.now += 1_000;
  await ending.keys.find(ending.secret, "req_1");
  assert.equal(ending.state.asked, 2);
});

test("keys: what cannot be a key is unknown without asking anybody", async () => {
  const { state, keys } = setUp(() => KNOWN);
  for (const text of ["", "sk_test_", "x".repeat(10_000), "sk_prod_abc"])
    assert.equal(await keys.find(text, "req_1"), null);
  assert.equal(state.asked, 0);
});

test("addresses: an IPv6 client is its /64, an IPv4 client itself", () => {
  assert.equal(networkOf("198.51.100.7"), "198.51.100.7");
  assert.equal(networkOf("2001:db8:1:2:3:4:5:6"), networkOf("2001:db8:1:2::9"));
  assert.notEqual(networkOf("2001:db8:1:2::1"), networkOf("2001:db8:1:3::1"));
  assert.equal(networkOf("::1"), networkOf("::2"));
});

test("tokens: only the same one is the same", () => {
  assert.ok(sameToken("abc", "abc"));
  for (const wrong of ["", "ab", "abd", "abcd"]) assert.ok(!sameToken(wrong, "abc"));
});
