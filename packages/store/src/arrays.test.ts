import assert from "node:assert/strict";
import { test } from "node:test";
import { pgBoolArray, pgBytesArray, pgNumArray, pgTextArray, pgTimeArray } from "./arrays.ts";

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
