import assert from "node:assert/strict";
import { test } from "node:test";
import { facts, table } from "./print.ts";

test("table: texts to the left, numbers to the right, nothing as a dash", () => {
  const rows = [
    { id: "a", n: 5, on: true, note: null },
    { id: "long", n: 1200, on: false, note: "x" },
  ];
  const text = table(
    rows,
    [
      ["ID", (row) => row.id],
      ["N", (row) => row.n],
      ["ON", (row) => row.on],
      ["NOTE", (row) => row.note],
    ],
    "none",
  );
  assert.equal(text, ["ID       N  ON   NOTE", "a        5  yes  -", "long  1200  no   x"].join("\n"));
  assert.equal(table([], [], "none"), "none");
});

test("facts: a control character never reaches the terminal", () => {
  assert.equal(facts([["name", "a\u001b[31mb"]]), "name  a?[31mb");
});
