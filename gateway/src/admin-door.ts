// The admin door: the operators' RPCs over Connect, behind the operator token, and the process's numbers. It is bound to
// loopback by default and never stands in an Ingress; none of its RPCs is mounted anywhere else.

import type { Log } from "@cauri/rpc/log";
import type { FastifyInstance } from "fastify";
import { bearerOf, sameToken } from "./admit.ts";
import { createEdge, refuseMissing } from "./edge.ts";
import { type Health, mountHealth, mountMetrics } from "./health.ts";
import type { Invoke } from "./invoke.ts";
import { edgeRefusal } from "./reasons.ts";
import type { Route } from "./routes.ts";
import { mountRpcs } from "./rpc-door.ts";
import { isRpcPath, sendRpcRefusal } from "./rpc-refusal.ts";
import { createValidator } from "./validate.ts";

export type AdminDoor = {
  readonly routes: readonly Route[];
  readonly invoke: Invoke;
  readonly operator_token: string;
  readonly health: Health;
  readonly log: Log;
};

export async function createAdminDoor(door: AdminDoor): Promise<FastifyInstance> {
  const routes = door.routes.filter((route) => route.door === "admin");
  const app = createEdge({ door: "admin", log: door.log, trusted_proxies: [] });
  app.addHook("onRequest", async (request, reply) => {
    // A routed RPC asks for the token whatever its path looks like.
    if (!isRpcPath(request.url) && request.routeOptions.config.route === undefined) return undefined;
    const token = bearerOf(request.headers.authorization);
    if (token !== undefined && sameToken(token, door.operator_token)) return undefined;
    return sendRpcRefusal(request, reply, edgeRefusal("operator_refused", "the operator token is missing or wrong"));
  });
  refuseMissing(app);
  mountRpcs(app, routes, createValidator().compile, { invoke: door.invoke, streams: null });
  mountHealth(app, door.health);
  mountMetrics(app);
  await app.ready();
  return app;
}
