import assert from "node:assert/strict";
import { test } from "node:test";
import { pgBigints, pgBoolArray, pgBytesArray, pgNumArray, pgTextArray, pgTimeArray } from "./arrays.ts";

test("pg_text_array: quotes every text and escapes what ends one", () => {
  assert.equal(pgTextArray([]), "{}");
  assert.equal(pgTextArray(["a", "", null, "NULL"]), '{"a","",NULL,"NULL"}');
  assert.equal(pgTextArray(['a"b', "c\\d", "{e,f}"]), '{"a\\"b","c\\\\d","{e,f}"}');
});

test("pg_num_array, pg_bool_array, pg_time_array, pg_bytes_array: the literals of PostgreSQL", () => {
  assert.equal(pgNumArray([1n, 2, null, -9_223_372_036_854_775_808n]), "{1,2,NULL,-9223372036854775808}");
  assert.equal(pgBoolArray([true, false, null]), "{t,f,NULL}");
  assert.equal(pgTimeArray([new Date(0), null]), '{"1970-01-01T00:00:00.000Z",NULL}');
  assert.equal(pgBytesArray([Uint8Array.of(0, 255), null, new Uint8Array()]), '{"\\\\x00ff",NULL,"\\\\x"}');
});

test("pg_bigints: the binary format, refused where 64 bits are too few", () => {
  assert.equal(
    pgBigints([1, -1n]).toString("hex"),
    [
      "00000001",
      "00000000",
      "00000014",
      "00000002",
      "00000001",
      "00000008",
      "0000000000000001",
      "00000008",
      "f".repeat(16),
    ].join(""),
  );
  assert.throws(() => pgBigints([2n ** 63n]), RangeError);
});
