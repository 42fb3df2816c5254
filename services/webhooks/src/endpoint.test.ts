import assert from "node:assert/strict";
import { test } from "node:test";
import { isRefusal } from "@cauri/money/refusal";
import {
  afterAttempt,
  checkEvents,
  checkUrl,
  type Health,
  isDelivered,
  nextAttemptAfter,
  SUSPEND_AFTER,
} from "./endpoint.ts";

const HOUR_MS = 3_600_000;
const fresh: Health = { consecutive_failures: 0, suspended_until: null };
const at = (ms: number) => new Date(Date.UTC(2026, 10, 21) + ms);

test("check_url: taken in its normal form", () => {
  assert.equal(checkUrl("HTTPS://Shop.Example.com:443/a/../hook?x=1"), "https://shop.example.com/hook?x=1");
  assert.equal(checkUrl("https://0x7f.1/"), "https://127.0.0.1/");
});

for (const url of [
  "",
  "shop",
  "http://a.example",
  "ftp://a.example",
  "https://u@a.example",
  "https://u:p@a.example",
  "https://a.example/#x",
  "https://",
])
  test(`check_url: ${JSON.stringify(url)} is refused, naming url`, () => {
    const checked = checkUrl(url);
    assert.ok(isRefusal(checked) && checked.field === "url");
  });

test("check_events: names of the catalogue, each once; another is refused with its place", () => {
  assert.deepEqual(checkEvents(["payment.success", "subscription.*", "payment.success"]), [
    "payment.success",
    "subscription.*",
  ]);
  const refused = checkEvents(["payment.success", "transfer.success"]);
  assert.ok(isRefusal(refused) && refused.field === "subscribed_events.1");
});

test("is_delivered: wildcards and test events are no events of the house", () => {
  assert.deepEqual(["payment.success", "subscription.*", "payment.test", "transfer.success"].map(isDelivered), [
    true,
    false,
    false,
    false,
  ]);
});

test("after_attempt: the 20th failure in a row suspends for the time, a success clears at once", () => {
  let health = fresh;
  for (let n = 1; n < SUSPEND_AFTER; n += 1) health = afterAttempt(health, false, at(n), HOUR_MS);
  assert.deepEqual(health, { consecutive_failures: 19, suspended_until: null });
  health = afterAttempt(health, false, at(100), HOUR_MS);
  assert.deepEqual(health, { consecutive_failures: 20, suspended_until: at(100 + HOUR_MS) });
  const late = afterAttempt(health, false, at(200), HOUR_MS);
  assert.deepEqual(late, { consecutive_failures: 21, suspended_until: at(100 + HOUR_MS) });
  const probed = afterAttempt(health, false, at(100 + HOUR_MS), HOUR_MS);
  assert.deepEqual(probed.suspended_until, at(100 + 2 * HOUR_MS));
  assert.deepEqual(afterAttempt(probed, true, at(0), HOUR_MS), fresh);
});

test("next_attempt_after: five attempts in all", () => {
  const ladder = [60, 300, 1800, 7200];
  assert.deepEqual(
    [1, 2, 3, 4, 5].map((made) => nextAttemptAfter(made, ladder)),
    [60_000, 300_000, 1_800_000, 7_200_000, null],
  );
});
