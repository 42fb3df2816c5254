// `cauri listen` and `cauri trigger` as a developer uses them, before the house as it runs.

import assert from "node:assert/strict";
import { test } from "node:test";
import { verifyStandardWebhook, verifyWebhook } from "@cauri/webhook-verifier";
import { cauri, type Merchant, merchant, paymentBody } from "./house.ts";
import { type Listener, startListener, startLocalServer } from "./listener.ts";

/** The catalogue as far as the house can make it happen and tells it to listeners, by what else the operation tells. */
const EVENTS: readonly (readonly [event: string, status: string, also: readonly string[]])[] = [
  ["payment.initiated", "pending", ["payment.pending"]],
  ["payment.pending", "pending", ["payment.initiated"]],
  ["payment.success", "success", ["payment.initiated", "payment.pending"]],
  ["payment.failed", "failed", ["payment.initiated"]],
  ["payout.success", "success", []],
  ["payout.failed", "failed", []],
  ["refund.success", "success", []],
  ["refund.failed", "failed", []],
  ["payout.refunded", "refunded", ["payout.success"]],
  ["payout.cancelled", "cancelled", []],
];

/** Runs with a listener of its own, which is stopped whatever happens. */
async function listening(args: readonly string[], run: (listener: Listener) => Promise<void>): Promise<void> {
  const listener = await startListener(args);
  try {
    await run(listener);
    assert.equal(listener.errors(), "");
  } finally {
    assert.equal(await listener.stop(), 0);
  }
}

async function trigger(at: Merchant, event: string, ...more: string[]) {
  const { code, stdout, stderr } = await cauri(["trigger", event, "--key", at.test.key, "--json", ...more]);
  assert.equal(code, 0, `${event}: ${stderr}`);
  return JSON.parse(stdout);
}

test("listen: a payment's events are printed and forwarded as they happen, signed with the secret that was told", async () => {
  const at = await merchant("Listen");
  const other = await merchant("Elsewhere");
  const server = await startLocalServer();
  try {
    await listening(["--key", at.test.key, "--forward-to", server.url], async (listener) => {
      await other.test.post("/v1/payments", paymentBody("01"));
      const payment = await trigger(at, "payment.success", "--client-ref", "order-1042");
      assert.deepEqual([payment.status, payment.client_ref, payment.is_test], ["success", "order-1042", true]);
      const printed = await listener.prints(payment.id, ["payment.success"]);
      const names = ["payment.initiated", "payment.pending", "payment.success"];
      assert.deepEqual(
        printed.map(({ event, forwarded }) => [event, forwarded?.status_code, forwarded?.error]),
        names.map((name) => [name, 204, null]),
      );
      assert.equal(listener.printed.length, 3, "another account's events are nobody's here");
      assert.equal(server.taken.length, 3);
      for (const [n, { headers, raw }] of server.taken.entries()) {
        const verdict = await verifyWebhook(raw, headers, listener.secret);
        assert.ok(verdict.verified && verdict.isTest, JSON.stringify(verdict));
        assert.deepEqual(
          [verdict.event.event, verdict.event.data.id, verdict.event.data.merchant_reference],
          [names[n], payment.id, "order-1042"],
        );
        assert.equal(raw.toString(), printed[n]?.body);
        assert.deepEqual([headers["x-service-event"], headers["x-service-mode"]], [names[n], "test"]);
        assert.equal(headers["x-service-delivery"], printed[n]?.event_id);
      }
    });
  } finally {
    server.close();
  }
});

test("trigger: every event that the house can make happens, whatever the account's balance, and is heard", async () => {
  const at = await merchant("Trigger");
  await listening(["--key", at.test.key], async (listener) => {
    for (const [event, status, also] of EVENTS) {
      const made = await trigger(at, event);
      assert.equal(made.status, status, event);
      const printed = await listener.prints(made.id, [event, ...also]);
      assert.equal(printed.length, 1 + also.length, event);
      assert.ok(printed.every(({ forwarded }) => forwarded === null));
    }
  });
  const test = await cauri(["trigger", "payment.test", "--key", at.test.key, "--json"]);
  assert.deepEqual([test.code, JSON.parse(test.stdout).error.code], [1, "no_active_endpoint"]);
});

test("listen: some events alone, with a secret of one's own and Standard Webhooks headers; nobody at the other end", async () => {
  const at = await merchant("Listen");
  const server = await startLocalServer();
  server.close();
  const own = `whsec_${Buffer.alloc(32, 7).toString("base64")}`;
  const chosen = ["--events", "payment.success", "--secret", own, "--standard-headers"];
  await listening(["--key", at.test.key, "--forward-to", server.url, ...chosen], async (listener) => {
    assert.equal(listener.secret, own);
    const { id } = (await at.test.post("/v1/payments", paymentBody("01"))).body;
    const [only, ...more] = await listener.prints(id, ["payment.success"]);
    assert.ok(only !== undefined && more.length === 0);
    assert.deepEqual([only.forwarded?.status_code, only.forwarded?.error], [null, "nothing listens there"]);
    const verdict = await verifyStandardWebhook(Buffer.from(only.body), only.headers, own);
    assert.ok(verdict.verified);
  });
});

test("listen and trigger: a wrong key, a live one, one without the scope, and what is no event are told", async () => {
  const at = await merchant("Refused");
  const live = await at.key("live");
  const reader = await at.key("test", ["can_read_transactions"]);
  const refused = async (args: string[], code: string, exit = 1) => {
    const ran = await cauri([...args, "--json"]);
    assert.deepEqual([ran.code, JSON.parse(ran.stdout).error.code], [exit, code], ran.stderr);
    assert.ok(ran.stderr.trim() !== "");
  };
  await refused(["listen", "--key", `sk_test_${"A".repeat(43)}`], "invalid_api_key");
  await refused(["listen", "--key", live.key], "insufficient_scope");
  await refused(["listen", "--key", reader.key], "insufficient_scope");
  await refused(["listen", "--key", at.test.key, "--events", "payment.lost"], "invalid_request");
  await refused(["listen", "--key", at.test.key, "--api-url", "http://127.0.0.1:1"], "temporarily_unavailable");
  await refused(["listen", "--forward-to", "localhost:4242"], "invalid_request", 2);
  await refused(["trigger", "payment.success", "--key", live.key], "insufficient_scope");
  await refused(["trigger", "payment.success", "--key", reader.key], "insufficient_scope");
  await refused(["trigger", "subscription.created", "--key", at.test.key], "invalid_request", 2);
  assert.equal((await at.test.get("/v1/payments")).body.total, 0);
});

test("listen: it ends with a sentence when its key is revoked", async () => {
  const at = await merchant("Revoked");
  const key = await at.key("test");
  const listener = await startListener(["--key", key.key]);
  const revoked = await cauri(["key", "revoke", key.key_id]);
  assert.equal(revoked.code, 0, revoked.stderr);
  assert.equal(await listener.ended, 1);
  assert.match(listener.errors(), /unknown, revoked/);
});

test("listen and trigger: help has an example", async () => {
  const help = await cauri(["listen", "--help"]);
  assert.deepEqual([help.code, /cauri listen --forward-to/.test(help.stdout)], [0, true]);
  assert.match((await cauri(["trigger", "--help"])).stdout, /cauri trigger payment\.success/);
});
