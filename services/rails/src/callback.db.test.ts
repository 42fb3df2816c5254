// Callbacks: forged ones, early ones, repeated and contradictory ones, and hints of operators that sign nothing.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { systemClock } from "@cauri/money/clock";
import { pollDue } from "./ask.ts";
import { matchWaiting, receiveCallback } from "./callback.ts";
import type { Connector } from "./connector.ts";
import { SIGNATURE_HEADER, signCallback } from "./simulator/signature.ts";
import { collectFrom, newsOf, openRails, orderOf, type Process, phoneOf, SECRET, type TestRails } from "./testing.ts";

let rails: TestRails;
let room: Process;

before(async () => {
  rails = await openRails();
  room = rails.open();
});
after(() => rails.close());

let count = 0;

function bodyFor(reference: string, changes: object = {}): Buffer {
  count += 1;
  const message = { event_id: `evt_${count}`, reference, status: "success", amount_minor: 1500, currency: "XOF" };
  return Buffer.from(JSON.stringify({ ...message, failure_code: null, ...changes }));
}

const sign = (body: Buffer, secret = SECRET, now_ms = systemClock()) => ({
  [SIGNATURE_HEADER]: signCallback(secret, body, now_ms),
});

const receive = (headers: Record<string, string>, body: Buffer, connector = "simulator") =>
  receiveCallback(room.house, connector, headers, body);

async function pending() {
  const order = orderOf();
  await collectFrom(room.house, order, phoneOf("04"));
  return order;
}

async function storedFor(reference: string): Promise<number> {
  const { rows } = await rails.pool.query<{ n: number }>(
    "select count(callback_id)::integer as n from callbacks where reference = $1",
    [reference],
  );
  return rows[0]?.n ?? 0;
}

test("callback: a forged, stale, altered or unsigned one is not believed and leaves no trace", async () => {
  const order = await pending();
  const body = bodyFor(order.reference);
  const altered = bodyFor(order.reference, { amount_minor: 1 });
  const forgeries: [Record<string, string>, Buffer][] = [
    [{}, body],
    [sign(body, "another secret"), body],
    [sign(body), altered],
    [sign(body, SECRET, systemClock() - 301_000), body],
    [sign(body, SECRET, systemClock() + 301_000), body],
    [{ [SIGNATURE_HEADER]: "t=1,v1=zz" }, body],
  ];
  for (const [headers, bytes] of forgeries) {
    assert.deepEqual(await receive(headers, bytes), { connector_known: true, authentic: false });
  }
  const garbage = Buffer.from("not JSON");
  assert.equal((await receive(sign(garbage), garbage)).authentic, false);
  assert.deepEqual(await receive(sign(body), body, "nobody"), { connector_known: false, authentic: false });
  assert.equal(await storedFor(order.reference), 0);
  assert.deepEqual(await newsOf(rails.pool, order.operation_id), []);
});

test("callback: the same message twice counts once; contradictory news is history", async () => {
  const order = await pending();
  const body = bodyFor(order.reference);
  for (let copy = 0; copy < 2; copy += 1) assert.equal((await receive(sign(body), body)).authentic, true);
  const no = bodyFor(order.reference, { status: "failed", failure_code: "payer_rejected" });
  assert.equal((await receive(sign(no), no)).authentic, true);
  const events = (await newsOf(rails.pool, order.operation_id)).map(({ event }) => event);
  assert.deepEqual(events, ["collection.success"]);
  const { rows } = await rails.pool.query(
    "select outcome, to_state from attempt_history where operation_id = $1 order by n",
    [order.operation_id],
  );
  assert.deepEqual(rows, [
    { outcome: "pending", to_state: "pending" },
    { outcome: "success", to_state: "success" },
    { outcome: "failed", to_state: null },
  ]);
});

test("callback: 32 copies at once move the attempt once", async () => {
  const order = await pending();
  const body = bodyFor(order.reference);
  await Promise.all(Array.from({ length: 32 }, () => receive(sign(body), body)));
  assert.equal((await newsOf(rails.pool, order.operation_id)).length, 1);
});

test("callback: one that nobody knows is kept and finds its attempt within 24 h, not later", async () => {
  for (const [hours, found] of [
    [23, 1],
    [25, 0],
  ] as const) {
    const order = orderOf();
    const body = bodyFor(order.reference);
    assert.equal((await receive(sign(body), body)).authentic, true);
    assert.equal(await matchWaiting(room.house), 0);
    await collectFrom(room.house, order, phoneOf("04"));
    await rails.pool.query("update callbacks set received_at = now() - $2 * interval '1 hour' where reference = $1", [
      order.reference,
      hours,
    ]);
    assert.equal(await matchWaiting(room.house), found);
    assert.equal((await newsOf(rails.pool, order.operation_id)).length, found);
  }
});

test("callback: an unsigned operator's message is a hint: the rail is asked at once, and its word counts", async () => {
  const operator: Connector = {
    name: "hinting",
    rails: ["hinted"],
    is_simulated: false,
    collect: async () => ({ outcome: "pending" }),
    ask: async () => ({ outcome: "failed", failure_code: "limit_exceeded" }),
    classify: () => ({ outcome: "unknown" }),
    readCallback: (_headers, body) => ({
      authentic: true,
      callback_id: "1",
      reference: body.toString("utf8"),
      news: null,
    }),
  };
  const wakes: string[] = [];
  const { house } = rails.open({ connectors: [operator] });
  const listening = { ...house, wakePoller: () => void wakes.push("poller") };
  const order = orderOf({ rails: ["hinted"] });
  await collectFrom(listening, order);
  await receiveCallback(listening, "hinting", {}, Buffer.from(order.reference));
  assert.deepEqual(wakes, ["poller"]);
  // Of this account alone: by now the next question for what earlier tests left may be due.
  assert.equal(await pollDue(listening, order.account), 1);
  const [news] = await newsOf(rails.pool, order.operation_id);
  assert.deepEqual([news?.event, news?.failureCode], ["collection.failed", "limit_exceeded"]);
});

test("callback: the rail had refused the call and reports the money all the same: it counts", async () => {
  const order = orderOf();
  const { nothing_out } = await collectFrom(room.house, order, phoneOf("05"));
  assert.equal(nothing_out, "refused");
  const body = bodyFor(order.reference);
  assert.equal((await receive(sign(body), body)).authentic, true);
  const [news] = await newsOf(rails.pool, order.operation_id);
  assert.deepEqual([news?.event, news?.rail, news?.railAmountMinor], ["collection.success", "mtn_momo", 1500n]);
});
