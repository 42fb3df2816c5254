// One key, one operation: replays, other payloads, races, and what a client_ref protects afterwards.

import assert from "node:assert/strict";
import { before, test } from "node:test";
import { balance, type Merchant, merchant, paymentBody, paymentIs } from "./house.ts";
import { creations, equipped } from "./one-of-each.ts";
import { startReceiver } from "./receiver.ts";

let at: Merchant;
before(async () => {
  at = await merchant("Idempotency");
});

const key = (value: string) => ({ "idempotency-key": value });

test("replay: the same payload gets the original in its current state", async () => {
  const body = paymentBody("00", { metadata: { b: "2", a: "1" } });
  const first = await at.test.post("/v1/payments", body, key("replay-1"));
  assert.deepEqual([first.status, first.headers.get("idempotent-replayed")], [201, null], first.text);
  await paymentIs(at.test, first.body.id, "success");
  const reordered = { metadata: { a: "1", b: "2" }, unknown: 1, ...body };
  for (const again of [key("replay-1"), key('"replay-1"')]) {
    const second = await at.test.post("/v1/payments", reordered, again);
    assert.deepEqual([second.status, second.headers.get("idempotent-replayed")], [201, "true"], second.text);
    assert.deepEqual([second.body.id, second.body.status], [first.body.id, "success"]);
  }
});

test("other payload: 409 concurrent_request, nothing created", async () => {
  const first = await at.test.post("/v1/payments", paymentBody("01"), key("other-1"));
  const second = await at.test.post("/v1/payments", paymentBody("01", { amount_minor: 10_001 }), key("other-1"));
  assert.deepEqual([second.status, second.body.error.code], [409, "concurrent_request"], second.text);
  assert.equal(second.headers.get("retry-after"), null);
  assert.equal(first.status, 201);
});

test("every creation that takes a key: sixteen at once make one, then replays, another payload is refused", async (t) => {
  const [shop, to, receiver] = await Promise.all([equipped("Every"), merchant("To"), startReceiver()]);
  t.after(() => receiver.close());
  const { paths } = (await shop.test.get("/v1/openapi.json")).body;
  const keyed = Object.keys(paths).filter((path) =>
    JSON.stringify(paths[path].post?.parameters ?? []).includes("IdempotencyKey"),
  );
  const made: { [path: string]: string } = {};
  const bodies = creations(to.account_id, receiver.url);
  for (const path of [...Object.keys(bodies), ...keyed].filter((one, at, all) => all.indexOf(one) === at)) {
    if (!keyed.includes(path)) continue;
    const body = bodies[path]?.(made);
    assert.ok(body !== undefined, `POST ${path}: give it a body in one-of-each.ts`);
    const answers = await Promise.all(Array.from({ length: 16 }, () => shop.test.post(path, body, key("every"))));
    const created = answers.filter(({ status }) => status === 201);
    const first = created.find(({ headers }) => headers.get("idempotent-replayed") === null);
    assert.ok(first !== undefined, `POST ${path}: ${answers[0]?.text}`);
    made[path] = first.body.id;
    const replay_status = path === "/v1/payout-requests" ? 200 : 201;
    for (const answer of answers.filter((one) => one !== first)) {
      if (answer.headers.get("idempotent-replayed") === "true") {
        assert.deepEqual([answer.status, answer.body.id], [replay_status, first.body.id], path);
      } else {
        const told = [answer.status, answer.body.error.code, answer.headers.get("retry-after")];
        assert.deepEqual(told, [409, "concurrent_request", "1"], `POST ${path}: ${answer.text}`);
      }
    }
    const again = await shop.test.post(path, { ...body, unknown: true }, key("every"));
    assert.deepEqual([again.status, again.headers.get("idempotent-replayed")], [replay_status, "true"], path);
    assert.deepEqual(lasting(again.body), lasting(first.body), `POST ${path}`);
    const other = await shop.test.post(path, { ...body, ...changed(body) }, key("every"));
    const told = [other.status, other.body.error?.code, other.headers.get("retry-after")];
    assert.deepEqual(told, [409, "concurrent_request", null], `POST ${path}: ${other.text}`);
    const list = (await shop.test.get(path)).body;
    assert.equal(list.total, 1, `POST ${path}`);
  }
});

/** The same creation with another payload: an endpoint moves no money. */
function changed(body: object): object {
  return "amount_minor" in body ? { amount_minor: 1_001 } : { description: "another" };
}

/** What of an operation stays: its state goes on meanwhile, which a replay shows. */
function lasting(body: object): object {
  const { status: _, updated_at: __, completed_at: ___, ...rest } = body as Record<string, unknown>;
  return rest;
}

test("refused: not remembered, the key may carry a corrected request", async () => {
  const bad = await at.test.post("/v1/payments", paymentBody("01", { amount_minor: 1 }), key("refused-1"));
  assert.equal(bad.status, 422);
  const good = await at.test.post("/v1/payments", paymentBody("01"), key("refused-1"));
  assert.deepEqual([good.status, good.headers.get("idempotent-replayed")], [201, null], good.text);
});

test("race: 64 clients with one key create one payment", async () => {
  const shop = await merchant("Race");
  const answers = await Promise.all(
    Array.from({ length: 64 }, () => shop.test.post("/v1/payments", paymentBody("01"), key("race"))),
  );
  const ids = new Set(answers.filter(({ status }) => status === 201).map(({ body }) => body.id));
  assert.equal(ids.size, 1);
  const others = answers.filter(({ status }) => status !== 201);
  for (const { status, body, headers } of others)
    assert.deepEqual([status, body.error.code, headers.get("retry-after")], [409, "concurrent_request", "1"]);
  assert.equal(
    answers.filter(({ headers, status }) => status === 201 && headers.get("idempotent-replayed") === null).length,
    1,
  );
  assert.equal((await shop.test.get("/v1/payments")).body.total, 1);
  assert.equal((await balance(shop.test)).available_minor, 9_850);
});

test("race: 32 clients with one client_ref and no key create one payment", async () => {
  const shop = await merchant("Race");
  const body = paymentBody("01", { client_ref: "one-order" });
  const answers = await Promise.all(Array.from({ length: 32 }, () => shop.test.post("/v1/payments", body)));
  assert.equal(answers.filter(({ status }) => status === 201).length, 1);
  for (const { status, body: refusal } of answers.filter((answer) => answer.status !== 201)) {
    assert.equal(status, 409);
    assert.ok(["already_exists", "concurrent_request"].includes(refusal.error.code), refusal.error.code);
  }
  const later = await shop.test.post("/v1/payments", body);
  assert.deepEqual([later.status, later.body.error.code], [409, "already_exists"]);
});

test("scope of a key: another account's and the other mode's same key are other keys", async () => {
  const [one, two] = await Promise.all([merchant("One"), merchant("Two")]);
  const live = await two.key("live");
  const ids = new Set<string>();
  for (const from of [one.test, two.test, live]) {
    const answer = await from.post("/v1/payments", paymentBody("01"), key("shared"));
    assert.equal(answer.status, 201, answer.text);
    ids.add(answer.body.id);
  }
  assert.equal(ids.size, 3);
});

test("syntax: a key that is empty, too long or not printable is refused", async () => {
  for (const value of ["x".repeat(256), "caf\u00e9", '""']) {
    const answer = await at.test.post("/v1/payments", paymentBody("01"), key(value));
    assert.deepEqual([answer.status, answer.body.error.code], [422, "invalid_request"], value);
  }
});
