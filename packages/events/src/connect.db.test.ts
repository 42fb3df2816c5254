import assert from "node:assert/strict";
import { test } from "node:test";
import { logger } from "@cauri/rpc/log";
import { openEvents } from "./events.ts";
import { testNats } from "./testing.ts";

test("events: a start without NATS says that it waits, and goes on when it is there", async (t) => {
  const nats = await testNats();
  t.after(() => nats.close());
  await nats.kill();
  const { promise: said, resolve: say } = Promise.withResolvers<string>();
  const opening = openEvents({ nats_url: nats.url, room: "test", log: logger("test", "warn", { write: say }) });
  const line = JSON.parse(await said) as { level: string; msg: string };
  assert.equal(line.level, "warn");
  assert.match(line.msg, /^NATS cannot be reached.*: the start waits for it$/);

  await nats.start();
  const events = await opening;
  assert.deepEqual(events.notices(), []);
  assert.equal(await events.lastSeq(), 0, "its stream is made");
  await events.close();
});
