import assert from "node:assert/strict";
import { test } from "node:test";
import { rowsOf } from "./rows.ts";

test("rows_of: the first array leads, the others are read at its place", () => {
  assert.equal(
    rowsOf("id text, n bigint,\n  at timestamptz", 3),
    "(select r.lead as id, ($4::bigint[])[r.ord] as n, ($5::timestamptz[])[r.ord] as at, r.ord " +
      "from unnest($3::text[]) with ordinality as r (lead, ord))",
  );
});
