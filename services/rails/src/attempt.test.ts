import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { pathsOf } from "@cauri/money/moves";
import {
  type AttemptState,
  attemptMoves,
  isFinal,
  outgoingMoves,
  type Placed,
  planCollect,
  pollDelay_s,
  type RailAnswer,
  stepOf,
} from "./attempt.ts";

const STATES = Object.keys(attemptMoves) as AttemptState[];

const at = (state: AttemptState, kind: Placed["kind"] = "collection"): Placed => ({
  kind,
  state,
  amount_minor: 1500n,
  currency: "XOF",
  odd_amount_minor: null,
  odd_currency: null,
});
const paid: RailAnswer = { outcome: "success", amount_minor: 1500n, currency: "XOF" };
const to = (state: AttemptState, answer: RailAnswer, source: "call" | "callback" | "ask") =>
  stepOf(at(state), answer, source)?.to ?? null;

test("attempt: the states of the table are those of the CHECK", () => {
  const sql = readFileSync(join(import.meta.dirname, "../migrations/0003_kinds.sql"), "utf8");
  const check = /attempts_state\s+check \(state in\s+\(([^)]*)\)\)/.exec(sql)?.[1] ?? "";
  assert.deepEqual(new Set(check.match(/\w+/g)), new Set([...STATES, ...Object.keys(outgoingMoves)]));
});

test("attempt: on every path success is last, is reached once, and each told move has an event", () => {
  let paths = 0;
  for (const path of pathsOf(attemptMoves, "ready")) {
    paths += 1;
    const successes = path.findIndex((step) => step.to === "success");
    assert.ok(successes === -1 || successes === path.length - 1);
    for (const step of path) {
      const told = ["pending", "success", "failed", "cancelled"].includes(step.to);
      assert.equal(step.event, told ? `collection.${step.to}` : null);
    }
  }
  assert.ok(paths > 20);
});

test("attempt: money that comes is taken in every state but success", () => {
  for (const state of STATES) assert.equal(to(state, paid, "callback"), state === "success" ? null : "success");
});

test("attempt: only the call itself can say that nothing is out, and only while it is under way", () => {
  for (const outcome of ["refused", "unavailable"] as const) {
    assert.equal(to("sending", { outcome }, "call"), "ready");
    assert.equal(to("pending", { outcome }, "call"), null);
    for (const state of STATES) assert.equal(to(state, { outcome }, "ask"), null);
  }
});

test("attempt: no answer, and a rail that knows nothing, is never a failure", () => {
  for (const state of STATES) {
    for (const outcome of ["unknown", "not_found"] as const) {
      const next = to(state, { outcome }, "ask");
      assert.equal(next, null);
    }
  }
  assert.equal(to("sending", { outcome: "unknown" }, "call"), "unknown");
});

test("attempt: older, repeated and contradictory news changes nothing", () => {
  assert.equal(to("success", { outcome: "pending" }, "call"), null);
  assert.equal(to("success", { outcome: "failed", failure_code: "unknown" }, "callback"), null);
  assert.equal(to("failed", { outcome: "pending" }, "ask"), null);
  assert.equal(to("failed", { outcome: "failed", failure_code: "expired" }, "ask"), null);
  assert.equal(to("cancelled", { outcome: "failed", failure_code: "expired" }, "callback"), null);
});

test("attempt: a success over another amount or currency is told once and moves nothing", () => {
  const odd: RailAnswer = { outcome: "success", amount_minor: 1499n, currency: "XOF" };
  assert.deepEqual(stepOf(at("pending"), odd, "ask"), { to: "pending", event: "collection.success", odd: true });
  const told: Placed = { ...at("pending"), odd_amount_minor: 1499n, odd_currency: "XOF" };
  assert.equal(stepOf(told, odd, "ask"), null);
  const other: RailAnswer = { ...odd, amount_minor: 1500n, currency: "GHS" };
  assert.equal(stepOf(told, other, "callback")?.odd, true);
  assert.equal(stepOf(told, paid, "callback")?.to, "success", "the right one still counts");
});

test("collect plan: sent only when nothing is out, asked first after a crash", () => {
  const plans = STATES.map((state) => [
    state,
    planCollect({ state, leased: true }),
    planCollect({ state, leased: false }),
  ]);
  assert.deepEqual(plans, [
    ["ready", "send", "send"],
    ["sending", "wait", "ask"],
    ["unknown", "wait", "ask"],
    ["pending", "answer", "answer"],
    ["success", "answer", "answer"],
    ["failed", "answer", "answer"],
    ["cancelled", "answer", "answer"],
  ]);
});

test("polls: the pauses grow to five minutes; an unknown outcome is asked for first after a second", () => {
  assert.equal(pollDelay_s("unknown", 0), 1);
  assert.equal(pollDelay_s("pending", 0), 5);
  for (const state of STATES.filter((each) => !isFinal(each))) {
    const pauses = Array.from({ length: 20 }, (_, polls) => pollDelay_s(state, polls));
    assert.deepEqual(
      pauses,
      [...pauses].sort((a, b) => a - b),
    );
    assert.equal(pauses.at(-1), 300);
  }
});

test("attempt: a call that was taken for lost and answers after all is believed, also when it may be sent again", () => {
  assert.equal(to("ready", { outcome: "pending" }, "call"), "pending");
});

test("attempt: what goes out has failed, or come back, only by the rail's answer to our question", () => {
  const failed: RailAnswer = { outcome: "failed", failure_code: "payee_not_found" };
  const returned: RailAnswer = { outcome: "returned", amount_minor: 1500n, currency: "XOF" };
  const step = (state: AttemptState, answer: RailAnswer, source: "call" | "callback" | "ask") =>
    stepOf(at(state, "payout"), answer, source);
  for (const source of ["call", "callback"] as const) {
    for (const state of ["sending", "unknown", "pending", "success"] as const) {
      const answers: RailAnswer[] = [failed, returned, { outcome: "cancelled" }];
      for (const answer of answers) {
        assert.equal(step(state, answer, source), null);
      }
    }
  }
  assert.deepEqual(step("pending", failed, "ask"), { to: "failed", event: "payout.failed", odd: false });
  assert.deepEqual(step("pending", { outcome: "cancelled" }, "ask")?.to, "failed");
  assert.deepEqual(step("success", failed, "ask"), { to: "returned", event: "payout.returned", odd: false });
  assert.deepEqual(step("success", returned, "ask")?.to, "returned");
  assert.equal(step("pending", returned, "ask"), null, "its success is told first");
  assert.deepEqual(step("withheld", paid, "callback")?.event, "payout.success", "money that left all the same is told");
});
