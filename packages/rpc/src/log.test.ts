import assert from "node:assert/strict";
import { openSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { describeError, gathering, logger, standardOutput, timeField } from "./log.ts";

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

test("log: the time of a line is the one of ISO 8601, whatever second came before", () => {
  for (const now of [0, 999, 1_000, 1_763_769_599_007, 1_763_769_599_999, 1_763_769_600_000, 42, 951_782_400_050]) {
    assert.equal(timeField(now), `,"time":"${new Date(now).toISOString()}"`);
  }
});

test("log: usual lines gather, a loud one takes them all out at once", () => {
  const out: string[] = [];
  let held: string[] = [];
  const sink = {
    write: (line: string) => held.push(line) > 0,
    flush: () => {
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

test("log: an output that takes nothing, as on a full disk, stops nobody who writes a line, and is told of", () => {
  const heard: string[] = [];
  // What stands behind the number is open for reading alone.
  const nowhere = openSync(import.meta.filename, "r");
  const log = logger(
    "test",
    "info",
    standardOutput((line) => heard.push(line), nowhere),
  );
  log.warn("loud");
  const told = heard.map((line) => JSON.parse(line));
  assert.deepEqual([told[0].msg, told[0].err.code], ["the log cannot be written", "EBADF"]);
  assert.equal(told.at(-1).msg, "loud");
});

test("log: a loud line and all before it are in the file when the call returns", () => {
  const file = join(tmpdir(), `cauri-log-${process.pid}.log`);
  const fd = openSync(file, "w");
  const log = logger("test", "info", standardOutput(undefined, fd));
  for (let at = 0; at < 300; at += 1) log.info({ at, text: "x".repeat(100) }, "usual");
  log.warn("loud");
  const lines = readFileSync(file, "utf8").trimEnd().split("\n");
  rmSync(file);
  assert.equal(lines.length, 301);
  assert.equal(JSON.parse(lines.at(-1) ?? "").msg, "loud");
});

test("log: what may not be written is cut out, wherever it stands, and what was given stays as it was", () => {
  const { written, log } = lines();
  const payer = { phone: "+2250700000000", name: "Awa", country: "CI" };
  const fields = { secret: "s3cret", payer, key_id: "key_1", deep: { tries: [{ at: 1 }, { at: 2, payer }] } };
  const given = structuredClone(fields);
  log.info(fields, "x");
  assert.deepEqual(fields, given);
  const { level: _level, time: _time, room: _room, ...line } = JSON.parse(written[0] ?? "");
  const cut = { phone: "[cut]", name: "[cut]", country: "CI" };
  assert.deepEqual(line, {
    secret: "[cut]",
    payer: cut,
    key_id: "key_1",
    deep: { tries: [{ at: 1 }, { at: 2, payer: cut }] },
    msg: "x",
  });
});

test("log: what a child carries is cut as well, and what is nested deeper than anything of ours goes whole", () => {
  const { written, log } = lines();
  log
    .child({ token: "s3cret", request: "req-1" })
    .child({ payer: { email: "awa@example.com" } })
    .info("x");
  let nested: object = { iban: "CI93" };
  for (let level = 0; level < 10; level += 1) nested = { nested, list: [nested] };
  log.info({ nested }, "y");
  assert.ok(!/s3cret|awa@|CI93/.test(written.join("")), written.join(""));
  assert.ok(written[0]?.includes("req-1"));
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
