// Every collection row of the sandbox, acted out on a real database with callbacks over real HTTP.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { systemClock } from "@cauri/money/clock";
import { askFor, pollDue } from "../ask.ts";
import { startLoops } from "../loops.ts";
import type { CollectOrder } from "../order.ts";
import {
  collectFrom,
  moveClock,
  newsOf,
  openRails,
  orderOf,
  type Process,
  phoneOf,
  type TestRails,
  until,
} from "../testing.ts";

let rails: TestRails;
let room: Process;

before(async () => {
  rails = await openRails();
  room = rails.open();
});
after(() => rails.close());

/** Collects with a row's phone. */
async function run(digits: string, changes: Partial<CollectOrder> = {}) {
  const order = orderOf(changes);
  const { attempt, nothing_out } = await collectFrom(room.house, order, phoneOf(digits));
  return { order, attempt, nothing_out };
}

async function eventsOf(order: CollectOrder): Promise<string[]> {
  return (await newsOf(rails.pool, order.operation_id)).map(({ event }) => event.replace("collection.", ""));
}

/** Delivers what is due of an account until the news are there. */
async function settle(order: CollectOrder, expected: readonly string[]): Promise<void> {
  await until(`news ${expected}`, async () => {
    await room.simulator.deliverDue(order.account);
    return (await eventsOf(order)).join() === expected.join();
  });
}

async function callbacksFor(order: CollectOrder): Promise<number> {
  return rails.gateway.seen.filter(({ body }) => body.includes(order.reference)).length;
}

for (const digits of ["00", "09", "99", "58"]) {
  test(`collect ${digits}: pending, success a moment later`, async () => {
    const { order, attempt } = await run(digits);
    assert.equal(attempt.state, "pending");
    assert.equal(attempt.version, 1n);
    await settle(order, ["success"]);
    const [news] = await newsOf(rails.pool, order.operation_id);
    assert.equal(news?.version, 2n);
    assert.equal(news?.railAmountMinor, 1500n);
    assert.equal(news?.railCurrency, "XOF");
    assert.equal(news?.rail, "mtn_momo");
    assert.equal(await callbacksFor(order), 1);
  });
}

for (const digits of ["01", "13", "14"]) {
  test(`collect ${digits}: success at once`, async () => {
    const { order, attempt } = await run(digits);
    assert.equal(attempt.state, "success");
    assert.equal(attempt.rail_amount_minor, 1500n);
    assert.deepEqual(await eventsOf(order), ["success"]);
  });
}

for (const [digits, failure_code] of [
  ["02", "insufficient_funds"],
  ["03", "payer_rejected"],
] as const) {
  test(`collect ${digits}: failed, ${failure_code}`, async () => {
    const { order, attempt } = await run(digits);
    assert.equal(attempt.state, "failed");
    assert.equal(attempt.failure_code, failure_code);
    const [news] = await newsOf(rails.pool, order.operation_id);
    assert.equal(news?.failureCode, failure_code);
  });
}

test("collect 04: pending for ever; once its time is over the rail says expired", async () => {
  const { order, attempt } = await run("04");
  assert.equal(attempt.state, "pending");
  await moveClock(rails.pool, order.account, 3_000_000);
  await room.simulator.deliverDue(order.account);
  const asked = await askFor(room.house, order.operation_id, order.account, "test");
  assert.equal(asked?.answer?.outcome, "pending");
  await moveClock(rails.pool, order.account, 3_000_000);
  assert.equal(await pollDue(room.house, order.account), 1);
  assert.deepEqual(await eventsOf(order), ["failed"]);
  assert.equal((await newsOf(rails.pool, order.operation_id))[0]?.failureCode, "expired");
  assert.equal(await room.simulator.advance(order.reference, "success", "collection"), true, "late money is driven");
  assert.deepEqual(await eventsOf(order), ["failed", "success"]);
});

test("collect 05: the call is refused, its repetition is taken", async () => {
  const { order, attempt, nothing_out } = await run("05");
  assert.equal(nothing_out, "refused");
  assert.equal(attempt.state, "ready");
  const again = await collectFrom(room.house, order);
  assert.equal(again.attempt.state, "pending");
  await settle(order, ["success"]);
});

test("collect 06: unknown, found by asking, without any callback", async () => {
  const { order, attempt } = await run("06");
  assert.equal(attempt.state, "unknown");
  assert.deepEqual(await eventsOf(order), []);
  await until("asked", async () => {
    await moveClock(rails.pool, order.account, 1_000);
    await pollDue(room.house, order.account);
    return (await eventsOf(order)).includes("success");
  });
  assert.equal(await callbacksFor(order), 0);
});

test("collect 07: the callback comes twice, the news once", async () => {
  const { order } = await run("07");
  await settle(order, ["success"]);
  assert.equal(await callbacksFor(order), 2);
  const { rows } = await rails.pool.query("select times_received from callbacks where reference = $1", [
    order.reference,
  ]);
  assert.deepEqual(rows, [{ times_received: 2 }]);
});

test("collect 08: success after 60 s of the test clock, not before", async () => {
  const { order } = await run("08");
  // Half a minute before its time, whatever this machine does meanwhile.
  await moveClock(rails.pool, order.account, 30_000);
  assert.equal(await room.simulator.deliverDue(order.account), 0);
  await moveClock(rails.pool, order.account, 31_000);
  await settle(order, ["success"]);
});

test("collect 10: failed, then the late success arrives", async () => {
  const { order, attempt } = await run("10");
  assert.equal(attempt.state, "failed");
  await settle(order, ["failed", "success"]);
  const versions = (await newsOf(rails.pool, order.operation_id)).map(({ version }) => version);
  assert.deepEqual(versions, [1n, 2n]);
});

test("collect 11: the callback is there before the call's own answer, which changes nothing", async () => {
  const { order, attempt } = await run("11");
  assert.equal(attempt.state, "success");
  assert.equal(await callbacksFor(order), 1);
  assert.deepEqual(await eventsOf(order), ["success"]);
  const { rows } = await rails.pool.query<{ source: string; outcome: string; to_state: string | null }>(
    "select source, outcome, to_state from attempt_history where operation_id = $1 order by n",
    [order.operation_id],
  );
  assert.deepEqual(rows, [
    { source: "callback", outcome: "success", to_state: "success" },
    { source: "call", outcome: "pending", to_state: null },
  ]);
});

test("collect 12: unavailable, however often", async () => {
  const { order, nothing_out } = await run("12");
  assert.equal(nothing_out, "unavailable");
  const again = await collectFrom(room.house, order);
  assert.equal(again.nothing_out, "unavailable");
  assert.deepEqual(await eventsOf(order), []);
});

test("collect: live mode is 00 whatever the phone, and without one", async () => {
  for (const phone of [phoneOf("03"), undefined]) {
    const order = orderOf({ mode: "live", rails: ["wave"] });
    const { attempt } = await collectFrom(room.house, order, phone);
    assert.equal(attempt.state, "pending");
    await until("paid", async () => {
      await room.simulator.deliverDue(null);
      return (await eventsOf(order)).join() === "success";
    });
  }
});

test("collect: each rail gives what its platform promises", async () => {
  const webpay = await collectFrom(room.house, orderOf({ rails: ["orange_webpay"], platform_id: "plt_orange_ci" }));
  assert.match(webpay.attempt.payment_url ?? "", /^https:\/\/pay\.test\/simulator\/[\w-]{43}$/);
  assert.equal(webpay.attempt.deep_link, null);
  const wave = await collectFrom(room.house, orderOf({ rails: ["wave"], platform_id: "plt_wave_sn" }));
  assert.ok(wave.attempt.deep_link !== null && wave.attempt.payment_url !== null && wave.attempt.qr === null);
  const instant = await collectFrom(room.house, orderOf({ rails: ["instant"], platform_id: "plt_pi_ci" }));
  assert.match(instant.attempt.qr ?? "", /^0002013656.*5303952.*54041500.*5802CI.*6304[0-9A-F]{4}$/);
  assert.ok(instant.attempt.payment_url === null);
  const push = await collectFrom(room.house, orderOf(), phoneOf("04"));
  assert.deepEqual([push.attempt.payment_url, push.attempt.deep_link, push.attempt.qr], [null, null, null]);
});

/** A charge that waits on its page for a person. */
async function openPage(changes: Partial<CollectOrder> = {}) {
  const order = orderOf({ rails: ["wave"], platform_id: "plt_wave_ci", ...changes });
  const { attempt } = await collectFrom(room.house, order);
  const token = attempt.payment_url?.split("/").at(-1) ?? "";
  return { order, token };
}

for (const [decision, state, next_url, event] of [
  ["approve", "approved", "https://shop.test/back", "success"],
  ["decline", "declined", "https://shop.test/back", "failed"],
  ["cancel", "cancelled", "https://shop.test/cancelled", "cancelled"],
] as const) {
  test(`page: ${decision}`, async () => {
    const { order, token } = await openPage();
    assert.deepEqual(await room.simulator.page(token), {
      reference: order.reference,
      amount: "1500 XOF",
      merchant_name: "Chez Awa",
      description: "",
      state: "open",
      next_url: "",
    });
    const decided = await room.simulator.decide(token, decision);
    assert.equal(decided?.state, state);
    assert.equal(decided?.next_url, next_url);
    assert.deepEqual(await eventsOf(order), [event], "told before the payer is sent on");
    const again = await room.simulator.decide(token, "approve");
    assert.equal(again?.state, state, "a decision stands");
    assert.deepEqual(await eventsOf(order), [event]);
  });
}

test("page: what has run out decides nothing; an unknown token has no page", async () => {
  const { order, token } = await openPage({ expires_at: new Date(systemClock() + 300_000) });
  await moveClock(rails.pool, order.account, 301_000);
  assert.equal((await room.simulator.decide(token, "approve"))?.state, "expired");
  assert.deepEqual(await eventsOf(order), []);
  assert.equal(await room.simulator.page("nothing"), null);
  assert.equal(await room.simulator.page("a\0b"), null);
});

test("advance: drives what is open, and takes the place of what was scheduled", async () => {
  const { order } = await run("08");
  assert.equal(await room.simulator.advance(order.reference, "failed", "collection"), true);
  assert.deepEqual(await eventsOf(order), ["failed"]);
  await moveClock(rails.pool, order.account, 120_000);
  assert.equal(await room.simulator.deliverDue(order.account), 0, "the scheduled success is forgotten");
  assert.equal(await room.simulator.advance(order.reference, "failed", "collection"), false, "no such arrow");
  assert.equal(await room.simulator.advance(order.reference, "success", "collection"), true);
  assert.equal(await room.simulator.advance(order.reference, "success", "collection"), false);
  assert.deepEqual(await eventsOf(order), ["failed", "success"]);
  assert.equal(await room.simulator.advance("PAY-TEST00000000", "success", "collection"), false);
});

test("callback: a gateway that is down gets it later; what is given up is found by asking", async () => {
  const { order } = await run("00");
  rails.gateway.is_down = true;
  try {
    await moveClock(rails.pool, order.account, 1_000);
    const began = performance.now();
    assert.equal(await room.simulator.deliverDue(order.account), 1);
    assert.deepEqual(await eventsOf(order), []);
    const at_once = await room.simulator.deliverDue(order.account);
    // A machine that took a second for this has seen the pause's end; the tries below are fewer then.
    const is_slow = performance.now() - began >= 1_000;
    if (!is_slow) assert.equal(at_once, 0, "not before its pause is over");
    for (let tries = at_once; tries < 5; tries += 1) {
      await rails.pool.query("update simulator_charges set try_at = now() where reference = $1", [order.reference]);
      assert.equal(await room.simulator.deliverDue(order.account), 1);
    }
    await rails.pool.query("update simulator_charges set try_at = now() where reference = $1", [order.reference]);
    assert.equal(await room.simulator.deliverDue(order.account), 0, "given up");
  } finally {
    rails.gateway.is_down = false;
  }
  await moveClock(rails.pool, order.account, 10_000);
  assert.equal(await pollDue(room.house, order.account), 1);
  assert.deepEqual(await eventsOf(order), ["success"]);
});

test("loops: the work of a drain waits for what a loop of the room is telling", async () => {
  const { house, simulator } = rails.open();
  const begun = Promise.withResolvers<void>();
  const told = Promise.withResolvers<number>();
  const deliverDue = async (account: string | null) => {
    if (account !== null) return 0;
    begun.resolve();
    return await told.promise;
  };
  const loops = startLoops(house, { ...simulator, deliverDue });
  await begun.promise;
  const worked = loops.workFor(orderOf().account);
  assert.equal(await Promise.race([worked, sleep(200, "waits")]), "waits");
  told.resolve(0);
  assert.equal(await worked, 0);
  await loops.stop();
});
