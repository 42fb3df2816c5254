import assert from "node:assert/strict";
import { test } from "node:test";
import { readMessages } from "./bench-wire.ts";

const created = "HTTP/1.1 201 Created\r\nContent-Length: 5\r\n\r\nhello";
const empty = "HTTP/1.1 204 No Content\r\nX: y\r\n\r\n";

test("bench wire: messages are told apart wherever the chunks end", () => {
  const bytes = Buffer.from(created + empty + created);
  for (let size = 1; size <= bytes.length; size += 1) {
    const heard: string[] = [];
    const read = readMessages((head) => heard.push(head.slice(9, 12)));
    for (let at = 0; at < bytes.length; at += size) read(bytes.subarray(at, at + size));
    assert.deepEqual(heard, ["201", "204", "201"]);
  }
});

test("bench wire: a message waits for its whole body, and one without a length is refused", () => {
  const heard: string[] = [];
  const read = readMessages((head) => heard.push(head));
  read(Buffer.from(created.slice(0, -1)));
  assert.equal(heard.length, 0);
  read(Buffer.from("o"));
  assert.equal(heard.length, 1);
  assert.throws(() => read(Buffer.from("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")), /without a length/);
});
