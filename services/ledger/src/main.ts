// The ledger's process: settings, pool, engine, gRPC, the sweeper of holds that nobody touches.

import { watchPool } from "@cauri/rpc/metrics";
import { runService } from "@cauri/rpc/process";
import { startServer } from "@cauri/rpc/server";
import { openPool } from "@cauri/store/pool";
import { startLoop } from "@cauri/store/sweeper";
import { booksService } from "./books-service.ts";
import { startCarry } from "./carry-store.ts";
import { countDays } from "./day-store.ts";
import { startEngine } from "./engine.ts";
import { startMonitor } from "./monitor.ts";
import { openMonths } from "./month-store.ts";
import { ledgerService } from "./service.ts";
import { summarizePast } from "./verify-store.ts";

/** Whoever needs the funds of a due hold gets them at once; the sweeper only books what nobody asked for. */
const SWEEP_EVERY_MS = 1_000;
/** What the days don't count yet is read entry by entry: a minute of a busy account is little. */
const DAYS_EVERY_MS = 60_000;
/** The monitor does so itself at the beginning of a round, which after an outage may take hours. */
const SUMMARIES_EVERY_MS = 60_000;
/** Months are made a quarter ahead: an hour is as good as a day, and soon after a start. */
const MONTHS_EVERY_MS = 3_600_000;

await runService("ledger", async ({ settings, log, atDrain, atReady, atNotice }) => {
  const url = settings.CAURI_LEDGER_DATABASE_URL;
  const pool = openPool({ url, name: "ledger", max: settings.CAURI_DATABASE_POOL, log });
  watchPool("ledger", pool);
  atDrain("database", () => pool.end());
  atReady("database", async () => {
    await pool.query("select from lanes limit 1");
    return null;
  });
  const engine = startEngine({ pool });
  const sweeper = startLoop({ name: "expiry", every_ms: SWEEP_EVERY_MS, work: () => engine.sweep(), log });
  atDrain("sweeper", () => sweeper.stop());
  const carry = startCarry(pool, log);
  atDrain("carry", () => carry.stop());
  const months = startLoop({ name: "months", every_ms: MONTHS_EVERY_MS, work: () => openMonths(pool), log });
  atDrain("months", () => months.stop());
  const pages = startLoop({ name: "summaries", every_ms: SUMMARIES_EVERY_MS, work: () => summarizePast(pool), log });
  atDrain("summaries", () => pages.stop());
  const days = startLoop({ name: "days", every_ms: DAYS_EVERY_MS, work: () => countDays(pool), log });
  atDrain("days", () => days.stop());
  const monitor = startMonitor({ pool, log });
  atNotice(monitor.notices);
  atDrain("monitor", () => monitor.stop());
  const server = await startServer({
    room: "ledger",
    settings,
    services: [ledgerService({ pool, engine }), booksService({ pool })],
    log,
  });
  atDrain("server", () => server.drain());
  return { ports: { rpc: server.port } };
});
