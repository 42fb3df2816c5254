import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { pathsOf } from "@cauri/money/moves";
import { isRefusal } from "@cauri/money/refusal";
import { RefundStatus } from "@cauri/proto/ts/cauri/collections/v1/refunds";
import fc from "fast-check";
import { decideRefund, REFUND_FAILURES, type Refundable, refundMoves } from "./refund.ts";
import { statusesOf } from "./refund-view.ts";

const STATES = Object.keys(refundMoves);

test("refund: the states of the table are those of the CHECK, which adds draft, and each is shown", () => {
  const sql = readFileSync(join(import.meta.dirname, "../migrations/0002_refunds.sql"), "utf8");
  const check = /refunds_status check \(status in \(([^)]*)\)\)/.exec(sql)?.[1] ?? "";
  assert.deepEqual(check.match(/\w+/g), ["draft", ...STATES]);
  const shown = Object.values(RefundStatus).flatMap((status) => statusesOf(status as RefundStatus));
  assert.deepEqual(shown, STATES);
  for (const code of Object.keys(REFUND_FAILURES)) assert.ok(sql.includes(`'${code}'`), code);
});

test("refund: on every path the hold ends once, none is open at rest; what contradicts the end moves nothing", () => {
  for (const path of pathsOf(refundMoves, "initiated")) {
    const ends = path.filter(({ ledger }) => ledger === "capture" || ledger === "release");
    const last = path.at(-1)?.to ?? "initiated";
    const is_open = last === "initiated" || last === "pending";
    assert.equal(ends.length, is_open ? 0 : 1, path.map(({ news }) => news).join(" "));
    for (const { from, to, ledger, event } of path) {
      if (ledger.startsWith("post_")) assert.deepEqual([to, event], [from, null]);
    }
    assert.ok(path.filter(({ event }) => event !== null).length <= 1, "the world hears of one end");
  }
});

const PAYMENT: Refundable = { status: "success", amount_minor: 1000n, refunded_minor: 0n, refunding_minor: 0n };
const wordOf = (decided: ReturnType<typeof decideRefund>) =>
  isRefusal(decided) ? `${decided.refused} ${decided.field ?? ""}`.trim() : decided;

test("decide_refund: what remains, no more than that, and only of a success", () => {
  assert.equal(decideRefund(PAYMENT, undefined), 1000n);
  assert.equal(decideRefund(PAYMENT, 400n), 400n);
  const partly = { ...PAYMENT, refunded_minor: 300n, refunding_minor: 200n };
  assert.equal(decideRefund(partly, undefined), 500n);
  assert.equal(decideRefund(partly, 500n), 500n);
  assert.equal(wordOf(decideRefund(partly, 501n)), "invalid_request amount_minor");
  assert.equal(wordOf(decideRefund({ ...PAYMENT, refunding_minor: 1000n }, 1n)), "precondition_failed");
  assert.equal(wordOf(decideRefund(undefined, 1n)), "invalid_request payment_id");
  for (const status of ["initiated", "pending", "failed", "cancelled"] as const) {
    assert.equal(wordOf(decideRefund({ ...PAYMENT, status }, 1001n)), "precondition_failed");
  }
  const whole = { ...PAYMENT, status: "refunded", refunded_minor: 1000n } as const;
  assert.equal(wordOf(decideRefund(whole, undefined)), "precondition_failed");
});

test("decide_refund: whatever is wanted one after the other, the sum never exceeds the payment", () => {
  const wanted = fc.array(fc.option(fc.bigInt({ min: 1n, max: 1200n }), { nil: undefined }), { maxLength: 8 });
  fc.assert(
    fc.property(wanted, (all) => {
      let payment = PAYMENT;
      for (const one of all) {
        const decided = decideRefund(payment, one);
        if (isRefusal(decided)) continue;
        payment = { ...payment, refunding_minor: payment.refunding_minor + decided };
      }
      assert.ok(payment.refunding_minor <= payment.amount_minor);
    }),
  );
});
