import assert from "node:assert/strict";
import { test } from "node:test";
import { placeOf } from "./events.ts";

test("place_of: credentials are taken out of the URLs, a name alone is a token", () => {
  assert.deepEqual(placeOf("nats://127.0.0.1:4222"), { servers: ["nats://127.0.0.1:4222"] });
  assert.deepEqual(placeOf("nats://cauri:p%40ss@a:1, nats://cauri:p%40ss@b:2"), {
    servers: ["nats://a:1", "nats://b:2"],
    user: "cauri",
    pass: "p@ss",
  });
  assert.deepEqual(placeOf("tls://secret@a:1"), { servers: ["tls://a:1"], token: "secret" });
});
