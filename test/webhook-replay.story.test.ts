// What was sent, attempt by attempt, and sending it again, as an operator types it.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { advanceClock, cauri, eventually, type Merchant, merchant, noteSecret, operate, paymentBody } from "./house.ts";
import { type Receiver, startReceiver } from "./receiver.ts";

let receiver: Receiver;
before(async () => {
  receiver = await startReceiver();
});
after(() => receiver.close());

async function endpointOf(at: Merchant): Promise<number> {
  const answer = await at.test.post("/v1/webhooks", { url: receiver.url, subscribed_events: ["payment.success"] });
  assert.equal(answer.status, 201, answer.text);
  noteSecret(answer.body.secret);
  return answer.body.id;
}

async function run(...args: string[]) {
  const { code, stdout, stderr } = await cauri(["webhook", ...args, "--json"]);
  return { code, json: JSON.parse(stdout), stderr };
}

async function json(...args: string[]) {
  const { code, json: answer, stderr } = await run(...args);
  assert.equal(code, 0, `${args.join(" ")}: ${stderr}`);
  return answer;
}

async function pay(at: Merchant, client_ref?: string) {
  const { status, body, text } = await at.test.post(
    "/v1/payments",
    paymentBody("01", client_ref ? { client_ref } : {}),
  );
  assert.equal(status, 201, text);
  return body;
}

type Row = { deliveryId: string; operationId: string; status: string };

/** The one delivery of an operation, once it has reached a status; asked for at the door itself, which is quicker. */
async function deliveryOf(at: Merchant, operation_id: string, status: string) {
  const rpc = "cauri.webhooks.v1.DeliveryService/ListDeliveries";
  const find = async () => {
    const { data = [] } = await operate(rpc, { account_id: at.account_id });
    return (data as Row[]).find((row) => row.operationId === operation_id);
  };
  const found = await eventually(`a ${status} delivery of ${operation_id}`, find, (row) => row?.status === status);
  const { data } = await json("deliveries", at.account_id);
  return data.find(({ delivery_id }: { delivery_id: string }) => delivery_id === found?.deliveryId);
}

/** Lets these payments' notices fail through all five attempts. */
async function giveUp(at: Merchant, ids: readonly string[]) {
  for (const id of ids) await receiver.hears(id, ["payment.success"]);
  for (const step of ["61s", "301s", "1801s", "7201s"]) await advanceClock(at.account_id, step);
  return Promise.all(ids.map((id) => deliveryOf(at, id, "failed")));
}

test("deliveries and attempts: the contract's fields, every attempt with its answer, for people as a table", async () => {
  const at = await merchant("Seen");
  const endpoint = await endpointOf(at);
  const payment = await pay(at);
  await receiver.hears(payment.id, ["payment.success"]);
  const delivery = await deliveryOf(at, payment.id, "delivered");
  assert.match(delivery.delivery_id, /^dl_[0-9A-Z]{26}$/);
  assert.deepEqual(
    [delivery.event, delivery.endpoint_id, delivery.status, delivery.next_attempt_at],
    ["payment.success", endpoint, "delivered", null],
  );
  const [attempt] = delivery.attempts;
  assert.deepEqual(Object.keys(attempt).sort(), ["at", "duration_ms", "error", "status_code"]);
  assert.deepEqual([attempt.status_code, attempt.error], [200, null]);
  const { data } = await json("attempts", at.account_id, delivery.delivery_id);
  assert.deepEqual(data, [{ ...attempt, answer: "" }]);
  const shown = await cauri(["webhook", "deliveries", at.account_id, "--endpoint", String(endpoint)]);
  assert.match(shown.stdout, new RegExp(`${delivery.delivery_id} +${endpoint} +payment\\.success`));
  assert.equal((await run("attempts", at.account_id, "dl_nonsense")).json.error.code, "not_found");
});

test("deliveries: page after page, none twice; by status and time", async () => {
  const at = await merchant("Pages");
  await endpointOf(at);
  const made = await Promise.all(Array.from({ length: 3 }, () => pay(at)));
  await Promise.all(made.map(({ id }) => receiver.hears(id, ["payment.success"])));
  const seen: string[] = [];
  let cursor: string[] = [];
  for (;;) {
    const page = await json("deliveries", at.account_id, "--limit", "2", ...cursor);
    seen.push(...page.data.map((row: { operation_id: string }) => row.operation_id));
    assert.equal(page.has_more, page.next_cursor !== null);
    if (page.next_cursor === null) break;
    cursor = ["--cursor", page.next_cursor];
  }
  assert.deepEqual(seen.toSorted(), made.map(({ id }) => id).toSorted());
  const none = await json("deliveries", at.account_id, "--status", "failed", "--to", "2099-01-01");
  assert.deepEqual(none, { data: [], has_more: false, next_cursor: null });
  assert.equal((await cauri(["webhook", "deliveries", at.account_id, "--status", "lost"])).code, 2);
  const backwards = ["--from", "2026-11-21", "--to", "2026-11-20"];
  assert.equal((await cauri(["webhook", "deliveries", at.account_id, ...backwards])).code, 2);
});

test("deliveries and replay: another account finds nothing, a mistyped one is told", async () => {
  const at = await merchant("Seen");
  const other = await merchant("Other");
  const endpoint = await endpointOf(at);
  const payment = await pay(at);
  await receiver.hears(payment.id, ["payment.success"]);
  const { delivery_id } = await deliveryOf(at, payment.id, "delivered");
  assert.deepEqual((await json("deliveries", other.account_id)).data, []);
  for (const foreign of [
    ["attempts", other.account_id, delivery_id],
    ["replay", other.account_id, delivery_id],
    ["deliveries", other.account_id, "--endpoint", String(endpoint)],
    ["replay", other.account_id, "--endpoint", String(endpoint)],
    ["deliveries", "acct_01KAE8QK8Q5V6ZJ9T2N4B7C1XW"],
    ["replay", "acct_01KAE8QK8Q5V6ZJ9T2N4B7C1XW", "--from", "2026-11-20"],
  ]) {
    const { code, json: answer } = await run(...foreign);
    assert.deepEqual([code, answer.error.code], [1, "not_found"], foreign.join(" "));
  }
  const none = await json("replay", other.account_id, "--from", "2026-11-20");
  assert.equal(none.replayed, 0);
  assert.equal(receiver.about(payment.id).length, 1);
});

test("replay: one that failed is a new round under the same event id, once by one run however often it is asked", async () => {
  const at = await merchant("Replay");
  await endpointOf(at);
  receiver.answer((notice) => (notice.data.merchant_reference === "again" ? 500 : 200));
  const payment = await pay(at, "again");
  const [failed] = await giveUp(at, [payment.id]);
  assert.equal(failed.attempts.length, 5);
  receiver.answer(200);
  const replay = ["replay", at.account_id, failed.delivery_id, "--run", "one-click"];
  const answers = await Promise.all([json(...replay), json(...replay)]);
  for (const answer of answers) assert.equal(answer.delivery_id, failed.delivery_id);
  const delivered = await deliveryOf(at, payment.id, "delivered");
  assert.equal((await json(...replay)).status, "delivered");
  assert.equal(delivered.attempts.length, 6);
  assert.equal(receiver.about(payment.id).length, 6, "five, and one more for two clicks");
  const ids = new Set(receiver.about(payment.id).map(({ headers }) => headers["x-service-delivery"]));
  assert.deepEqual([...ids], [failed.event_id]);
  // A further run sends what was delivered too: the operator named this very delivery.
  await json("replay", at.account_id, failed.delivery_id);
  await eventually(
    "the seventh attempt",
    async () => receiver.about(payment.id).length,
    (count) => count === 7,
  );
});

test("replay: everything that failed at an endpoint, or what happened in a time span; wrong usage is told", async () => {
  const at = await merchant("Replay");
  const endpoint = await endpointOf(at);
  receiver.answer((notice) => (String(notice.data.merchant_reference).startsWith("lost") ? 503 : 200));
  const good = await pay(at);
  const lost = [await pay(at, "lost-1"), await pay(at, "lost-2")];
  await giveUp(
    at,
    lost.map(({ id }) => id),
  );
  receiver.answer(200);
  const all = await json("replay", at.account_id, "--endpoint", String(endpoint));
  assert.equal(all.replayed, 2);
  for (const { id } of lost) await deliveryOf(at, id, "delivered");
  assert.equal((await json("replay", at.account_id, "--endpoint", String(endpoint))).replayed, 0);
  assert.equal(receiver.about(good.id).length, 1);
  const span = ["--from", good.created_at, "--to", "2099-01-01"];
  assert.equal((await json("replay", at.account_id, ...span)).replayed, 0, "nothing has failed since");
  assert.equal((await json("replay", at.account_id, ...span, "--include-delivered")).replayed, 3);
  assert.equal((await cauri(["webhook", "replay", at.account_id])).code, 2);
  assert.equal((await cauri(["webhook", "replay", at.account_id, "dl_x", "--endpoint", "1"])).code, 2);
  assert.equal((await run("replay", at.account_id, "--endpoint", "999999999")).json.error.code, "not_found");
});

test("replay: to an inactive endpoint it waits and says so; of a deleted one nothing is left", async () => {
  const at = await merchant("Replay");
  const endpoint = await endpointOf(at);
  const payment = await pay(at);
  await receiver.hears(payment.id, ["payment.success"]);
  const { delivery_id } = await deliveryOf(at, payment.id, "delivered");
  await at.test.patch(`/v1/webhooks/${endpoint}`, { is_active: false });
  const waiting = await json("replay", at.account_id, delivery_id);
  assert.deepEqual([waiting.status, waiting.held_by, waiting.next_attempt_at], ["pending", "inactive", null]);
  const told = await cauri(["webhook", "replay", at.account_id, delivery_id]);
  assert.match(told.stdout, /once its endpoint is active again/);
  assert.equal(receiver.about(payment.id).length, 1);
  await at.test.patch(`/v1/webhooks/${endpoint}`, { is_active: true });
  await eventually(
    "the replay",
    async () => receiver.about(payment.id).length,
    (count) => count === 2,
  );
  await at.test.del(`/v1/webhooks/${endpoint}`);
  assert.equal((await run("replay", at.account_id, delivery_id)).json.error.code, "not_found");
  assert.deepEqual((await json("deliveries", at.account_id)).data, []);
});
