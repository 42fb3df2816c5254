import assert from "node:assert/strict";
import { connect } from "node:net";
import { test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import { openDoor, paymentOf } from "./testing.ts";

const BODY = { amount_minor: 1500, asset_id: "ast_xof", platform_id: "plt_mtn_ci" };

test("body: whole at once, piece by piece, in chunks and behind another one, each is taken as it was sent", async (t) => {
  const seen: string[] = [];
  const door = await openDoor(t, {
    payments: {
      createPayment: async ({ clientRef }) => {
        seen.push(clientRef ?? "");
        return paymentOf();
      },
    },
  });
  const key = door.key();
  const head = (length: string) =>
    `POST /v1/payments HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${key}\r\nContent-Type: application/json\r\n${length}\r\n\r\n`;
  const body = (client_ref: string) => JSON.stringify({ ...BODY, client_ref });
  const whole = (name: string) => head(`Content-Length: ${body(name).length}`) + body(name);
  const { hostname, port } = new URL(door.base_url);
  const socket = connect(Number(port), hostname).setNoDelay();
  let heard = "";
  let onHeard = () => {};
  socket.on("data", (chunk) => {
    heard += chunk.toString("latin1");
    onHeard();
  });
  const answers = (count: number) =>
    new Promise<void>((resolve) => {
      // Of whatever status: what was asked next depends on none, and all are looked at below.
      onHeard = () => (heard.match(/HTTP\/1\.1 \d/g)?.length ?? 0) >= count && resolve();
      onHeard();
    });
  socket.write(whole("at-once"));
  await answers(1);
  for (const letter of whole("piece-by-piece")) {
    socket.write(letter);
    await turn();
  }
  await answers(2);
  const chunked = body("in-chunks");
  socket.write(`${head("Transfer-Encoding: chunked")}${chunked.length.toString(16)}\r\n${chunked}\r\n0\r\n\r\n`);
  await answers(3);
  socket.write(whole("first-of-two") + whole("second-of-two"));
  await answers(5);
  socket.destroy();
  assert.equal(heard.match(/HTTP\/1\.1 201/g)?.length, 5, heard);
  assert.deepEqual(seen, ["at-once", "piece-by-piece", "in-chunks", "first-of-two", "second-of-two"]);
});
