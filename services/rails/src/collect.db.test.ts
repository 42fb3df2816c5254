// Sending exactly once: races over several processes, a crash between the row and the call, fallback and forced rails.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { systemClock } from "@cauri/money/clock";
import { transact } from "@cauri/store/pool";
import { askFor, pollDue } from "./ask.ts";
import type { RailAnswer } from "./attempt.ts";
import { openAttempt, readAttempt, startSending } from "./attempt-store.ts";
import { collect } from "./collect.ts";
import type { Charge, Connector } from "./connector.ts";
import { recordTold } from "./record.ts";
import { collectFrom, newsOf, openRails, orderOf, phoneOf, type TestRails, until } from "./testing.ts";

let rails: TestRails;

before(async () => {
  rails = await openRails();
});
after(() => rails.close());

/** An operator that answers as told and remembers what it was sent. */
function scripted(
  name: string,
  served: readonly string[],
  answers: { collect: () => Promise<RailAnswer>; ask?: RailAnswer },
) {
  const sent: Charge[] = [];
  const connector: Connector = {
    name,
    rails: served,
    is_simulated: false,
    collect: (charge) => {
      sent.push(charge);
      return answers.collect();
    },
    ask: async () => answers.ask ?? { outcome: "not_found" },
    classify: () => ({ outcome: "unknown" }),
    readCallback: () => ({ authentic: false }),
  };
  return { connector, sent };
}

const accepted: RailAnswer = { outcome: "pending" };

test("collect: 64 racing over 4 processes send once and all hear the same", async () => {
  const { connector, sent } = scripted("slow", ["race"], {
    collect: async () => {
      await sleep(150);
      return accepted;
    },
  });
  const processes = Array.from({ length: 4 }, () => rails.open({ connectors: [connector] }));
  const order = orderOf({ rails: ["race"] });
  const runs = Array.from({ length: 64 }, (_, at) => {
    const house = processes[at % 4]?.house;
    assert.ok(house);
    return collect(house, order, systemClock() + 60_000);
  });
  const results = await Promise.all(runs);
  assert.equal(sent.length, 1);
  assert.deepEqual(new Set(results.map(({ attempt }) => attempt.state)), new Set(["pending"]));
  assert.deepEqual(await newsOf(rails.pool, order.operation_id), [], "each caller has heard it");
});

test("collect: 64 racing on the simulator book one charge", async () => {
  const processes = Array.from({ length: 4 }, () => rails.open());
  const order = orderOf();
  await Promise.all(
    Array.from({ length: 64 }, (_, at) => collectFrom(processes[at % 4]?.house ?? assert.fail(), order, phoneOf("01"))),
  );
  const { rows } = await rails.pool.query("select state from simulator_charges where reference = $1", [
    order.reference,
  ]);
  assert.deepEqual(rows, [{ state: "success" }]);
  assert.equal((await newsOf(rails.pool, order.operation_id)).length, 1);
});

/** The row of a process that died right before or after its call: the lease has run out. */
async function leaveSending(order: ReturnType<typeof orderOf>, rail: string, connector: string) {
  await transact(rails.pool, async (tx) => {
    const attempt = await openAttempt(tx, order);
    await startSending(tx, attempt, rail, connector);
  });
  await rails.pool.query("update attempts set lease_until = now() - interval '1 second' where operation_id = $1", [
    order.operation_id,
  ]);
}

test("collect: after a crash before the call the rail is asked, has nothing, and gets the call from its own rail", async () => {
  const { connector, sent } = scripted("crashed", ["first", "second"], { collect: async () => accepted });
  const { house } = rails.open({ connectors: [connector] });
  const order = orderOf({ rails: ["second", "first"] });
  await leaveSending(order, "first", "crashed");
  const { attempt } = await collectFrom(house, order);
  assert.equal(attempt.state, "pending");
  assert.deepEqual(
    sent.map(({ rail }) => rail),
    ["first"],
    "another rail could have charged twice",
  );
});

test("collect: after a crash behind the call the rail is asked and nothing is sent", async () => {
  const paid: RailAnswer = { outcome: "success", amount_minor: 1500n, currency: "XOF" };
  const { connector, sent } = scripted("answered", ["first"], { collect: async () => accepted, ask: paid });
  const { house } = rails.open({ connectors: [connector] });
  const order = orderOf({ rails: ["first"] });
  await leaveSending(order, "first", "answered");
  const { attempt } = await collectFrom(house, order);
  assert.equal(attempt.state, "success");
  assert.equal(sent.length, 0);
});

test("collect: a take-over that can't ask stays unknown and sends nothing", async () => {
  const { connector, sent } = scripted("mute", ["first"], {
    collect: async () => accepted,
    ask: { outcome: "unavailable" },
  });
  const { house } = rails.open({ connectors: [connector] });
  const order = orderOf({ rails: ["first"] });
  await leaveSending(order, "first", "mute");
  const { attempt } = await collectFrom(house, order);
  assert.equal(attempt.state, "unknown");
  assert.equal(sent.length, 0);
});

test("poll: an attempt that its process left is asked for without a caller", async () => {
  const paid: RailAnswer = { outcome: "success", amount_minor: 1500n, currency: "XOF" };
  const { connector } = scripted("left", ["first"], { collect: async () => accepted, ask: paid });
  const { house } = rails.open({ connectors: [connector] });
  const order = orderOf({ rails: ["first"] });
  await leaveSending(order, "first", "left");
  assert.equal(await pollDue(house, order.account), 0, "its next question is not due");
  await rails.pool.query("update attempts set next_poll_at = now() where operation_id = $1", [order.operation_id]);
  assert.equal(await pollDue(house, order.account), 1);
  assert.equal((await newsOf(rails.pool, order.operation_id))[0]?.status, "success");
});

test("collect: a caller whose lease was taken over can't say that nothing happened", async () => {
  const order = orderOf({ rails: ["first"] });
  const first = await transact(rails.pool, async (tx) =>
    startSending(tx, await openAttempt(tx, order), "first", "answered"),
  );
  await rails.pool.query("update attempts set lease_no = lease_no + 1 where operation_id = $1", [order.operation_id]);
  const { operation_id } = order;
  const said = { operation_id, answer: { outcome: "refused" }, source: "call", lease_no: first } as const;
  const attempt = await recordTold(rails.pool, said);
  assert.equal(attempt.state, "sending");
});

test("collect: a rail that refuses or can't be reached gives way to the next one", async () => {
  for (const outcome of ["refused", "unavailable"] as const) {
    const broken = scripted("broken", ["first"], { collect: async () => ({ outcome }) });
    const working = scripted("working", ["second"], { collect: async () => accepted });
    const { house } = rails.open({ connectors: [broken.connector, working.connector] });
    const { attempt } = await collectFrom(house, orderOf({ rails: ["first", "second"] }));
    assert.equal(attempt.state, "pending");
    assert.equal(attempt.rail, "second");
    assert.deepEqual([broken.sent.length, working.sent.length], [1, 1]);
  }
});

test("collect: an unknown outcome and a forced rail never fall back", async () => {
  for (const [outcome, forced, expected] of [
    ["unknown", false, "unknown"],
    ["refused", true, "ready"],
  ] as const) {
    const broken = scripted("broken", ["first"], { collect: async () => ({ outcome }) });
    const working = scripted("working", ["second"], { collect: async () => accepted });
    const { house } = rails.open({ connectors: [broken.connector, working.connector] });
    const { attempt } = await collectFrom(house, orderOf({ rails: ["first", "second"], forced }));
    assert.equal(attempt.state, expected);
    assert.equal(working.sent.length, 0);
  }
});

test("collect: a call that takes too long is unknown, and its late answer changes nothing", async () => {
  const { promise: late, resolve: answer } = Promise.withResolvers<RailAnswer>();
  const { connector, sent } = scripted("hanging", ["first"], { collect: () => late });
  const { house } = rails.open({ connectors: [connector] });
  const order = orderOf({ rails: ["first"] });
  const { attempt, nothing_out } = await collect(house, order, systemClock() + 3_000);
  assert.equal(attempt.state, "unknown");
  assert.equal(nothing_out, null);
  assert.equal(sent.length, 1);
  answer({ outcome: "refused" });
  await sleep(100);
  const asked = await askFor(house, order.operation_id, order.account, "test");
  assert.equal(asked?.attempt.state, "unknown", "that the rail has nothing is not a failure");
});

test("collect: a rail that nobody serves is unavailable, and nothing is out", async () => {
  const { house } = rails.open();
  const { attempt, nothing_out } = await collectFrom(house, orderOf({ rails: ["nobody"] }));
  assert.equal(nothing_out, "unavailable");
  assert.equal(attempt.state, "ready");
});

test("collect: a success over another amount is told once and moves nothing", async () => {
  const odd: RailAnswer = { outcome: "success", amount_minor: 1400n, currency: "XOF" };
  const { connector } = scripted("odd", ["first"], { collect: async () => accepted, ask: odd });
  const { house } = rails.open({ connectors: [connector] });
  const order = orderOf({ rails: ["first"] });
  await collectFrom(house, order);
  for (let round = 0; round < 2; round += 1) {
    const asked = await askFor(house, order.operation_id, order.account, "test");
    assert.equal(asked?.attempt.state, "pending");
  }
  const news = await newsOf(rails.pool, order.operation_id);
  assert.deepEqual(
    news.map(({ event, railAmountMinor }) => [event, railAmountMinor]),
    [["collection.success", 1400n]],
  );
});

test("collect: that a rail has accepted is news only to whoever did not wait for its answer", async () => {
  const { promise: late, resolve: answer } = Promise.withResolvers<RailAnswer>();
  const { connector } = scripted("slow", ["first"], { collect: () => late, ask: { outcome: "unknown" } });
  const { house } = rails.open({ connectors: [connector] });
  const order = orderOf({ rails: ["first"] });
  const run = collectFrom(house, order);
  await until("the call is out", async () => (await readAttempt(rails.pool, order.operation_id))?.state === "sending");
  // Another process finds the lease run out and takes over: the answer is that runner's no longer.
  await rails.pool.query("update attempts set lease_no = lease_no + 1 where operation_id = $1", [order.operation_id]);
  answer(accepted);
  assert.equal((await run).attempt.state, "pending");
  const news = await newsOf(rails.pool, order.operation_id);
  assert.deepEqual(
    news.map(({ event, version }) => [event, version]),
    [["collection.pending", 1n]],
  );
});

test("ask: another account's operation is as unknown as none", async () => {
  const { house } = rails.open();
  const order = orderOf();
  await collectFrom(house, order, phoneOf("01"));
  assert.equal(await askFor(house, order.operation_id, "acct_other", "test"), null);
  assert.equal(await askFor(house, order.operation_id, order.account, "live"), null);
  assert.equal((await askFor(house, order.operation_id, order.account, "test"))?.attempt.state, "success");
});
