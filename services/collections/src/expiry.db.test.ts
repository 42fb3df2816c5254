// What pending payments wait for, on a real database: their expiry, and before it those whose call may be lost.

import assert from "node:assert/strict";
import { after, before, beforeEach, test } from "node:test";
import { isRefusal } from "@cauri/money/refusal";
import { AttemptOutcome } from "@cauri/proto/ts/cauri/rails/v1/rails";
import { setOffset } from "@cauri/store/clock";
import { transact } from "@cauri/store/pool";
import { reread } from "./apply.ts";
import { createPayment } from "./create.ts";
import { openExpiry } from "./expiry.ts";
import { callerOf, openTestRoom, requestOf, stateOf, type TestRoom } from "./testing.ts";

const HOUR_MS = 3_600_000;

let room: TestRoom;
before(async () => {
  room = await openTestRoom();
});
beforeEach(() => {
  room.rails.script = () => ({ outcome: AttemptOutcome.PENDING });
  room.rails.onAsk = null;
});
after(() => room.close());

test("expiry: asked once more; unpaid is expired, paid is a success", async () => {
  const account = "acct_expiry";
  const [unpaid, paid, unknown] = [
    await room.create({}, { account }),
    await room.create({}, { account }),
    await room.create({}, { account }),
  ];
  room.rails.say(paid, "success");
  room.rails.attempts.delete(unknown.id);
  assert.equal(await openExpiry(room.rooms).drain(account), 0);
  await advance(account, HOUR_MS + 1);
  assert.equal(await openExpiry(room.rooms).drain(account), 3);
  assert.equal(await openExpiry(room.rooms).drain(account), 0);
  for (const { id } of [unpaid, unknown]) {
    const { status, failure_code, books, events } = await stateOf(room, id);
    assert.deepEqual([status, failure_code, books.pending, books.available], ["failed", "expired", 0n, 0n]);
    assert.equal(events.at(-1), "payment.failed");
  }
  assert.equal((await reread(room.db.pool, paid.id)).status, "success");
  const { completed_at, expires_at } = await reread(room.db.pool, unpaid.id);
  assert.ok(completed_at !== null && completed_at >= expires_at, "stamped by the account's own clock");
});

test("expiry: a silent rail keeps it pending for an hour, then it is expired and late money counts", async () => {
  const account = "acct_silent";
  const { id } = await room.create({}, { account });
  room.rails.onAsk = () => ({ outcome: AttemptOutcome.UNKNOWN });
  await advance(account, HOUR_MS + 1);
  assert.equal(await openExpiry(room.rooms).drain(account), 1);
  assert.equal((await reread(room.db.pool, id)).status, "pending");
  await advance(account, 2 * HOUR_MS + 1);
  assert.equal(await openExpiry(room.rooms).drain(account), 1);
  assert.equal((await stateOf(room, id)).failure_code, "expired");
  await room.tellNews(room.rails.say({ id }, "success"));
  const { status, books } = await stateOf(room, id);
  assert.deepEqual([status, books.available], ["success", 9_850n]);
});

test("follow-up: a call that may not have arrived is sent again within seconds, then the payment rests until its expiry", async () => {
  const account = "acct_lost_call";
  room.rails.script = () => ({ outcome: AttemptOutcome.UNKNOWN, paymentUrl: undefined });
  const { id, status } = await room.create({}, { account });
  assert.equal(status, "pending");
  const text = "select extract(epoch from check_at - created_at)::float8 as wait_s from payments where id = $1";
  const { rows } = await room.db.pool.query<{ wait_s: number }>(text, [id]);
  assert.ok((rows[0]?.wait_s ?? 0) >= 1, "not at once");
  const collected = room.rails.collected;
  await advance(account, 1_001);
  assert.equal(await openExpiry(room.rooms).drain(account), 1);
  assert.equal(await openExpiry(room.rooms).drain(account), 0, "still unknown: looked at again after a pause");
  // The rail is found to have nothing, so that the next call is the first that arrives.
  room.rails.attempts.delete(id);
  room.rails.script = () => ({ outcome: AttemptOutcome.PENDING, paymentUrl: "https://pay.example/lost" });
  await advance(account, 8_100);
  assert.equal(await openExpiry(room.rooms).drain(account), 1);
  assert.equal(room.rails.collected, collected + 2);
  assert.deepEqual(
    [(await stateOf(room, id)).status, (await stateOf(room, id)).payment_url],
    ["pending", "https://pay.example/lost"],
  );
  await advance(account, HOUR_MS - 60_000);
  assert.equal(await openExpiry(room.rooms).drain(account), 0, "what the rail has is not looked at before its expiry");
  await room.tellNews(room.rails.say({ id }, "success"));
  const { books, events } = await stateOf(room, id);
  assert.deepEqual([books.available, books.pending, events.at(-1)], [9_850n, 0n, "payment.success"]);
});

test("follow-up: ten minutes after its creation a payment is only asked for, and expires unpaid", async () => {
  const account = "acct_never_sent";
  room.rails.script = () => ({ outcome: AttemptOutcome.UNKNOWN });
  const { id } = await room.create({}, { account });
  room.rails.attempts.delete(id);
  const collected = room.rails.collected;
  await advance(account, 600_001);
  assert.equal(await openExpiry(room.rooms).drain(account), 1);
  assert.deepEqual([(await stateOf(room, id)).status, room.rails.collected], ["pending", collected]);
  await advance(account, HOUR_MS + 1);
  assert.equal(await openExpiry(room.rooms).drain(account), 1);
  assert.deepEqual([(await stateOf(room, id)).failure_code, room.rails.collected], ["expired", collected]);
});

test("expiry: an interrupted payment past its time is asked for, never sent", async () => {
  const account = "acct_past";
  room.rails.script = () => ({ outcome: AttemptOutcome.REFUSED });
  const caller = callerOf({ account, idempotency_key: "past" });
  const refused = await createPayment(room.rooms, requestOf(), caller);
  assert.ok(isRefusal(refused) && refused.refused === "upstream_error");
  await advance(account, HOUR_MS + 1);
  const collected = room.rails.collected;
  const payment = await room.create({}, caller);
  assert.deepEqual([payment.status, payment.failure_code, room.rails.collected], ["failed", "expired", collected]);
});

/** The account's test clock stands `offset_ms` ahead, as the event of accounts would have it. */
async function advance(account: string, offset_ms: number): Promise<void> {
  await transact(room.db.pool, (tx) => setOffset(tx, account, BigInt(offset_ms)));
}
