// 300 requests of one key in any 60 seconds, not one more; what is refused doesn't count, another key is not touched.

import assert from "node:assert/strict";
import { test } from "node:test";
import { call, merchant } from "./house.ts";

test("rate limit: of 400 at once exactly 300 pass, and the 301st says when to come back", async () => {
  const at = await merchant("Limit");
  const answers = await Promise.all(Array.from({ length: 400 }, () => at.test.get("/v1/assets?per_page=1")));
  const passed = answers.filter(({ status }) => status === 200);
  const refused = answers.filter(({ status }) => status === 429);
  assert.deepEqual([passed.length, refused.length], [300, 100]);
  const next = await at.test.get("/v1/assets");
  assert.deepEqual([next.status, next.body.error.code], [429, "rate_limited"]);
  const wait = Number(next.headers.get("retry-after"));
  assert.ok(Number.isInteger(wait) && wait >= 1 && wait <= 60, `Retry-After ${wait}`);
  assert.equal(next.headers.get("ratelimit"), `"default";r=0;t=${wait}`);
  assert.equal(next.headers.get("ratelimit-policy"), '"default";q=300;w=60');
  assert.equal((await call(at.test.key, "GET", "/v1/nonsense")).status, 429, "the limit comes before the path");
  const other = await at.key("test");
  assert.equal((await other.get("/v1/assets")).status, 200);
});
