// Internal transfers and rebalances over HTTP: done at once, seen by both sides, refused in one sentence.

import assert from "node:assert/strict";
import { test } from "node:test";
import { balance, fund, type Merchant, merchant, operate } from "./house.ts";

const AMOUNT = 2_500;

async function mover(name: string, funded = 10_000): Promise<Merchant> {
  const made = await merchant(name);
  const options = [{ name: "internal_transfers", on: true }];
  await operate("cauri.accounts.v1.AccountService/SetAccount", { account_id: made.account_id, options });
  if (funded > 0) await fund(made.account_id, funded);
  return made;
}

const available = async (at: Merchant, platform = "plt_mtn_ci") => (await balance(at.test, platform)).available_minor;

function transferBody(to: string, more: Record<string, unknown> = {}) {
  const place = { asset_id: "ast_xof", platform_id: "plt_mtn_ci" };
  return { amount_minor: AMOUNT, ...place, destination_account_id: to, ...more };
}

function rebalanceBody(more: Record<string, unknown> = {}) {
  const ends = { from_platform_id: "plt_mtn_ci", to_platform_id: "plt_orange_ci" };
  return { amount_minor: AMOUNT, asset_id: "ast_xof", ...ends, ...more };
}

test("transfer: done when the 201 leaves; each side sees its own", async () => {
  const [from, to] = [await mover("From"), await mover("To", 0)];
  const body = transferBody(to.account_id, { client_ref: "share-1", description: "Share", metadata: { month: "11" } });
  const answer = await from.test.post("/v1/transfers", body);
  assert.equal(answer.status, 201, answer.text);
  const sent = answer.body;
  assert.match(sent.reference, /^TRF-TEST/);
  assert.deepEqual(
    [sent.object, sent.status, sent.fee_minor, sent.net_minor, sent.rail, sent.failure, sent.direction],
    ["transfer", "success", 0, AMOUNT, null, null, "out"],
  );
  assert.equal(sent.completed_at, sent.created_at);
  assert.deepEqual([await available(from), await available(to)], [10_000 - AMOUNT, AMOUNT]);
  for (const name of [sent.id, sent.reference]) {
    const received = (await to.test.get(`/v1/transfers/${name}`)).body;
    assert.deepEqual(
      [received.id, received.direction, received.client_ref, received.metadata, received.description],
      [sent.id, "in", null, null, "Share"],
    );
    assert.deepEqual([received.source_account_id, received.destination_account_id], [from.account_id, to.account_id]);
  }
  assert.equal((await to.test.get("/v1/transfers/share-1")).status, 404);
  assert.deepEqual((await from.test.get("/v1/transfers/share-1")).body, sent);
  for (const at of [from, to]) {
    const { total, data } = (await at.test.get("/v1/transfers?status=success")).body;
    assert.deepEqual([total, data[0].id], [1, sent.id]);
  }
  const again = await from.test.post("/v1/transfers", body);
  assert.deepEqual([again.status, again.body.error.code], [409, "already_exists"]);
});

test("transfer: whatever is wrong with the receiver is one sentence", async () => {
  const from = await mover("From");
  const pending = await operate("cauri.accounts.v1.AccountService/CreateAccount", {
    name: "Pending",
    country: "CI",
    email: "p@example.com",
  });
  for (const to of [from.account_id, pending.accountId, "acct_01KAE8QK8Q5V6ZJ9T2N4B7C1XW", "nonsense"]) {
    const { status, body } = await from.test.post("/v1/transfers", transferBody(to));
    assert.deepEqual(
      [status, body.error],
      [422, { code: "invalid_request", message: "destination_account_id: cannot receive this" }],
    );
  }
});

test("transfer and rebalance: option, scope, funds, places; a replay", async () => {
  const [from, to] = [await mover("From"), await mover("To", 0)];
  const plain = await merchant("Plain");
  for (const [path, body] of [
    ["/v1/transfers", transferBody(to.account_id)],
    ["/v1/rebalances", rebalanceBody()],
  ] as const) {
    assert.equal((await plain.test.post(path, body)).body.error.code, "insufficient_scope");
    const reader = await from.key("test", ["can_read_transactions"]);
    assert.equal((await reader.post(path, body)).body.error.code, "insufficient_scope");
    assert.equal((await (await from.key("live")).post(path, body)).body.error.code, "not_live");
    const poor = await from.test.post(path, { ...body, amount_minor: 10_001 }, { "idempotency-key": path });
    assert.deepEqual([poor.status, poor.body.error.code], [422, "insufficient_funds"]);
    assert.equal((await from.test.get(path)).body.total, 0);
    const first = await from.test.post(path, body, { "idempotency-key": path });
    const again = await from.test.post(path, body, { "idempotency-key": path });
    assert.deepEqual([first.status, again.status, again.body], [201, 201, first.body]);
    assert.equal(again.headers.get("idempotent-replayed"), "true");
    assert.equal((await from.test.get(path)).body.total, 1);
  }
  assert.deepEqual([await available(from), await available(from, "plt_orange_ci")], [5_000, AMOUNT]);
  for (const [more, field] of [
    [{ to_platform_id: "plt_mtn_ci" }, "to_platform_id"],
    [{ to_platform_id: "plt_mtn_gh" }, "to_platform_id"],
    [{ from_platform_id: "plt_none" }, "from_platform_id"],
    [{ asset_id: "ast_zzz" }, "asset_id"],
  ] as const) {
    const { status, body } = await from.test.post("/v1/rebalances", rebalanceBody(more));
    assert.deepEqual([status, body.error.message.split(":")[0]], [422, field]);
  }
});

test("rebalance: leaves one platform, reaches the other, and is found by every name", async () => {
  const at = await mover("Rebalancing");
  const { status, body } = await at.test.post("/v1/rebalances", rebalanceBody({ client_ref: "rb-1" }));
  assert.equal(status, 201);
  assert.deepEqual(
    [body.object, body.platform_id, body.from_platform_id, body.to_platform_id, body.description],
    ["rebalance", "plt_mtn_ci", "plt_mtn_ci", "plt_orange_ci", null],
  );
  for (const name of [body.id, body.reference, "rb-1"]) {
    assert.deepEqual((await at.test.get(`/v1/rebalances/${name}`)).body, body);
  }
});
