// The verifier's examples, as merchants copy them, against what the house really sends.

import assert from "node:assert/strict";
import { createServer, type Server } from "node:https";
import type { AddressInfo } from "node:net";
import { after, test } from "node:test";
import { type RequestHeaders, verifyStandardWebhook, type WebhookEvent } from "@cauri/webhook-verifier";
import { getRequestListener } from "@hono/node-server";
import { serverIdentity } from "./authority.ts";
import { cauri, eventually, type Merchant, merchant, noteSecret, paymentBody } from "./house.ts";
import { startReceiver } from "./receiver.ts";

type Handle = (event: WebhookEvent) => Promise<void>;
type Listener = Parameters<typeof createServer>[1];
/** A merchant's server: its address is known before its secret, which the registration gives. */
type Shop = { readonly url: string; begin(secret: string): Promise<void>; readonly heard: WebhookEvent[] };

const EXAMPLES = "../packages/webhook-verifier/examples";
const servers: Server[] = [];
after(() => {
  for (const server of servers) {
    server.closeAllConnections();
    server.close();
  }
});

/** How each framework's app becomes a listener of Node's HTTPS server. */
const frameworks: Readonly<Record<string, (secret: string, handle: Handle) => Promise<Listener>>> = {
  express: async (secret, handle) => (await import(`${EXAMPLES}/express.js`)).createApp(secret, handle),
  fastify: async (secret, handle) => {
    const app = (await import(`${EXAMPLES}/fastify.js`)).createApp(secret, handle);
    await app.ready();
    return app.routing;
  },
  hono: async (secret, handle) =>
    getRequestListener((await import(`${EXAMPLES}/hono.js`)).createApp(secret, handle).fetch) as Listener,
};

async function openShop(framework: string): Promise<Shop> {
  const folder = process.env["CAURI_TEST_CERTS"];
  assert.ok(folder !== undefined, "CAURI_TEST_CERTS is not set: run stories by `npm test -- story`.");
  const heard: WebhookEvent[] = [];
  let listener: Listener;
  const server = createServer(serverIdentity(folder), (request, response) => listener?.(request, response));
  servers.push(server);
  await new Promise<void>((open) => server.listen(0, "127.0.0.1", open));
  return {
    url: `https://127.0.0.1:${(server.address() as AddressInfo).port}/webhooks/cauri`,
    heard,
    begin: async (secret) => {
      listener = await frameworks[framework]?.(secret, async (event) => void heard.push(event));
    },
  };
}

async function endpointOf(at: Merchant, url: string, more: Record<string, unknown> = {}) {
  const answer = await at.test.post("/v1/webhooks", { url, subscribed_events: ["payment.success"], ...more });
  assert.equal(answer.status, 201, answer.text);
  return { id: answer.body.id, secret: noteSecret(answer.body.secret) };
}

for (const framework of Object.keys(frameworks)) {
  test(`${framework}: its example takes real deliveries, also through a rotation, and refuses other secrets`, async () => {
    const at = await merchant("Verifier");
    const shop = await openShop(framework);
    const { id, secret } = await endpointOf(at, shop.url);
    await shop.begin(secret);
    const hears = async () => {
      const payment = (
        await at.test.post("/v1/payments", paymentBody("01", { client_ref: `${framework}-${shop.heard.length}` }))
      ).body;
      const heard = await eventually(
        `${framework} hears of ${payment.id}`,
        async () => shop.heard.find(({ data }) => data.id === payment.id),
        (found) => found !== undefined,
      );
      assert.deepEqual(
        [heard?.event, heard?.data.reference, heard?.data.merchant_reference, heard?.data.amount],
        ["payment.success", payment.reference, payment.client_ref, "10000"],
      );
    };
    await hears();
    // The old secret, which is the one that the shop still has, goes on.
    const rotated = await cauri(["webhook", "secret", "rotate", at.account_id, String(id), "--json"]);
    assert.equal(rotated.code, 0, rotated.stderr);
    const fresh = noteSecret(JSON.parse(rotated.stdout).secret);
    await hears();
    await shop.begin(fresh);
    await hears();
    await shop.begin(`whsec_${Buffer.alloc(32, 9).toString("base64")}`);
    const tested = await at.test.post("/v1/webhooks/test");
    assert.deepEqual(
      tested.body.data.map(({ delivered, status_code }: Record<string, unknown>) => [delivered, status_code]),
      [[false, 400]],
    );
    assert.equal(shop.heard.length, 3);
  });
}

test("standard headers: a real delivery is verified, and no longer with one byte changed", async () => {
  const at = await merchant("Verifier");
  const receiver = await startReceiver();
  try {
    const { secret } = await endpointOf(at, receiver.url, { standard_headers: true });
    const payment = await at.test.post("/v1/payments", paymentBody("01"));
    const [notice] = await receiver.hears(payment.body.id, ["payment.success"]);
    assert.ok(notice !== undefined);
    const headers = notice.headers as RequestHeaders;
    const verdict = await verifyStandardWebhook(notice.raw, headers, secret);
    assert.ok(verdict.verified && verdict.isTest && verdict.event.data.id === payment.body.id);
    const changed = Buffer.from(notice.raw.toString().replace("10000", "90000"));
    const refused = await verifyStandardWebhook(changed, headers, secret);
    assert.ok(!refused.verified && refused.reason === "no_match");
  } finally {
    await receiver.close();
  }
});
