// The process of accounts: settings, pool, NATS, the ledger's client, gRPC, the sweeper and the relay.

import { drainAccount } from "@cauri/events/drain";
import { openEvents } from "@cauri/events/events";
import { startRelay } from "@cauri/events/relay";
import { systemClock } from "@cauri/money/clock";
import { LedgerServiceClient } from "@cauri/proto/ts/cauri/ledger/v1/ledger";
import { RailsServiceClient } from "@cauri/proto/ts/cauri/rails/v1/rails";
import { connectClient } from "@cauri/rpc/client";
import { watchPool } from "@cauri/rpc/metrics";
import { runService } from "@cauri/rpc/process";
import { startServer } from "@cauri/rpc/server";
import { openClocks } from "@cauri/store/clock";
import { openPool } from "@cauri/store/pool";
import { startLoop } from "@cauri/store/sweeper";
import type { House } from "./house.ts";
import { accountsServices } from "./service.ts";
import { sweepPatiently } from "./sweep.ts";

/** What it finishes is rare and mostly woken for: a sign-up, a new place, a close that lost its process. */
const SWEEP_EVERY_MS = 1_000;

await runService("accounts", async ({ settings, log, atDrain, atReady, atNotice }) => {
  const url = settings.CAURI_ACCOUNTS_DATABASE_URL;
  const pool = openPool({ url, name: "accounts", max: settings.CAURI_DATABASE_POOL, log });
  watchPool("accounts", pool);
  atDrain("database", () => pool.end());
  atReady("database", async () => {
    await pool.query("select from account_head");
    return null;
  });

  const events = await openEvents({ nats_url: settings.NATS_URL, room: "accounts", log });
  atDrain("nats", () => events.close());
  atNotice(events.notices);
  const relay = startRelay({ events, pool, log });
  atDrain("relay", () => relay.stop());
  // This room moves the clocks and has nothing due by them: a drain only lets the account's events leave.
  const clocks = await openClocks(pool);
  atDrain("clocks", () => clocks.close());

  const ledger = connectClient(LedgerServiceClient, {
    address: settings.CAURI_LEDGER_ADDRESS,
    token: settings.CAURI_RPC_TOKEN,
  });
  atDrain("ledger", () => ledger.closeChannel());

  const rails = connectClient(RailsServiceClient, {
    address: settings.CAURI_RAILS_ADDRESS,
    token: settings.CAURI_RPC_TOKEN,
  });
  atDrain("rails", () => rails.closeChannel());

  const house: House = {
    pool,
    ledger,
    rails,
    pepper: settings.CAURI_KEY_PEPPER,
    live: settings.CAURI_LIVE_RAILS,
    clock: systemClock,
    log,
    drain: (request, deadline_ms) =>
      drainAccount({ request, deadline_ms, pool, clocks, events, relay, consumers: [], work: async () => 0 }),
    wakeSweeper: () => sweeper.wake(),
  };
  const sweeper = startLoop({
    name: "sweeper",
    every_ms: SWEEP_EVERY_MS,
    work: async () => (await sweepPatiently(house)) > 0,
    log,
  });
  atDrain("sweeper", () => sweeper.stop());

  const server = await startServer({ room: "accounts", settings, services: accountsServices(house), log });
  atDrain("server", () => server.drain());
  return { ports: { rpc: server.port } };
});
