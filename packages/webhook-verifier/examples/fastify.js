// Fastify: inside this plugin every body stays a buffer; the routes outside of it parse JSON as usual.

import { verifyWebhook } from "@cauri/webhook-verifier";
import Fastify from "fastify";

export function createApp(secret, handle, options = {}) {
  const app = Fastify(options);
  app.register(async (hooks) => {
    hooks.removeAllContentTypeParsers();
    hooks.addContentTypeParser("*", { parseAs: "buffer" }, (_request, body, done) => done(null, body));
    hooks.post("/webhooks/cauri", async (request, reply) => {
      const verdict = await verifyWebhook(request.body, request.headers, secret);
      if (!verdict.verified) return reply.code(400).send(verdict.reason);
      await handle(verdict.event);
      return reply.code(204).send();
    });
  });
  return app;
}
