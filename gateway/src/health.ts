// Liveness, readiness and numbers. None of them asks for a key, none of them tells anything about a merchant.

import { register } from "@cauri/rpc/metrics";
import type { FastifyInstance } from "fastify";

/** `/healthz` says that the process turns; `/readyz` that it can serve, and if not, why. */
export function mountHealth(app: FastifyInstance, readiness: () => Promise<string[]>): void {
  app.get("/healthz", async () => ({ status: "ok" }));
  app.get("/readyz", async (_request, reply) => {
    const problems = await readiness();
    if (problems.length > 0) reply.header("Retry-After", "1");
    return reply
      .code(problems.length === 0 ? 200 : 503)
      .send(problems.length === 0 ? { status: "ready" } : { status: "not_ready", problems });
  });
}

/** For the admin door. */
export function mountMetrics(app: FastifyInstance): void {
  app.get("/metrics", async (_request, reply) => reply.type(register.contentType).send(await register.metrics()));
}
