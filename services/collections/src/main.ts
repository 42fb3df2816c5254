// Wires the room of collections: settings -> pool -> neighbours -> loops -> server; the drain goes the other way.

import { drainAccount } from "@cauri/events/drain";
import { openEvents } from "@cauri/events/events";
import { followClocks } from "@cauri/events/follow-clocks";
import { consumeOutgoingNews, openFollowUp } from "@cauri/events/outgoing-follow";
import { openOutgoingLedger } from "@cauri/events/outgoing-ledger";
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
import { LEASE_MS } from "./create.ts";
import { openExpiry } from "./expiry.ts";
import { openLedger } from "./ledger.ts";
import { consumeNews } from "./news.ts";
import { openRails } from "./rails.ts";
import { refundKind } from "./refund-create.ts";
import { refundService } from "./refund-service.ts";
import { paymentService } from "./service.ts";
import { sweep } from "./sweep.ts";

await runService("collections", async ({ settings, log, atDrain, atReady, atNotice }) => {
  const pool = openPool({
    url: settings.CAURI_COLLECTIONS_DATABASE_URL,
    name: "collections",
    max: settings.CAURI_DATABASE_POOL,
    by_index: true,
    log,
  });
  atDrain("pool", () => pool.end());
  watchPool("collections", pool);
  atReady("database", () => pool.query("select 1").then(() => null));
  const clocks = await openClocks(pool);
  atDrain("clocks", () => clocks.close());
  const events = await openEvents({ nats_url: settings.NATS_URL, room: "collections", log });
  atDrain("events", () => events.close());
  atNotice(events.notices);

  const token = settings.CAURI_RPC_TOKEN;
  const accounts = connectClient(ReferenceServiceClient, { address: settings.CAURI_ACCOUNTS_ADDRESS, token });
  const ledger = connectClient(LedgerServiceClient, { address: settings.CAURI_LEDGER_ADDRESS, token });
  const rails = connectClient(RailsServiceClient, { address: settings.CAURI_RAILS_ADDRESS, token });
  for (const client of [accounts, ledger, rails]) atDrain("client", client.closeChannel);
  const terms = openTerms(accounts, FeeOperation.COLLECTION);
  atDrain("terms", followTerms(events, terms));
  const rooms = {
    pool,
    ledger: openLedger(ledger),
    rails: openRails(rails),
    log,
    clocks,
    terms,
    fingerprint_key: settings.CAURI_FINGERPRINT_KEY,
  };
  const refunding = { ...rooms, ledger: openOutgoingLedger(ledger), rails: openSending(rails) };
  const relay = startRelay({ events, pool, log });
  atDrain("relay", relay.stop);
  const consumers = [
    followClocks({ events, pool, log }),
    consumeNews(events, rooms),
    consumeOutgoingNews(refundKind, events, refunding, "collections-rails-refunds"),
  ];
  for (const consumer of consumers) atDrain("consumer", consumer.stop);
  const expiry = openExpiry(rooms);
  const followUp = openFollowUp(refundKind, refunding);
  const loops = [
    startOperationSweeper({ pool, lease_ms: LEASE_MS, resume: (due) => sweep(rooms, refunding, due), log }),
    expiry.start(),
    followUp.start(),
    startForgetting(pool, settings.CAURI_IDEMPOTENCY_KEEP_S, log),
  ];
  for (const loop of loops) atDrain("loop", loop.stop);

  const work = async (account: string) => (await expiry.drain(account)) + (await followUp.drain(account));
  const drain: Parameters<typeof paymentService>[0]["drain"] = (request, deadline_ms) =>
    drainAccount({ request, deadline_ms, pool, clocks, events, relay, consumers, work });
  const server = await startServer({
    room: "collections",
    settings,
    services: [paymentService({ ...rooms, refunding, drain }), refundService(refunding)],
    log,
  });
  atDrain("server", server.drain);
  return { ports: { rpc: server.port } };
});
