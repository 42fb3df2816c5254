import assert from "node:assert/strict";
import { test } from "node:test";
import { createBehind, readCursor, writeCursor } from "./listen-cursor.ts";

const FIRST = "evt_01KAE8QK8Q5V6ZJ9T2N4B7C1XW";
const SECOND = "evt_01KAE8QK8Q5V6ZJ9T2N4B7C1XX";

test("cursor: it is read as it was written, with and without an event", () => {
  for (const cursor of [
    { time_ns: 1_763_725_680_123_456_789n, event_id: FIRST },
    { time_ns: 0n, event_id: null },
  ]) {
    assert.deepEqual(readCursor(writeCursor(cursor)), cursor);
  }
});

test("cursor: of events of the same instant, those up to its own were got and those after it were not", () => {
  const isBehind = createBehind({ time_ns: 5n, event_id: FIRST });
  const seen = [
    { time_ns: 5n, event_id: "evt_before" },
    { time_ns: 5n, event_id: FIRST },
    { time_ns: 5n, event_id: SECOND },
    { time_ns: 6n, event_id: "evt_later" },
  ].map(isBehind);
  assert.deepEqual(seen, [false, false, true, true]);
});

test("cursor: where its event is no more, what came later is behind it", () => {
  const isBehind = createBehind({ time_ns: 5n, event_id: FIRST });
  assert.equal(isBehind({ time_ns: 7n, event_id: SECOND }), true);
  const fresh = createBehind({ time_ns: 5n, event_id: null });
  assert.deepEqual(
    [5n, 6n].map((time_ns) => fresh({ time_ns, event_id: SECOND })),
    [false, true],
  );
});
