// Wiring of the edge: descriptors -> routes -> doors; accounts and the rate limit behind them; a drain at the end.

import { setTimeout as sleep } from "node:timers/promises";
import { openEvents } from "@cauri/events/events";
import { watchPool } from "@cauri/rpc/metrics";
import { runProcess } from "@cauri/rpc/process";
import { openPool } from "@cauri/store/pool";
import { createAdminDoor } from "./admin-door.ts";
import { createAuthenticate, createRecheck } from "./admit.ts";
import { loadImage } from "./image.ts";
import { createInvoke, type Invoke } from "./invoke.ts";
import { createKeys, resolveBy } from "./keys.ts";
import { listen, listenH2c } from "./listen.ts";
import { openApiDocument } from "./openapi.ts";
import { createPublicDoor } from "./public-door.ts";
import { createLimiter, createLocalLimiter, HOLD_MS, limiterNews } from "./rate-limit.ts";
import { admitInStore } from "./rate-store.ts";
import { watchReach } from "./reach.ts";
import { readRoutes } from "./routes.ts";
import { createStreams } from "./streams.ts";
import { connectUpstreams, roomAddresses } from "./upstream.ts";

/** A change of a key or an account takes effect in every replica at once; the key cache's age limit stands behind it. */
const KEY_NEWS = ["cauri.accounts.key.changed", "cauri.accounts.account.changed"];

await runProcess("gateway", async ({ settings, log, atDrain, atReady, atNotice, ...health }) => {
  const registry = loadImage();
  const routes = readRoutes(registry);
  const upstreams = connectUpstreams(roomAddresses(routes, settings), settings.CAURI_RPC_TOKEN);
  atDrain("channels", () => upstreams.close());
  watchReach(upstreams, { atReady, atNotice });

  const pool = openPool({
    url: settings.CAURI_GATEWAY_DATABASE_URL,
    name: "gateway",
    max: settings.CAURI_DATABASE_POOL,
    log,
    by_index: true,
  });
  watchPool("gateway", pool);
  atDrain("database", () => pool.end());

  const window_ms = settings.CAURI_RATE_WINDOW_S * 1_000;
  const rule = { limit: settings.CAURI_RATE_LIMIT, window_ms, hold_ms: HOLD_MS };
  const limiter = createLimiter({
    rule,
    replicas: settings.CAURI_GATEWAY_REPLICAS,
    ask: (keys, calls) => admitInStore(pool, keys, calls, rule),
    news: limiterNews(log),
  });
  atDrain("rate limit", () => limiter.stop());

  const keys = createKeys({ pepper: settings.CAURI_KEY_PEPPER, resolve: resolveBy(upstreams) });
  // Not waited for: without NATS everything is served, and changes of keys are seen within their age limit.
  const events = openEvents({ nats_url: settings.NATS_URL, room: "gateway", log });
  events.then(
    (open) => open.onChange(KEY_NEWS, () => keys.forget()),
    (error: unknown) => log.error({ err: error }, "no news of keys: changes take effect within their age limit"),
  );
  const unknown = createLocalLimiter({ limit: settings.CAURI_UNKNOWN_KEY_LIMIT, window_ms, hold_ms: 0 });
  const invoke = createInvoke(upstreams, log);
  const streams = createStreams({ upstreams, recheck: createRecheck(keys), log });
  const publicDoor = await createPublicDoor({
    routes,
    upstreams,
    invoke,
    streams,
    authenticate: createAuthenticate({ keys, limiter, unknown }),
    policy: `"default";q=${rule.limit};w=${settings.CAURI_RATE_WINDOW_S}`,
    document: openApiDocument(registry),
    health,
    trusted_proxies: settings.CAURI_TRUSTED_PROXIES.split(",")
      .map((network) => network.trim())
      .filter(Boolean),
    log,
  });
  // What an operator changed holds here when the answer leaves; the other replicas hear of it within moments.
  const invokeForOperator: Invoke = (ask) => invoke(ask).finally(() => keys.forget());
  const adminDoor = await createAdminDoor({
    routes,
    invoke: invokeForOperator,
    operator_token: settings.CAURI_OPERATOR_TOKEN,
    health,
    log,
  });
  const ports = {
    public: await listen(publicDoor, settings.CAURI_PUBLIC_HOST, settings.CAURI_PORT),
    admin: await listen(adminDoor, settings.CAURI_BIND_HOST, settings.CAURI_ADMIN_PORT),
  };
  const grpc = await listenH2c(publicDoor, settings.CAURI_PUBLIC_HOST, settings.CAURI_GRPC_PORT);
  // Last in, first out: the doors finish what runs while everything behind them still stands.
  atDrain("admin door", () => adminDoor.close());
  atDrain("public door", () => publicDoor.close());
  atDrain("gRPC door", () => grpc.close());
  // Streams would hold both doors open for ever.
  atDrain("streams", () => streams.close());
  // First of all, while everything is still served: /readyz says so by now, and answers let go of their lines.
  atDrain("turning away", () => {
    publicDoor.draining.now = true;
    return sleep(settings.CAURI_DRAIN_DELAY_MS);
  });
  return { ports: { ...ports, grpc: grpc.port } };
});
