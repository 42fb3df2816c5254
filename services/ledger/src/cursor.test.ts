import assert from "node:assert/strict";
import { test } from "node:test";
import { isRefusal } from "@cauri/money/refusal";
import { type Cursor, readCursor, writeCursor } from "./cursor.ts";

const cursor: Cursor = {
  place: { at: "2026-01-05 10:00:00.000001+00", recorded_at: "2026-01-05 10:00:00+00", position: 3 },
  after: { debits_pending: -1n, debits_posted: 2n ** 62n, credits_pending: 0n, credits_posted: 9n },
};

test("cursor: comes back as it went, and none is none", () => {
  assert.deepEqual(readCursor(["entries", 7n], writeCursor(["entries", 7n], cursor)), cursor);
  assert.equal(readCursor(["entries", 7n], undefined), null);
});

test("cursor: with a time that no calendar has or a place beyond every batch, it is refused as well", () => {
  const at = ["2026-13-05 10:00:00+00", "2026-02-31 10:00:00+00", "2026-01-05 24:00:00+00", "0000-01-05 10:00:00+00"];
  const forged = [
    ...at.map((time) => ({ ...cursor, place: { ...cursor.place, at: time } })),
    { ...cursor, place: { ...cursor.place, recorded_at: "2026-01-05 10:00:00+99" } },
    { ...cursor, place: { ...cursor.place, position: 2 ** 31 } },
  ];
  for (const one of forged) {
    const read = readCursor(["entries", 7n], writeCursor(["entries", 7n], one));
    assert.ok(isRefusal(read) && read.field === "cursor", JSON.stringify(one.place));
  }
});

test("cursor: of another list, or made up, it is refused by name", () => {
  const others = [
    writeCursor(["entries", 8n], cursor),
    "x",
    "e30",
    Buffer.from('["entries 7",1,2]').toString("base64url"),
  ];
  for (const text of others) {
    const read = readCursor(["entries", 7n], text);
    assert.ok(isRefusal(read) && read.field === "cursor", text);
  }
});
