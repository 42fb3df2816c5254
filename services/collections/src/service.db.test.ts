// The RPCs as the gateway and the command line call them: over gRPC, refusals as values.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { isRefusal, type Refusal } from "@cauri/money/refusal";
import { PaymentServiceClient, PaymentStatus } from "@cauri/proto/ts/cauri/collections/v1/payments";
import { connectClient } from "@cauri/rpc/client";
import { startServer } from "@cauri/rpc/server";
import { paymentService } from "./service.ts";
import { callerOf, openTestRoom, requestOf, SILENT, type TestRoom } from "./testing.ts";

const settings = { CAURI_BIND_HOST: "127.0.0.1", CAURI_RPC_PORT: 0, CAURI_RPC_TOKEN: "house", CAURI_DRAIN_MS: 100 };

let room: TestRoom;
let close: () => Promise<void>;
let client: ReturnType<typeof connect>;

before(async () => {
  room = await openTestRoom();
  const services = [paymentService({ ...room.rooms, drain: async () => ({ done: 0n }) })];
  const server = await startServer({ room: "collections", settings, services, log: SILENT });
  client = connect(server.port);
  close = async () => {
    client.closeChannel();
    await server.drain();
    await room.close();
  };
});
after(() => close());

function connect(port: number) {
  return connectClient(PaymentServiceClient, { address: `127.0.0.1:${port}`, token: "house" });
}

function good<T>(answer: T | Refusal): T {
  return isRefusal(answer) ? assert.fail(`${answer.refused}: ${answer.message}`) : answer;
}

function refusalOf(answer: unknown): string {
  return isRefusal(answer) ? answer.refused : assert.fail("expected a refusal");
}

test("create, get and list: one view of one payment", async () => {
  const caller = callerOf();
  const created = good(await client.createPayment(requestOf({ clientRef: "order:7" }), { caller }));
  for (const id of [created.id, created.reference.toLowerCase(), "order:7"]) {
    assert.deepEqual(good(await client.getPayment({ id }, { caller })), created);
  }
  const listed = good(await client.listPayments({ createdFrom: undefined, createdTo: undefined }, { caller }));
  assert.deepEqual(
    [listed.data, listed.page, listed.perPage, listed.total, listed.hasMore],
    [[created], 1n, 25, 1n, false],
  );
});

test("get_payment: unknown, malformed and foreign ids are one 404", async () => {
  const created = good(await client.createPayment(requestOf(), { caller: callerOf() }));
  for (const id of ["", "pay_nothing", "PAY-TEST00000000", "nobody's", created.id.toLowerCase()]) {
    assert.equal(refusalOf(await client.getPayment({ id }, { caller: callerOf() })), "not_found", id);
  }
  const foreign = callerOf({ account: "acct_foreign" });
  assert.equal(refusalOf(await client.getPayment({ id: created.id }, { caller: foreign })), "not_found");
});

test("advance_payment: the answer waits for the news", async () => {
  const created = good(await client.createPayment(requestOf(), { caller: callerOf() }));
  room.rails.onAdvance = (id) => {
    setTimeout(() => void room.tellNews(room.rails.say({ id }, "success")), 100);
    return true;
  };
  const advanced = good(await client.advancePayment({ id: created.reference, to: "success" }));
  assert.equal(advanced.status, PaymentStatus.SUCCESS);
});

test("advance_payment: an arrow that does not stand is refused with the state named", async () => {
  const created = good(await client.createPayment(requestOf(), { caller: callerOf() }));
  room.rails.onAdvance = () => false;
  for (const to of ["success", "refunded", "dispute"]) {
    assert.equal(refusalOf(await client.advancePayment({ id: created.id, to })), "precondition_failed");
  }
  assert.equal(refusalOf(await client.advancePayment({ id: "PAY-TEST00000000", to: "success" })), "not_found");
});
