// Sending out: every payout row of the sandbox, withholding, a "no" that the rail must repeat, what crashes leave behind.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { systemClock } from "@cauri/money/clock";
import { newId } from "@cauri/money/ids";
import { newReference } from "@cauri/money/reference";
import { transact } from "@cauri/store/pool";
import { askFor, pollDue } from "./ask.ts";
import type { RailAnswer } from "./attempt.ts";
import { openAttempt, readAttempt, startSending } from "./attempt-store.ts";
import { collect } from "./collect.ts";
import type { Connector, Disbursement } from "./connector.ts";
import { type Destination, writeDestination } from "./destination.ts";
import type { House } from "./house.ts";
import type { PayOutOrder } from "./order.ts";
import { moveClock, newsOf, openRails, phoneOf, type TestRails, until } from "./testing.ts";
import { keepDetails } from "./vault-store.ts";
import { withhold } from "./withhold.ts";

let rails: TestRails;
let house: House;
before(async () => {
  rails = await openRails();
  house = rails.open().house;
});
after(() => rails.close());

function payoutOf(changes: Partial<PayOutOrder> = {}): PayOutOrder {
  return {
    kind: "payout",
    operation_id: newId("po", systemClock()),
    account: newId("acct", systemClock()),
    mode: "test",
    reference: newReference("PYT", "test"),
    amount_minor: 1500n,
    asset_id: "ast_xof",
    currency: "XOF",
    scale: 0,
    platform_id: "plt_mtn_ci",
    expires_at: null,
    rails: ["mtn_momo"],
    forced: false,
    description: null,
    merchant_name: "Chez Awa",
    ...changes,
  };
}

const wallet = (digits: string): Destination => ({ type: "mobile_wallet", phone: phoneOf(digits) });

function keep(order: PayOutOrder, destination: Destination): Promise<void> {
  const details = { plain: writeDestination(destination), retention: "transient" } as const;
  return keepDetails(rails.pool, house.cipher, order, details);
}

async function send(order: PayOutOrder, destination: Destination = wallet("00"), by = house) {
  await keep(order, destination);
  return await collect(by, order, systemClock() + 60_000);
}

async function told(order: PayOutOrder): Promise<string[]> {
  return (await newsOf(rails.pool, order.operation_id)).map(({ event }) => event);
}

/** Lets what is due happen and be told until the news are these. */
async function hears(order: PayOutOrder, events: readonly string[]): Promise<void> {
  const { simulator } = rails.open();
  await until(`${events.join(", ")} is told`, async () => {
    await simulator.deliverDue(order.account);
    await pollDue(house, order.account);
    return (await told(order)).length >= events.length;
  });
  assert.deepEqual(await told(order), events);
}

/** An operator that answers as told and remembers what it was sent. */
function scripted(name: string, answers: { payOut: () => Promise<RailAnswer>; ask: () => RailAnswer }) {
  const sent: Disbursement[] = [];
  const connector: Connector = {
    name,
    rails: [name],
    is_simulated: false,
    collect: () => Promise.reject(new Error("it only pays out")),
    payOut: (disbursement) => {
      sent.push(disbursement);
      return answers.payOut();
    },
    ask: async () => answers.ask(),
    classify: () => ({ outcome: "unknown" }),
    readCallback: () => ({ authentic: false }),
  };
  return { sent, by: rails.open({ connectors: [connector] }).house };
}

const SUCCESS = ["payout.success"];
for (const [digits, state, events] of [
  ["00", "pending", SUCCESS],
  ["01", "success", ["payout.success"]],
  ["02", "failed", ["payout.failed"]],
  ["03", "failed", ["payout.failed"]],
  ["04", "pending", []],
  ["06", "unknown", ["payout.success"]],
  ["07", "pending", SUCCESS],
  ["09", "pending", [...SUCCESS, "payout.returned"]],
  ["10", "failed", ["payout.failed"]],
  ["11", "success", ["payout.success"]],
  ["13", "success", ["payout.success"]],
  ["14", "success", ["payout.success"]],
] as const) {
  test(`send: row ${digits} is ${state} and tells ${events.join(", ")}`, async () => {
    const order = payoutOf();
    const { attempt, nothing_out } = await send(order, wallet(digits));
    assert.deepEqual([attempt.state, nothing_out], [state, null]);
    if (digits === "06") await moveClock(rails.pool, order.account, 2_000);
    await hears(order, events);
  });
}

test("send: row 05 is refused once, 12 unavailable, 08 takes a minute", async () => {
  const refused = payoutOf();
  assert.equal((await send(refused, wallet("05"))).nothing_out, "refused");
  assert.equal((await send(refused, wallet("05"))).attempt.state, "pending");
  assert.equal((await send(payoutOf(), wallet("12"))).nothing_out, "unavailable");
  const slow = payoutOf();
  await send(slow, wallet("08"));
  // Half a minute before its time, whatever this machine does meanwhile.
  await moveClock(rails.pool, slow.account, 30_000);
  await hears(slow, []);
  await moveClock(rails.pool, slow.account, 31_000);
  await hears(slow, SUCCESS);
});

test("send: a success and its return that are due at once are told in their order", async () => {
  const order = payoutOf();
  await send(order, wallet("09"));
  await moveClock(rails.pool, order.account, 3_600_000);
  await hears(order, [...SUCCESS, "payout.returned"]);
});

test("send: a bank account's number chooses the row as a phone does", async () => {
  const bank = { rails: ["bank_transfer"], platform_id: "plt_bank_ci" };
  const numbered: Destination = { type: "bank_account", account_number: "0123456789002", bank_code: "CI001" };
  assert.equal((await send(payoutOf(bank), numbered)).attempt.failure_code, "limit_exceeded");
  const named: Destination = { type: "bank_account", iban: "CI93CI0080111301134291200501" };
  assert.equal((await send(payoutOf(bank), named)).attempt.state, "success");
});

test("send: a rail that only collects pays nothing out", async () => {
  assert.equal((await send(payoutOf({ rails: ["orange_webpay"] }))).nothing_out, "refused");
});

test("send: a destination that was erased for its age, or never kept, is a no, and nothing can be sent after it", async () => {
  const order = payoutOf();
  const { attempt, nothing_out } = await collect(house, order, systemClock() + 60_000);
  assert.deepEqual([attempt.state, nothing_out], ["ready", "refused"]);
  assert.equal((await withhold(house, order, "operator_unavailable")).state, "withheld");
  await keep(order, wallet("00"));
  assert.equal((await collect(house, order, systemClock() + 60_000)).attempt.state, "withheld");
  const { rows } = await rails.pool.query("select from simulator_charges where reference = $1", [order.reference]);
  assert.equal(rows.length, 0);
});

test("send: 32 racing over 4 processes pay once", async () => {
  const order = payoutOf();
  const processes = Array.from({ length: 4 }, () => rails.open().house);
  await keep(order, wallet("01"));
  const until_ms = systemClock() + 60_000;
  await Promise.all(Array.from({ length: 32 }, (_, at) => collect(processes[at % 4] ?? house, order, until_ms)));
  const { rows } = await rails.pool.query("select state from simulator_charges where reference = $1", [
    order.reference,
  ]);
  assert.deepEqual(rows, [{ state: "success" }]);
  assert.deepEqual(await told(order), ["payout.success"]);
});

test("send: a no that the rail doesn't repeat leaves the outcome unknown", async () => {
  for (const outcome of ["not_found", "unavailable"] as const) {
    const { by } = scripted("fickle", {
      payOut: async () => ({ outcome: "failed", failure_code: "payee_not_found" }),
      ask: () => ({ outcome }),
    });
    const order = payoutOf({ rails: ["fickle"] });
    assert.equal((await send(order, wallet("00"), by)).attempt.state, "unknown");
    assert.deepEqual(await told(order), []);
  }
});

test("send: a no after which the rail says that it has paid is a success", async () => {
  const { by } = scripted("contrary", {
    payOut: async () => ({ outcome: "failed", failure_code: "unknown" }),
    ask: () => ({ outcome: "success", amount_minor: 1500n, currency: "XOF" }),
  });
  const order = payoutOf({ rails: ["contrary"] });
  assert.equal((await send(order, wallet("00"), by)).attempt.state, "success");
});

test("ask: a success that the rail now calls failed has come back", async () => {
  let answer: RailAnswer = { outcome: "success", amount_minor: 1500n, currency: "XOF" };
  const { by } = scripted("late", { payOut: async () => answer, ask: () => answer });
  const order = payoutOf({ rails: ["late"] });
  await send(order, wallet("00"), by);
  answer = { outcome: "failed", failure_code: "account_blocked" };
  const asked = await askFor(by, order.operation_id, order.account, "test");
  assert.equal(asked?.attempt.state, "returned");
  assert.deepEqual(await told(order), ["payout.success", "payout.returned"]);
});

test("send: after a crash before the call the rail is asked, has nothing, and gets it under the same reference", async () => {
  const { by, sent } = scripted("crashed", {
    payOut: async () => ({ outcome: "pending" }),
    ask: () => ({ outcome: "not_found" }),
  });
  const order = payoutOf({ rails: ["crashed"] });
  await transact(rails.pool, async (tx) => startSending(tx, await openAttempt(tx, order), "crashed", "crashed"));
  await rails.pool.query("update attempts set lease_until = now() where operation_id = $1", [order.operation_id]);
  assert.equal((await send(order, wallet("00"), by)).attempt.state, "pending");
  assert.deepEqual(
    sent.map(({ reference }) => reference),
    [order.reference],
  );
});

test("withhold: before anything left it is never sent; a repeat says so too", async () => {
  const order = payoutOf();
  assert.equal((await withhold(house, order, null)).state, "withheld");
  assert.equal((await send(order)).attempt.state, "withheld");
  assert.equal((await withhold(house, order, null)).state, "withheld");
  const { rowCount } = await rails.pool.query("select from simulator_charges where reference = $1", [order.reference]);
  assert.equal(rowCount, 0);
  const refused = payoutOf();
  await send(refused, wallet("12"));
  const kept = await withhold(house, refused, "operator_unavailable");
  assert.deepEqual([kept.state, kept.failure_code], ["withheld", "operator_unavailable"]);
  assert.deepEqual(await told(refused), []);
});

test("withhold: what may have left goes on", async () => {
  for (const digits of ["00", "01", "06"]) {
    const order = payoutOf();
    const { attempt } = await send(order, wallet(digits));
    assert.equal((await withhold(house, order, null)).state, attempt.state);
  }
});

test("withhold and send at once: either it is withheld and the operator has nothing, or it left", async () => {
  for (let round = 0; round < 20; round += 1) {
    const order = payoutOf();
    const [kept] = await Promise.all([withhold(house, order, null), send(order, wallet("01"))]);
    const { rowCount } = await rails.pool.query("select from simulator_charges where reference = $1", [
      order.reference,
    ]);
    const stands = await readAttempt(rails.pool, order.operation_id);
    assert.equal(rowCount, kept.state === "withheld" ? 0 : 1);
    assert.equal(stands?.state, kept.state === "withheld" ? "withheld" : "success");
  }
});
