// The public door: /v1 as REST, the same RPCs as Connect and gRPC-Web, documentation, callbacks, hosted pages, health.

import type { Log } from "@cauri/rpc/log";
import type { FastifyInstance } from "fastify";
import type { Authenticate } from "./admit.ts";
import { mountCallbacks } from "./callbacks.ts";
import { mountDocs } from "./docs.ts";
import { createEdge, guard } from "./edge.ts";
import { type Health, mountHealth } from "./health.ts";
import type { Invoke } from "./invoke.ts";
import { mountRest } from "./rest.ts";
import type { Route } from "./routes.ts";
import { mountRpcs } from "./rpc-door.ts";
import { mountSimulatorPage } from "./simulator-page.ts";
import type { OpenStreams } from "./streams.ts";
import type { Upstreams } from "./upstream.ts";
import { createValidator } from "./validate.ts";

export type PublicDoor = {
  readonly routes: readonly Route[];
  readonly upstreams: Upstreams;
  readonly invoke: Invoke;
  readonly streams: OpenStreams;
  readonly authenticate: Authenticate;
  /** Value of the header RateLimit-Policy. */
  readonly policy: string;
  /** The OpenAPI document. */
  readonly document: object;
  readonly health: Health;
  readonly trusted_proxies: readonly string[];
  readonly log: Log;
};

export async function createPublicDoor(door: PublicDoor): Promise<FastifyInstance> {
  const { invoke, streams, upstreams, log } = door;
  const routes = door.routes.filter((route) => route.door === "public");
  const app = createEdge({ door: "public", log, trusted_proxies: door.trusted_proxies });
  guard(app, { authenticate: door.authenticate, policy: door.policy, needs_key: needsKey });
  const { compile } = createValidator();
  mountRest(app, routes, compile, invoke);
  mountRpcs(app, routes, compile, { invoke, streams });
  mountDocs(app, door.document);
  mountCallbacks(app, upstreams, log);
  mountSimulatorPage(app, upstreams, log);
  mountHealth(app, door.health);
  await app.ready();
  return app;
}

/** Everything under /v1 and every RPC, known or not; elsewhere no key is asked for. */
function needsKey(path: string): boolean {
  return path === "/v1" || path.startsWith("/v1/") || path.startsWith("/cauri.");
}
