// Liveness, readiness and numbers. None of them asks for a key, none of them tells anything about a merchant.

import { register } from "@cauri/rpc/metrics";
import type { FastifyInstance } from "fastify";

export type Health = {
  /** What keeps traffic away; empty when nothing does. */
  readonly readiness: () => Promise<string[]>;
  /** What people should know all the same. */
  readonly notices: () => readonly string[];
};

/** `/healthz` says that the process turns; `/readyz` that it can serve, and if not, why. */
export function mountHealth(app: FastifyInstance, { readiness, notices }: Health): void {
  app.get("/healthz", async () => ({ status: "ok" }));
  app.get("/readyz", async (_request, reply) => {
    const problems = await readiness();
    if (problems.length > 0) return reply.header("Retry-After", "1").code(503).send({ status: "not_ready", problems });
    const told = notices();
    return reply.send({ status: "ready", ...(told.length === 0 ? {} : { notices: told }) });
  });
}

/** For the admin door. */
export function mountMetrics(app: FastifyInstance): void {
  app.get("/metrics", async (_request, reply) => reply.type(register.contentType).send(await register.metrics()));
}
