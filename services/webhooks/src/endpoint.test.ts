import assert from "node:assert/strict";
import { test } from "node:test";
import { isRefusal } from "@cauri/money/refusal";
import { checkEvents, checkUrl, isDelivered, nextAttemptAfter, tally } from "./endpoint.ts";

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

test("tally: per endpoint what counter and suspension depend on, in the order of the endpoints", () => {
  const ended = (outcomes: string, of = 1n) => [...outcomes].map((one) => ({ of, delivered: one === "+" }));
  const none = { of: 1n, succeeded: false, failed: false, failures: 0 };
  assert.deepEqual(tally(ended("---")), [{ ...none, failed: true, failures: 3 }]);
  assert.deepEqual(tally(ended("+++")), [{ ...none, succeeded: true }]);
  assert.deepEqual(tally(ended("--+-")), [{ ...none, succeeded: true, failed: true, failures: 1 }]);
  assert.deepEqual(tally(ended("--+")), [{ ...none, succeeded: true, failed: true, failures: 0 }]);
  assert.deepEqual(
    tally([...ended("-", 10n), ...ended("+", 9n), ...ended("-", 10n)]).map(({ of, failures }) => [of, failures]),
    [
      [9n, 0],
      [10n, 2],
    ],
  );
});

test("next_attempt_after: five attempts in all", () => {
  const ladder = [60, 300, 1800, 7200];
  assert.deepEqual(
    [1, 2, 3, 4, 5].map((made) => nextAttemptAfter(made, ladder)),
    [60_000, 300_000, 1_800_000, 7_200_000, null],
  );
});
