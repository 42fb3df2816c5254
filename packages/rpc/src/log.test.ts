import assert from "node:assert/strict";
import { test } from "node:test";
import { describeError, gathering, logger } from "./log.ts";

function lines() {
  const written: string[] = [];
  return { written, log: logger("test", "info", { write: (line: string) => void written.push(line) }) };
}

test("log: one JSON object a line, with its room and time", () => {
  const { written, log } = lines();
  log.info({ request: "req-1" }, "rpc");
  const line = JSON.parse(written[0] ?? "");
  assert.deepEqual([line.level, line.room, line.request, line.msg], ["info", "test", "req-1", "rpc"]);
  assert.match(line.time, /^\d{4}-.*Z$/);
});

test("log: usual lines gather, a loud one takes them all out at once", () => {
  const out: string[] = [];
  let held: string[] = [];
  const sink = {
    write: (line: string) => held.push(line) > 0,
    flushSync: () => {
      out.push(...held);
      held = [];
    },
  };
  const log = logger("test", "info", gathering(sink));
  log.info("one");
  log.info("two");
  assert.deepEqual(out, []);
  log.warn("three");
  assert.deepEqual(
    out.map((line) => JSON.parse(line).msg),
    ["one", "two", "three"],
  );
});

test("log: what may not be written is cut out, also one level down", () => {
  const { written, log } = lines();
  log.info({ secret: "s3cret", payer: { phone: "+2250700000000", name: "Awa" }, key_id: "key_1" }, "x");
  assert.ok(!/s3cret|\+225|Awa/.test(written.join("")));
  assert.ok(written.join("").includes("key_1"));
});

test("log: an error keeps message, code and causes, and loses what drivers hang on it", () => {
  const cause = Object.assign(new Error("connect postgres://user:hunter2@host/db failed"), {
    code: "ECONNREFUSED",
    detail: "Key (phone)=(+2250700000000) already exists",
  });
  const text = JSON.stringify(describeError(new Error("no connection", { cause })));
  assert.ok(text.includes("ECONNREFUSED") && text.includes("no connection") && text.includes("    at "));
  assert.ok(!text.includes("hunter2") && !text.includes("+225"));
});
