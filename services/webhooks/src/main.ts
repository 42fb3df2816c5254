// The webhooks process: wiring only.

import { readFileSync } from "node:fs";
import { drainAccount } from "@cauri/events/drain";
import { openEvents } from "@cauri/events/events";
import { followClocks } from "@cauri/events/follow-clocks";
import { systemClock } from "@cauri/money/clock";
import { watchPool } from "@cauri/rpc/metrics";
import { runService } from "@cauri/rpc/process";
import { startServer } from "@cauri/rpc/server";
import { openCipher } from "@cauri/store/cipher";
import { openClocks } from "@cauri/store/clock";
import { openPool } from "@cauri/store/pool";
import { deliveryService } from "./delivery-service.ts";
import { openDialer } from "./dialer.ts";
import { followNews, noRelay } from "./events.ts";
import { parseNetworks } from "./guard.ts";
import { listenService } from "./listen-service.ts";
import { startLoops } from "./loops.ts";
import { observeAttempt } from "./metrics.ts";
import { openNewsHub } from "./news-hub.ts";
import { openSender } from "./sender.ts";
import { webhookService } from "./service.ts";

/** One claims, one writes results, one writes deliveries; the fourth is for a drain. */
const PUMP_CONNECTIONS = 4;

await runService("webhooks", async ({ settings, log, atDrain, atReady, atNotice }) => {
  const { CAURI_WEBHOOKS_DATABASE_URL: url, CAURI_DATABASE_POOL: max, CAURI_WEBHOOK_CA: ca } = settings;
  const pool = openPool({ url, name: "webhooks", max, by_index: true, log });
  atDrain("pool", () => pool.end());
  watchPool("webhooks", pool);
  // The pump's own, so that merchants' calls and deliveries never wait for each other's connections.
  const lane = openPool({ url, name: "webhooks pump", max: PUMP_CONNECTIONS, by_index: true, log });
  atDrain("pump's pool", () => lane.end());
  watchPool("webhooks pump", lane);
  const events = await openEvents({ nats_url: settings.NATS_URL, room: "webhooks", log });
  atDrain("events", () => events.close());
  const clocks = await openClocks(pool);
  atDrain("clocks", () => clocks.close());
  const cipher = openCipher(settings.CAURI_VAULT_KEYS);
  const dialer = openDialer({
    allowed: parseNetworks(settings.CAURI_WEBHOOK_ALLOW),
    timeout_ms: settings.CAURI_WEBHOOK_TIMEOUT_MS,
    ...(ca === "" ? {} : { ca: readFileSync(ca, "utf8") }),
  });
  atDrain("dialer", () => dialer.close());
  const sender = openSender({
    pool: lane,
    dialer,
    cipher,
    parallel: settings.CAURI_WEBHOOK_PARALLEL,
    per_endpoint: settings.CAURI_WEBHOOK_PARALLEL_ENDPOINT,
    per_account: settings.CAURI_WEBHOOK_PARALLEL_ACCOUNT,
    timeout_ms: settings.CAURI_WEBHOOK_TIMEOUT_MS,
    // The other half is for the steps of the drain beside it.
    grace_ms: settings.CAURI_DRAIN_MS / 2,
    ladder_s: settings.CAURI_WEBHOOK_LADDER,
    suspend_ms: settings.CAURI_WEBHOOK_SUSPEND_S * 1000,
    wake: () => loops.wake(),
    now: systemClock,
    log,
    observe: observeAttempt(systemClock, clocks),
  });
  const loops = startLoops({ pool, cipher, sender, settings, log });
  atDrain("sender", () => Promise.all([loops.stop(), sender.stop()]));
  const news = followNews({ events, pool: lane, log, sender });
  const advances = followClocks({ events, pool, log });
  atDrain("consumers", () => Promise.all([news.stop(), advances.stop()]));
  const service = webhookService({
    pool,
    dialer,
    cipher,
    fingerprint_key: settings.CAURI_FINGERPRINT_KEY,
    now: systemClock,
    wake: () => sender.hint(),
    drain: (request, deadline_ms) =>
      drainAccount({
        request,
        deadline_ms,
        pool,
        clocks,
        events,
        relay: noRelay,
        consumers: [news, advances],
        work: (account) => loops.failOverdueNow().then(() => sender.drain(account)),
      }),
  });
  const hub = openNewsHub({ events, log });
  atDrain("listeners", () => hub.close());
  const listening = listenService({ events, hub, now: systemClock });
  const server = await startServer({
    room: "webhooks",
    settings,
    services: [service, listening, deliveryService({ pool, wake: () => loops.wake() })],
    log,
  });
  atDrain("rpc", () => server.drain());
  atReady("database", () => pool.query("select 1").then(() => null));
  atNotice(events.notices);
  return { ports: { rpc: server.port } };
});
