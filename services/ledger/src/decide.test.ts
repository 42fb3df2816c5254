// The judgement: every result in its order of precedence, and histories against the plain model.

import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import {
  type Account,
  availableOf,
  type Balances,
  type GroupOrder,
  type Hold,
  type Known,
  type Lane,
  MAX_BALANCE,
  ZERO,
} from "./books.ts";
import { chartOf } from "./chart.ts";
import { type BookState, decide } from "./decide.ts";
import { Model } from "./model-testing.ts";
import {
  CODES,
  capture,
  FEES,
  FLOAT,
  group,
  histories,
  hold,
  idOf,
  LANES,
  MERCHANT,
  OTHER,
  order,
  post,
  release,
} from "./testing.ts";

const NOW_MS = 1_800_000_000_000;

/** Keeps in memory what the engine keeps in PostgreSQL, and reads for `decide` what its SQL reads. */
class Books {
  readonly lanes: Lane[] = LANES.map((lane, index) => ({ ...lane, lane_id: index + 1 }));
  readonly accounts: (Account & { lane_id: number })[] = [];
  readonly holds = new Map<string, Hold>();
  readonly known = new Map<string, Known>();
  now_us = NOW_MS * 1000;

  constructor() {
    for (const { lane_id } of this.lanes) {
      for (const code of CODES) {
        const { normal_side, no_overdraft } = chartOf(code) ?? assert.fail();
        this.accounts.push({
          lane_id,
          account_id: this.accounts.length + 1,
          code,
          normal_side,
          no_overdraft,
          balances: ZERO,
        });
      }
    }
  }

  run(groups: readonly GroupOrder[], sweep?: Lane) {
    const first = groups[0];
    const lane = sweep ?? this.lanes.find((l) => l.asset_id === first?.asset_id && l.book === first.book) ?? null;
    const decision = decide(this.#read(lane, groups, sweep !== undefined), groups);
    for (const hold of [...decision.effects.new_holds, ...decision.effects.ended_holds])
      this.holds.set(hold.hold_id, hold);
    const records = [
      ...decision.effects.transfers.map((one) => ({ ...one, result: null })),
      ...decision.effects.refusals,
    ];
    for (const { id, fields, result } of records) {
      assert.ok(!this.known.has(id), `${id} was written twice`);
      this.known.set(id, { fields, refused: result, recorded_us: this.now_us });
    }
    for (const account of this.accounts) {
      const place = decision.effects.last_entries.get(account.account_id);
      const balances = place === undefined ? undefined : decision.effects.entries[place]?.after;
      if (balances !== undefined) Object.assign(account, { balances });
    }
    return decision;
  }

  balancesOf(code: string, lane_id = 1): Balances {
    return (this.accounts.find((one) => one.code === code && one.lane_id === lane_id) ?? assert.fail()).balances;
  }

  available(code: string): bigint {
    return availableOf("credit", this.balancesOf(code));
  }

  #read(lane: Lane | null, groups: readonly GroupOrder[], whole: boolean): BookState {
    const orders = groups.flatMap((one) => one.transfers);
    const codes = new Set(orders.flatMap((one) => [one.debit_code, one.credit_code]));
    const named = new Set(orders.flatMap((one) => [one.id, one.hold_id]));
    const touched = new Set(this.accounts.filter((a) => a.no_overdraft && codes.has(a.code)).map((a) => a.account_id));
    const holds = [...this.holds.values()].filter(
      (one) =>
        named.has(one.hold_id) ||
        (one.lane.lane_id === lane?.lane_id &&
          one.state === "held" &&
          (whole || touched.has(one.debit_id) || touched.has(one.credit_id))),
    );
    return {
      lane,
      now_us: this.now_us,
      accounts: this.accounts.filter((account) => account.lane_id === lane?.lane_id),
      holds,
      known: new Map([...this.known].filter(([id]) => named.has(id))),
    };
  }
}

const resultsOf = (books: Books, orders: GroupOrder["transfers"], more: Partial<GroupOrder> = {}) =>
  books.run([group(orders, more)]).answers[0]?.transfers.map((answer) => answer.result);

function funded(amount: bigint): Books {
  const books = new Books();
  books.run([group([post("fund", FLOAT, MERCHANT, amount)])]);
  return books;
}

test("post: moves the amount, and both accounts have their balances after it", () => {
  const books = new Books();
  const { answers, effects } = books.run([group([post("a", FLOAT, MERCHANT, 10n), post("b", MERCHANT, FEES, 3n)])]);
  assert.deepEqual(answers[0], {
    accepted: true,
    transfers: [
      { result: "ok", state: "posted", recorded_us: books.now_us },
      { result: "ok", state: "posted", recorded_us: books.now_us },
    ],
  });
  assert.deepEqual(
    effects.entries.map((entry) => entry.position),
    [0, 0, 1, 1],
  );
  assert.equal(books.available(MERCHANT), 7n);
  assert.equal(books.balancesOf(FEES).credits_posted, 3n);
});

test("exists: the same fields answer the same with the present state, other fields differ", () => {
  const books = funded(10n);
  books.run([group([hold("h", MERCHANT, FLOAT, 4n)])]);
  books.run([group([capture("c", "h", 3n)])]);
  const again = books.run([group([hold("h", MERCHANT, FLOAT, 4n), capture("c", "h", 3n)])]);
  assert.deepEqual(
    again.answers[0]?.transfers.map(({ result, state }) => [result, state]),
    [
      ["exists", "captured"],
      ["exists", "captured"],
    ],
  );
  assert.equal(again.answers[0]?.accepted, true);
  assert.equal(again.effects.transfers.length, 0);
  const differing = [
    [hold("h", MERCHANT, FLOAT, 5n)],
    [hold("h", OTHER, FLOAT, 4n)],
    [hold("h", MERCHANT, FEES, 4n)],
    [hold("h", MERCHANT, FLOAT, 4n, NOW_MS + 1)],
    [post("h", MERCHANT, FLOAT, 4n)],
    [order("hold", "h", MERCHANT, FLOAT, 4n, { effective_ms: NOW_MS })],
    [capture("c", "h")],
    [release("c", "h")],
    [capture("c", "fund", 3n)],
  ];
  for (const orders of differing) assert.deepEqual(resultsOf(books, orders), ["exists_differently"]);
  assert.deepEqual(resultsOf(books, [hold("h", MERCHANT, FLOAT, 4n)], { operation_id: "pay_2" }), [
    "exists_differently",
  ]);
  assert.deepEqual(resultsOf(books, [hold("h", MERCHANT, FLOAT, 4n)], { book: "test" }), ["exists_differently"]);
});

test("exists: a capture of 0 and one of the whole hold are the same order, with or without its accounts", () => {
  const books = funded(10n);
  books.run([group([hold("h", MERCHANT, FLOAT, 4n), capture("c", "h")])]);
  assert.deepEqual(resultsOf(books, [capture("c", "h", 4n)]), ["exists"]);
  assert.deepEqual(resultsOf(books, [order("capture", "c", MERCHANT, FLOAT, 0n, { hold_id: idOf("h") })]), ["exists"]);
  assert.deepEqual(resultsOf(books, [order("capture", "c", OTHER, FLOAT, 0n, { hold_id: idOf("h") })]), [
    "exists_differently",
  ]);
});

test("a group that partly stands: what exists answers exists, what is new applies", () => {
  const books = funded(10n);
  books.run([group([post("a", MERCHANT, FEES, 1n)])]);
  assert.deepEqual(resultsOf(books, [post("a", MERCHANT, FEES, 1n), post("b", MERCHANT, FEES, 2n)]), ["exists", "ok"]);
  assert.equal(books.available(MERCHANT), 7n);
  const refused = [post("a", MERCHANT, FEES, 1n), post("c", MERCHANT, FEES, 99n), post("d", MERCHANT, FEES, 1n)];
  assert.deepEqual(resultsOf(books, refused), ["exists", "insufficient_funds", "group_refused"]);
});

test("account_unknown: is told before a hold and not remembered", () => {
  const books = new Books();
  assert.deepEqual(resultsOf(books, [post("a", FLOAT, "merchant:acct_x:plt_a", 1n)]), ["account_unknown"]);
  const named = order("capture", "c", "merchant:acct_x:plt_a", null, 0n, { hold_id: idOf("none") });
  assert.deepEqual(resultsOf(books, [named]), ["account_unknown"]);
  assert.equal(books.known.size, 0);
  assert.deepEqual(resultsOf(books, [post("a", FLOAT, MERCHANT, 1n)]), ["ok"]);
});

test("asset_mismatch and book_mismatch: a hold is ended in its own asset and book only", () => {
  const books = funded(10n);
  books.run([group([hold("h", MERCHANT, FLOAT, 4n)])]);
  assert.deepEqual(resultsOf(books, [capture("c", "h")], { asset_id: "ast_ghs" }), ["asset_mismatch"]);
  assert.deepEqual(resultsOf(books, [capture("c", "h")], { book: "test" }), ["book_mismatch"]);
  assert.deepEqual(resultsOf(books, [capture("c", "h")], { asset_id: "ast_none" }), ["asset_mismatch"]);
  assert.deepEqual(resultsOf(books, [capture("c", "h")]), ["ok"]);
});

test("hold_unknown: is not remembered, so the hold may still arrive; a hold between other accounts is unknown too", () => {
  const books = funded(10n);
  assert.deepEqual(resultsOf(books, [capture("c", "h")]), ["hold_unknown"]);
  assert.deepEqual(resultsOf(books, [capture("c", "fund")]), ["hold_unknown"]);
  books.run([group([hold("h", MERCHANT, FLOAT, 4n)])]);
  const elsewhere = order("capture", "c", OTHER, FLOAT, 0n, { hold_id: idOf("h") });
  assert.deepEqual(resultsOf(books, [elsewhere]), ["hold_unknown"]);
  assert.deepEqual(resultsOf(books, [capture("c", "h")]), ["ok"]);
});

test("a hold: ends once, and whoever comes second is told how, for ever", () => {
  for (const [first, second] of [
    [capture("c1", "h"), "hold_already_captured"],
    [release("r1", "h"), "hold_already_released"],
  ] as const) {
    const books = funded(10n);
    books.run([group([hold("h", MERCHANT, FLOAT, 4n)])]);
    assert.equal(books.available(MERCHANT), 6n);
    assert.deepEqual(resultsOf(books, [first]), ["ok"]);
    for (const late of [capture("c2", "h"), release("r2", "h")]) {
      assert.deepEqual(resultsOf(books, [late]), [second]);
      assert.deepEqual(resultsOf(books, [late]), [second]);
    }
    assert.equal(books.available(MERCHANT), first.kind === "capture" ? 6n : 10n);
    assert.equal(books.balancesOf(MERCHANT).debits_pending, 0n);
  }
});

test("capture: a part moves and the rest is released; more than the hold is refused for ever and ends nothing", () => {
  const books = funded(10n);
  books.run([group([hold("h", MERCHANT, FLOAT, 4n)])]);
  assert.deepEqual(resultsOf(books, [capture("c", "h", 5n)]), ["exceeds_hold"]);
  assert.deepEqual(resultsOf(books, [capture("c", "h", 5n)]), ["exceeds_hold"]);
  assert.deepEqual(resultsOf(books, [capture("d", "h", 3n)]), ["ok"]);
  assert.equal(books.available(MERCHANT), 7n);
  assert.equal(books.holds.get(idOf("h"))?.captured, 3n);
});

test("expiry: funds are free exactly at the instant, not a microsecond before", () => {
  const books = funded(10n);
  books.run([group([hold("h", MERCHANT, FLOAT, 10n, NOW_MS + 5)])]);
  books.now_us = (NOW_MS + 5) * 1000 - 1;
  assert.deepEqual(resultsOf(books, [post("early", MERCHANT, FEES, 1n)]), ["insufficient_funds"]);
  books.now_us += 1;
  const { answers, effects } = books.run([group([post("late", MERCHANT, FEES, 1n)])]);
  assert.equal(answers[0]?.accepted, true);
  assert.deepEqual(
    effects.transfers.map((one) => one.fields.kind),
    ["expire", "post"],
  );
  assert.deepEqual(resultsOf(books, [capture("c", "h")]), ["hold_already_expired"]);
  assert.deepEqual(books.run([group([hold("h", MERCHANT, FLOAT, 10n, NOW_MS + 5)])]).answers[0]?.transfers, [
    { result: "exists", state: "expired", recorded_us: NOW_MS * 1000 },
  ]);
});

test("expiry: a hold that is over when it arrives binds nothing for whoever comes after it in the batch", () => {
  const books = funded(10n);
  const { answers } = books.run([
    group([hold("h", MERCHANT, FLOAT, 10n, NOW_MS)]),
    group([post("a", MERCHANT, FEES, 10n)]),
    group([capture("c", "h")]),
  ]);
  const results = answers.map((answer) => answer.transfers.map(({ result, state }) => `${result} ${state}`));
  assert.deepEqual(results, [["ok expired"], ["ok posted"], ["hold_already_expired null"]]);
});

test("insufficient_funds: what is held counts as gone, and the refusal stays after a top-up", () => {
  const books = funded(10n);
  books.run([group([hold("h", MERCHANT, FLOAT, 6n)])]);
  assert.deepEqual(resultsOf(books, [post("a", MERCHANT, FEES, 5n)]), ["insufficient_funds"]);
  assert.deepEqual(resultsOf(books, [hold("b", MERCHANT, FLOAT, 5n)]), ["insufficient_funds"]);
  books.run([group([post("more", FLOAT, MERCHANT, 100n)])]);
  assert.deepEqual(resultsOf(books, [post("a", MERCHANT, FEES, 5n)]), ["insufficient_funds"]);
  assert.deepEqual(resultsOf(books, [post("a", MERCHANT, FEES, 4n)]), ["exists_differently"]);
  assert.deepEqual(resultsOf(books, [post("a2", MERCHANT, FEES, 5n)]), ["ok"]);
});

test("insufficient_funds: a pending credit can't be spent, and float may go below zero", () => {
  const books = new Books();
  books.run([group([hold("h", FLOAT, MERCHANT, 6n)])]);
  assert.equal(books.balancesOf(MERCHANT).credits_pending, 6n);
  assert.deepEqual(resultsOf(books, [post("a", MERCHANT, FEES, 1n)]), ["insufficient_funds"]);
  assert.deepEqual(resultsOf(books, [post("b", FEES, FLOAT, 1_000n)]), ["ok"]);
});

test("balance_overflow: a sum and what is set aside beside it stay below 2^63, so a hold can always be captured", () => {
  const books = new Books();
  assert.deepEqual(resultsOf(books, [post("a", FLOAT, FEES, MAX_BALANCE - 1n)]), ["ok"]);
  assert.deepEqual(resultsOf(books, [hold("h", FLOAT, FEES, 2n)]), ["balance_overflow"]);
  assert.deepEqual(resultsOf(books, [hold("i", FLOAT, FEES, 1n)]), ["ok"]);
  assert.deepEqual(resultsOf(books, [post("b", FLOAT, FEES, 1n)]), ["balance_overflow"]);
  assert.deepEqual(resultsOf(books, [capture("c", "i")]), ["ok"]);
});

test("group: later transfers see the earlier ones, also a hold and its capture", () => {
  const books = new Books();
  const collection = [hold("h", FLOAT, MERCHANT, 10n), capture("c", "h"), post("fee", MERCHANT, FEES, 10n)];
  const { answers, effects } = books.run([group(collection)]);
  assert.deepEqual(
    answers[0]?.transfers.map(({ result, state }) => [result, state]),
    [
      ["ok", "captured"],
      ["ok", "captured"],
      ["ok", "posted"],
    ],
  );
  assert.deepEqual(
    effects.new_holds.map((one) => one.state),
    ["captured"],
  );
  assert.equal(effects.ended_holds.length, 0);
});

test("group: refused as a whole, with nothing left behind and only the first refusal remembered", () => {
  const books = funded(5n);
  const before = JSON.stringify(books.accounts, (_, value) => (typeof value === "bigint" ? `${value}` : value));
  const orders = [
    hold("h", FLOAT, MERCHANT, 10n),
    capture("c", "h"),
    post("x", MERCHANT, FEES, 16n),
    post("y", OTHER, FEES, 1n),
  ];
  const expected = ["group_refused", "group_refused", "insufficient_funds", "group_refused"];
  assert.deepEqual(resultsOf(books, orders), expected);
  assert.deepEqual(resultsOf(books, orders), expected);
  assert.equal(
    JSON.stringify(books.accounts, (_, value) => (typeof value === "bigint" ? `${value}` : value)),
    before,
  );
  assert.deepEqual([...books.known.keys()], [idOf("fund"), idOf("x")]);
  assert.deepEqual(resultsOf(books, [hold("h", FLOAT, MERCHANT, 10n)]), ["ok"]);
});

test("group: an account still to be opened never makes its sibling's refusal final", () => {
  const books = new Books();
  const orders = [post("in", FLOAT, "merchant:acct_x:plt_a", 5n), post("out", MERCHANT, FEES, 1n)];
  assert.deepEqual(resultsOf(books, orders), ["account_unknown", "group_refused"]);
  assert.equal(books.known.size, 0);
});

test("batch: a transfer twice in one batch is booked once, and a refusal repeats inside it", () => {
  const books = funded(5n);
  const { answers, effects } = books.run([
    group([post("a", MERCHANT, FEES, 5n)]),
    group([post("a", MERCHANT, FEES, 5n)]),
    group([post("b", MERCHANT, FEES, 1n)]),
    group([post("b", MERCHANT, FEES, 1n)]),
    group([post("b", MERCHANT, FEES, 2n)]),
  ]);
  const results = answers.map((answer) => answer.transfers[0]?.result);
  assert.deepEqual(results, ["ok", "exists", "insufficient_funds", "insufficient_funds", "exists_differently"]);
  assert.deepEqual([effects.transfers.length, effects.refusals.length], [1, 1]);
});

test("histories: answers and balances are those of the plain model, whatever is asked in whatever batches", () => {
  fc.assert(
    fc.property(histories({ words: 12, steps: 12, start_ms: NOW_MS }), (steps) => {
      const books = new Books();
      const model = new Model();
      for (const lane of LANES) for (const code of CODES) model.open(lane.asset_id, lane.book, code);
      for (const step of steps) {
        books.now_us += step.after_ms * 1000 + 1;
        const { answers } = books.run(step.groups);
        const expected = step.groups.map((one) => model.post(one, books.now_us));
        assert.deepEqual(answers, expected);
      }
      for (const lane of books.lanes) books.run([], lane);
      model.expire(books.now_us);
      for (const account of books.accounts) {
        const lane = LANES[account.lane_id - 1];
        const { balances } =
          model.state.accounts.get(`${lane?.asset_id}/${lane?.book}/${account.code}`) ?? assert.fail();
        assert.deepEqual({ ...account.balances }, balances);
        if (account.no_overdraft) assert.ok(availableOf(account.normal_side, account.balances) >= 0n);
      }
    }),
    { numRuns: 1_000 },
  );
});
