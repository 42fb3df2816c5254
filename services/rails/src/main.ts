// Wires the room of rails: settings -> pool -> vault -> connectors -> loops -> server; the drain goes the other way.

import { drainAccount } from "@cauri/events/drain";
import { openEvents } from "@cauri/events/events";
import { followClocks } from "@cauri/events/follow-clocks";
import { startRelay } from "@cauri/events/relay";
import { systemClock } from "@cauri/money/clock";
import { watchPool } from "@cauri/rpc/metrics";
import { runService } from "@cauri/rpc/process";
import { startServer } from "@cauri/rpc/server";
import { openCipher } from "@cauri/store/cipher";
import { openClocks } from "@cauri/store/clock";
import { openPool } from "@cauri/store/pool";
import { openRegistry } from "./connector.ts";
import { type Loops, startLoops } from "./loops.ts";
import { openMetrics } from "./metrics.ts";
import { openHealth } from "./routing.ts";
import { type Room, railsService } from "./service.ts";
import { openSimulator } from "./simulator/simulator.ts";

await runService("rails", async ({ settings, log, atDrain, atReady, atNotice }) => {
  const url = settings.CAURI_RAILS_DATABASE_URL;
  const pool = openPool({ url, name: "rails", max: settings.CAURI_DATABASE_POOL, by_index: true, log });
  atDrain("database", () => pool.end());
  watchPool("rails", pool);
  atReady("database", () => pool.query("select from attempts limit 1").then(() => null));
  const clocks = await openClocks(pool);
  atDrain("clocks", () => clocks.close());
  const events = await openEvents({ nats_url: settings.NATS_URL, room: "rails", log });
  atDrain("events", () => events.close());
  atNotice(events.notices);
  const relay = startRelay({ events, pool, log });
  atDrain("relay", () => relay.stop());
  const consumer = followClocks({ events, pool, log });
  atDrain("clock events", () => consumer.stop());

  const health = openHealth(systemClock);
  const metrics = openMetrics(health);
  const simulator = openSimulator({
    pool,
    callback_url: settings.CAURI_CALLBACK_URL,
    pay_url: settings.CAURI_PAY_URL || settings.CAURI_CALLBACK_URL,
    secret: settings.CAURI_SIM_SECRET,
    delay_ms: settings.CAURI_SIM_DELAY_MS,
    clock: systemClock,
    metrics,
    log,
  });
  if (simulator !== null) atDrain("simulator", () => simulator.close());
  const simulated = simulator === null ? [] : [simulator.connector];
  const registry = openRegistry({
    test: simulated,
    live: settings.CAURI_LIVE_RAILS === "simulator" ? simulated : [],
  });

  const room: Room = {
    pool,
    cipher: openCipher(settings.CAURI_VAULT_KEYS),
    registry,
    health,
    metrics,
    clock: systemClock,
    log,
    wakePoller: () => loops.wakePoller(),
    simulator,
    drain: (request, deadline_ms) => {
      const work = (account: string) => loops.workFor(account);
      return drainAccount({ request, deadline_ms, pool, clocks, events, relay, consumers: [consumer], work });
    },
  };
  const loops: Loops = startLoops(room, simulator);
  atDrain("loops", () => loops.stop());
  const server = await startServer({ room: "rails", settings, services: [railsService(room)], log });
  atDrain("server", () => server.drain());
  return { ports: { rpc: server.port } };
});
