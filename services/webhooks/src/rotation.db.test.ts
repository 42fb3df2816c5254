// Rotation on a real PostgreSQL: once per word, never three secrets, and sealed anew when the key of the vault changes.

import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { newId } from "@cauri/money/ids";
import { isRefusal, type Refusal } from "@cauri/money/refusal";
import { openCipher } from "@cauri/store/cipher";
import { type Pool, transact } from "@cauri/store/pool";
import { type TestDatabase, testDatabase } from "@cauri/store/testing";
import { type Endpoint, erasePreviousSecrets, findById, insertEndpoint, lockAccount } from "./endpoint-store.ts";
import { resealSecrets, rotate } from "./rotation.ts";
import { newSecret, sealSecret, secretOf, secretsOf } from "./secret.ts";

const key = (id: string) => `${id}:${randomBytes(32).toString("base64")}`;
const [k1, k2] = [key("k1"), key("k2")];
const cipher = openCipher(k1);
let database: TestDatabase;
let pool: Pool;
let serial = 0;

before(async () => {
  database = await testDatabase("webhooks", [join(import.meta.dirname, "..", "migrations")]);
  pool = database.pool;
});
after(() => database.close());

async function endpoint(account: string): Promise<Endpoint> {
  serial += 1;
  const operation_id = newId("whk", serial);
  const made = await transact(pool, async (tx) => {
    await lockAccount(tx, account);
    const secret_sealed = sealSecret(cipher, { operation_id }, newSecret());
    const url = `https://shop.example.com/${serial}`;
    const rest = { description: null, subscribed_events: [], standard_headers: false };
    return insertEndpoint(tx, { operation_id, account, url, secret_sealed, ...rest });
  });
  assert.ok(made !== null);
  return made;
}

const ask = (of: Endpoint, rotationId: string, overlapS?: bigint) =>
  rotate({ pool, cipher }, { accountId: of.account, endpointId: of.id, rotationId, overlapS });

async function rotated(...args: Parameters<typeof ask>) {
  const answer = await ask(...args);
  if (isRefusal(answer)) assert.fail(answer.message);
  return answer;
}

async function refused(answer: Promise<object | Refusal>): Promise<string> {
  const given = await answer;
  assert.ok(isRefusal(given));
  return given.refused;
}

async function read(of: Endpoint): Promise<Endpoint> {
  const found = await findById(pool, of.account, of.id);
  assert.ok(found !== null);
  return found;
}

test("rotate: the new secret comes first and the old one stays for the overlap, a day unless said otherwise", async () => {
  const made = await endpoint("acct_rotate");
  const old = secretOf(cipher, made);
  const [current, previous] = secretsOf(cipher, await rotated(made, "first"));
  assert.notEqual(current, old);
  assert.equal(previous, old);
  const { previous_until } = await read(made);
  const left_s = ((previous_until?.getTime() ?? 0) - Date.now()) / 1000;
  assert.ok(left_s > 86_300 && left_s <= 86_400, `${left_s} s`);
});

test("rotate: the same word again is the same rotation, another word during the overlap is refused", async () => {
  const made = await endpoint("acct_repeat");
  const first = secretsOf(cipher, await rotated(made, "one"));
  assert.deepEqual(secretsOf(cipher, await rotated(made, "one")), first);
  assert.equal(await refused(ask(made, "two")), "precondition_failed");
  assert.deepEqual(secretsOf(cipher, await read(made)), first);
});

test("rotate: of sixteen at once one wins; sixteen repeats of one are one", async () => {
  const made = await endpoint("acct_race");
  const answers = await Promise.all(Array.from({ length: 16 }, (_, at) => ask(made, `race-${at}`)));
  assert.equal(answers.filter((answer) => !isRefusal(answer)).length, 1);
  const [, previous] = secretsOf(cipher, await read(made));
  assert.equal(previous, secretOf(cipher, made));
  const other = await endpoint("acct_race");
  const same = await Promise.all(Array.from({ length: 16 }, () => rotated(other, "same")));
  assert.equal(new Set(same.map((answer) => secretsOf(cipher, answer).join())).size, 1);
});

test("rotate: without an overlap both old secrets end at once, also while a rotation is under way", async () => {
  const made = await endpoint("acct_leaked");
  await rotated(made, "planned");
  const ended = await rotated(made, "leaked", 0n);
  assert.deepEqual([secretsOf(cipher, ended).length, ended.previous_until], [1, null]);
});

test("rotate: after the overlap the old secret neither signs nor stays, and the next rotation may come", async () => {
  const made = await endpoint("acct_over");
  await rotated(made, "first", 100n);
  await pool.query("update endpoints set previous_until = now() where id = $1", [made.id]);
  assert.equal(secretsOf(cipher, await read(made)).length, 1);
  assert.equal(await erasePreviousSecrets(pool), 1);
  const { rows } = await pool.query("select previous_sealed from endpoints where id = $1", [made.id]);
  assert.deepEqual(rows, [{ previous_sealed: null }]);
  await rotated(made, "second", 100n);
});

test("rotate: what cannot be", async () => {
  const made = await endpoint("acct_wrong");
  for (const overlap_s of [-1n, 604_801n]) assert.equal(await refused(ask(made, "word", overlap_s)), "invalid_request");
  for (const word of ["", "two words", "x".repeat(65)]) assert.equal(await refused(ask(made, word)), "invalid_request");
  assert.equal(await refused(ask({ ...made, account: "acct_thief" }, "word")), "not_found");
});

test("reseal: with two keys every secret opens, with the new one alone after it has sealed them all again", async () => {
  const plain = await endpoint("acct_seal");
  const turning = await endpoint("acct_seal");
  await rotated(turning, "word");
  const before_ = [secretsOf(cipher, await read(plain)), secretsOf(cipher, await read(turning))];
  const both = openCipher(`${k2},${k1}`);
  assert.deepEqual(secretsOf(both, await read(turning)), before_[1]);
  // Two replicas at once: neither waits for the other, and together they leave none.
  await Promise.all([resealSecrets({ pool, cipher: both }), resealSecrets({ pool, cipher: both })]);
  assert.equal(await resealSecrets({ pool, cipher: both }), 0);
  const alone = openCipher(k2);
  assert.deepEqual([secretsOf(alone, await read(plain)), secretsOf(alone, await read(turning))], before_);
  const sealed = await read(turning);
  assert.throws(() => secretsOf(cipher, sealed), /"k2"/);
});
