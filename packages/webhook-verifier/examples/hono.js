// Hono, on Node, Deno, Bun and Workers: the bytes of the request, not its text or its JSON.

import { verifyWebhook } from "@cauri/webhook-verifier";
import { Hono } from "hono";

export function createApp(secret, handle) {
  const app = new Hono();
  app.post("/webhooks/cauri", async (context) => {
    const verdict = await verifyWebhook(await context.req.arrayBuffer(), context.req.raw.headers, secret);
    if (!verdict.verified) return context.text(verdict.reason, 400);
    await handle(verdict.event);
    return context.body(null, 204);
  });
  return app;
}
