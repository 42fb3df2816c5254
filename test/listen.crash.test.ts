// A developer's session over kills of what it hangs on: the gateway, webhooks, nats-server. Every event comes, each once.

import assert from "node:assert/strict";
import { test } from "node:test";
import { call, eventually, merchant, paymentBody } from "./house.ts";
import { sigkill, startedAgain } from "./kills.ts";
import { startListener, startLocalServer } from "./listener.ts";

/** Each breaks the line at another place: to the client, to the service, to the stream of events. */
const KILLED = ["gateway", "webhooks", "nats", "gateway"];

test(`listen: over kills of ${KILLED.join(", ")} every event is printed and forwarded once`, {
  timeout: 240_000,
}, async () => {
  const at = await merchant("Listen");
  const server = await startLocalServer();
  const listener = await startListener(["--key", at.test.key, "--forward-to", server.url]);
  const made: string[] = [];
  const pay = async () => {
    const ref = `listen-${made.length}`;
    const answer = await eventually(
      `payment ${ref}`,
      () =>
        call(at.test.key, "POST", "/v1/payments", {
          body: paymentBody("01"),
          headers: { "idempotency-key": ref },
        }).catch(() => null),
      (tried) => tried?.status === 201,
      60_000,
    );
    made.push(answer?.body.id);
  };
  try {
    for (const name of KILLED) {
      await pay();
      // In the middle of things: what this payment tells may be on its way to the listener.
      await Promise.all([startedAgain(name, sigkill(name)), pay()]);
      await pay();
    }
    for (const id of made) await listener.prints(id, ["payment.initiated", "payment.success"], 60_000);
    const ids = listener.printed.map(({ event_id }) => event_id);
    assert.equal(new Set(ids).size, ids.length, "an event was told twice");
    assert.equal(ids.length, made.length * 2);
    assert.deepEqual(server.taken.map(({ headers }) => headers["x-service-delivery"]).toSorted(), ids.toSorted());
    assert.match(listener.errors(), /The line is lost .*\nConnected again\.\n/);
  } finally {
    assert.equal(await listener.stop(), 0);
    server.close();
  }
});
