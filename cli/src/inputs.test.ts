import assert from "node:assert/strict";
import { test } from "node:test";
import { InvalidArgumentError } from "commander";
import {
  parseDuration,
  parseInstant,
  parseMinor,
  parseOnOff,
  parseSeconds,
  parseSwitch,
  parseWords,
} from "./inputs.ts";

const refuses = (parse: (text: string) => unknown, ...texts: string[]) => {
  for (const text of texts) assert.throws(() => parse(text), InvalidArgumentError, JSON.stringify(text));
};

test("parse_duration: every unit, and nothing without one", () => {
  assert.equal(parseDuration("500ms"), 500);
  assert.equal(parseDuration("90s"), 90_000);
  assert.equal(parseDuration("24h"), 86_400_000);
  assert.equal(parseDuration("31d"), 2_678_400_000);
  assert.equal(parseDuration("2w"), 1_209_600_000);
  refuses(parseDuration, "", "5", "1.5h", "-1s", "1 h", "h", "999999999999w");
});

test("parse_seconds: whole seconds", () => {
  assert.equal(parseSeconds("24h"), 86_400);
  assert.equal(parseSeconds("0s"), 0);
  refuses(parseSeconds, "500ms");
});

test("parse_minor: digits up to 2^53-1", () => {
  assert.equal(parseMinor("9007199254740991"), 9_007_199_254_740_991n);
  refuses(parseMinor, "9007199254740992", "10.50", "1e3", "-1", "", "1_000");
});

test("parse_switch: collects repeated options in their order", () => {
  const first = parseSwitch("instant_payment=on");
  assert.deepEqual(parseSwitch("tontine=off", first), [
    { name: "instant_payment", on: true },
    { name: "tontine", on: false },
  ]);
  refuses(parseSwitch, "tontine", "tontine=yes", "=on");
});

test("parse_on_off and parse_words: nothing half said", () => {
  assert.equal(parseOnOff("off"), false);
  refuses(parseOnOff, "yes", "");
  assert.deepEqual(parseWords("can_payout, can_refund"), ["can_payout", "can_refund"]);
  refuses(parseWords, "can_payout,,can_refund", "");
});

test("instant: an RFC 3339 time or a day, and nothing else", () => {
  assert.equal(parseInstant("2026-11-20").seconds, BigInt(Date.UTC(2026, 10, 20) / 1000));
  assert.equal(parseInstant("2026-11-20T01:00:00.5+01:00").nanos, 500_000_000);
  refuses(parseInstant, "", "yesterday", "2026-02-30", "2026-11-20 18:00", "1763640000");
});
