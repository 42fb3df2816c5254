// Stopping: what runs is finished, also on lines that stay open, and nothing waits for idle ones.

import assert from "node:assert/strict";
import { Agent, request } from "node:http";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { openDoor, paymentOf } from "./testing.ts";

test("drain: a running request is answered, and an open line does not hold the process", async (t) => {
  const begun = Promise.withResolvers<void>();
  const door = await openDoor(t, {
    payments: {
      getPayment: async () => {
        begun.resolve();
        await sleep(300);
        return paymentOf();
      },
    },
  });
  const agent = new Agent({ keepAlive: true });
  t.after(() => agent.destroy());
  const answered = new Promise<number | undefined>((resolve, reject) => {
    const headers = { "x-api-key": door.key() };
    const sent = request(`${door.base_url}/v1/payments/x`, { agent, headers }, (response) => {
      response.resume().on("end", () => resolve(response.statusCode));
    });
    sent.on("error", reject).end();
  });
  await begun.promise;
  const closed = door.app.close();
  assert.equal(await answered, 200);
  // Were the line that stays open waited for, this test would not end in time.
  await closed;
  await assert.rejects(door.send({ path: "/healthz" }), { code: "ECONNREFUSED" });
});
