// Wires the room of payouts: settings -> pool -> neighbours -> loops -> server; the drain goes the other way.

import { drainAccount } from "@cauri/events/drain";
import { openEvents } from "@cauri/events/events";
import { followClocks } from "@cauri/events/follow-clocks";
import { openFollowUp } from "@cauri/events/outgoing-follow";
import { OUTGOING_LEASE_MS } from "@cauri/events/outgoing-run";
import { startRelay } from "@cauri/events/relay";
import { followTerms, openTerms } from "@cauri/events/terms";
import { FeeOperation, ReferenceServiceClient } from "@cauri/proto/ts/cauri/accounts/v1/reference";
import { LedgerServiceClient } from "@cauri/proto/ts/cauri/ledger/v1/ledger";
import { RailsServiceClient } from "@cauri/proto/ts/cauri/rails/v1/rails";
import { connectClient } from "@cauri/rpc/client";
import { watchPool } from "@cauri/rpc/metrics";
import { runService } from "@cauri/rpc/process";
import { openSending } from "@cauri/rpc/sending";
import { startServer } from "@cauri/rpc/server";
import { openClocks } from "@cauri/store/clock";
import { startForgetting } from "@cauri/store/forget";
import { startOperationSweeper } from "@cauri/store/operation";
import { openPool } from "@cauri/store/pool";
import { payoutKind } from "./create.ts";
import { consumeNews, openFollowUpOfWithdrawals } from "./follow-up.ts";
import { openLedger } from "./ledger.ts";
import { openPlaces } from "./movement-create.ts";
import { type PayoutRooms, payoutServices } from "./service.ts";
import { sweep } from "./sweep.ts";
import { openSettlements } from "./withdrawal-create.ts";
import { openWithdrawalLedger } from "./withdrawal-ledger.ts";

await runService("payouts", async ({ settings, log, atDrain, atReady, atNotice }) => {
  const url = settings.CAURI_PAYOUTS_DATABASE_URL;
  const pool = openPool({ url, name: "payouts", max: settings.CAURI_DATABASE_POOL, by_index: true, log });
  atDrain("pool", () => pool.end());
  watchPool("payouts", pool);
  atReady("database", () => pool.query("select from payouts limit 1").then(() => null));
  const clocks = await openClocks(pool);
  atDrain("clocks", () => clocks.close());
  const events = await openEvents({ nats_url: settings.NATS_URL, room: "payouts", log });
  atDrain("events", () => events.close());
  atNotice(events.notices);

  const token = settings.CAURI_RPC_TOKEN;
  const accounts = connectClient(ReferenceServiceClient, { address: settings.CAURI_ACCOUNTS_ADDRESS, token });
  const ledger = connectClient(LedgerServiceClient, { address: settings.CAURI_LEDGER_ADDRESS, token });
  const rails = connectClient(RailsServiceClient, { address: settings.CAURI_RAILS_ADDRESS, token });
  for (const client of [accounts, ledger, rails]) atDrain("client", client.closeChannel);
  const terms = openTerms(accounts, FeeOperation.PAYOUT);
  const withdrawal_terms = openTerms(accounts, FeeOperation.WITHDRAWAL);
  const places = openPlaces(accounts);
  atDrain("terms", followTerms(events, terms, withdrawal_terms, places));
  const relay = startRelay({ events, pool, log });
  atDrain("relay", relay.stop);
  const books = openLedger(ledger);
  const rooms: PayoutRooms = {
    pool,
    ledger: books,
    withdrawal_ledger: openWithdrawalLedger(ledger, books.spend),
    rails: openSending(rails),
    log,
    terms,
    withdrawal_terms,
    places,
    settlements: openSettlements(accounts),
    fingerprint_key: settings.CAURI_FINGERPRINT_KEY,
    drain: (request, deadline_ms) => {
      const work = async (account: string) =>
        (await followUp.drain(account)) + (await followUpOfWithdrawals.drain(account));
      return drainAccount({ request, deadline_ms, pool, clocks, events, relay, consumers, work });
    },
  };
  const followUp = openFollowUp(payoutKind, rooms);
  const followUpOfWithdrawals = openFollowUpOfWithdrawals(rooms);
  const consumers = [followClocks({ events, pool, log }), consumeNews(events, rooms)];
  for (const consumer of consumers) atDrain("consumer", consumer.stop);
  const loops = [
    startOperationSweeper({ pool, lease_ms: OUTGOING_LEASE_MS, resume: (due) => sweep(rooms, due), log }),
    followUp.start(),
    followUpOfWithdrawals.start(),
    startForgetting(pool, settings.CAURI_IDEMPOTENCY_KEEP_S, log),
  ];
  for (const loop of loops) atDrain("loop", loop.stop);
  const server = await startServer({ room: "payouts", settings, services: payoutServices(rooms), log });
  atDrain("server", server.drain);
  return { ports: { rpc: server.port } };
});
