// Express: this one route gets the raw bytes, whatever parses the bodies of the others.

import { verifyWebhook } from "@cauri/webhook-verifier";
import express from "express";

export function createApp(secret, handle) {
  const app = express();
  app.post("/webhooks/cauri", express.raw({ type: () => true }), async (request, response) => {
    const verdict = await verifyWebhook(request.body, request.headers, secret);
    if (!verdict.verified) return response.status(400).send(verdict.reason);
    await handle(verdict.event);
    return response.sendStatus(204);
  });
  return app;
}
