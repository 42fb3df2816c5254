// The rooms that one merchant's money goes through, for its model: collections, payouts, ledger and webhooks as they are, each
// on a database of its own, before planned rails. A process of collections and payouts can be started with a fate: it dies
// before its n-th effect, or the answer of its n-th call is lost.

import assert from "node:assert/strict";
import { join } from "node:path";
import { applyOutgoingNews, openFollowUp } from "@cauri/events/outgoing-follow";
import { openOutgoingLedger } from "@cauri/events/outgoing-ledger";
import { OUTGOING_LEASE_MS } from "@cauri/events/outgoing-run";
import { openTerms } from "@cauri/events/terms";
import {
  FeeOperation,
  ReferenceServiceClient,
  ReferenceServiceService,
} from "@cauri/proto/ts/cauri/accounts/v1/reference";
import { LedgerServiceClient } from "@cauri/proto/ts/cauri/ledger/v1/ledger";
import { RailsServiceClient, RailsServiceService } from "@cauri/proto/ts/cauri/rails/v1/rails";
import { connectClient } from "@cauri/rpc/client";
import { logger } from "@cauri/rpc/log";
import { openSending } from "@cauri/rpc/sending";
import { type Definition, type Handlers, type Service, service, startServer } from "@cauri/rpc/server";
import { openClocks } from "@cauri/store/clock";
import { sweepOnce } from "@cauri/store/operation";
import type { Pool } from "@cauri/store/pool";
import { type TestDatabase, testDatabase } from "@cauri/store/testing";
import type { Creation } from "../services/collections/src/create.ts";
import { openExpiry } from "../services/collections/src/expiry.ts";
import { openLedger as openPaymentLedger } from "../services/collections/src/ledger.ts";
import { applyNews } from "../services/collections/src/news.ts";
import { openRails } from "../services/collections/src/rails.ts";
import { type Refunding, refundKind } from "../services/collections/src/refund-create.ts";
import { sweep as sweepCollections } from "../services/collections/src/sweep.ts";
import { startEngine } from "../services/ledger/src/engine.ts";
import { ledgerService } from "../services/ledger/src/service.ts";
import { payoutKind } from "../services/payouts/src/create.ts";
import { applyNews as applyPayoutNews, openFollowUpOfWithdrawals } from "../services/payouts/src/follow-up.ts";
import { openLedger as openPayoutLedger } from "../services/payouts/src/ledger.ts";
import { openPlaces } from "../services/payouts/src/movement-create.ts";
import type { PayoutRooms } from "../services/payouts/src/service.ts";
import { sweep as sweepPayouts } from "../services/payouts/src/sweep.ts";
import { openSettlements } from "../services/payouts/src/withdrawal-create.ts";
import { openWithdrawalLedger } from "../services/payouts/src/withdrawal-ledger.ts";
import { type News, PlannedRails } from "./merchant-rails.ts";

const TOKEN = "house";
const SILENT = logger("collections", "silent");
const FINGERPRINT_KEY = "a fingerprint key for tests";
/** A withdrawal costs this, whatever its amount. */
export const WITHDRAWAL_FEE = 150n;
export const PAYOUT_FEE_BPS = 100n;
const PAYMENT_FEE_BPS = 150n;

/** `dies`: nothing from the n-th effect on reaches anyone. `loses`: the n-th call is done, its answer is not heard. */
export type Fate = { readonly how: "dies" | "loses"; readonly at: number } | null;

export type Process = {
  readonly collections: Creation & { readonly refunding: Refunding };
  readonly payouts: PayoutRooms;
};

/** Where an account settles, and whether its withdrawals have a price: without one they are closed. */
export type Settling = {
  readonly prices_withdrawals: boolean;
  readonly to: { readonly platform_id: string; readonly kept_as: string } | null;
};

export type MerchantRooms = {
  readonly rails: PlannedRails;
  /** By account, as the room of accounts would say. */
  readonly settling: Map<string, Settling>;
  /** What loops have logged and gone over: nothing but interruptions may be among it. */
  readonly faults: unknown[];
  readonly collections: Pool;
  readonly payouts: Pool;
  readonly ledger: Pool;
  readonly webhooks: Pool;
  start(fate: Fate): Process;
  close(): Promise<void>;
};

/** What ends a process, or an answer: both are faults of the house to whoever was served. */
export class Interrupted extends Error {
  readonly unavailable = true;
}

export async function openRooms(): Promise<MerchantRooms> {
  const open = (room: string) => testDatabase(room, [join(import.meta.dirname, `../services/${room}/migrations`)]);
  const [collections, payouts, ledger, webhooks] = await Promise.all(
    ["collections", "payouts", "ledger", "webhooks"].map(open),
  );
  assert.ok(collections !== undefined && payouts !== undefined && ledger !== undefined && webhooks !== undefined);
  const rails = new PlannedRails();
  const settling: MerchantRooms["settling"] = new Map();
  const server = await startServer({
    room: "neighbours",
    settings: { CAURI_BIND_HOST: "127.0.0.1", CAURI_RPC_PORT: 0, CAURI_RPC_TOKEN: TOKEN, CAURI_DRAIN_MS: 100 },
    services: [
      ledgerService({ pool: ledger.pool, engine: startEngine({ pool: ledger.pool }) }),
      partly(RailsServiceService, rails.handlers()),
      partly(ReferenceServiceService, referenceOf(settling)),
    ],
    log: SILENT,
  });
  const to = { address: `127.0.0.1:${server.port}`, token: TOKEN };
  const clients = {
    ledger: connectClient(LedgerServiceClient, to),
    rails: connectClient(RailsServiceClient, to),
    accounts: connectClient(ReferenceServiceClient, to),
  };
  const clocks = await openClocks(collections.pool);
  const pools = { collections: collections.pool, payouts: payouts.pool };
  const faults: unknown[] = [];
  const log = logger("collections", "silent");
  log.error = (fields: unknown) => {
    // Alarms carry no error.
    const { err } = fields as { readonly err?: unknown };
    if (err !== undefined && !isInterruption(err)) faults.push(err);
  };
  return {
    rails,
    settling,
    faults,
    ...pools,
    ledger: ledger.pool,
    webhooks: webhooks.pool,
    start: (fate) => startProcess(clients, pools, clocks, log, fate),
    close: async () => {
      clocks.close();
      for (const client of Object.values(clients)) client.closeChannel();
      await server.drain();
      await Promise.all([collections, payouts, ledger, webhooks].map((db: TestDatabase) => db.close()));
    },
  };
}

type Clients = {
  readonly ledger: Parameters<typeof openPayoutLedger>[0];
  readonly rails: Parameters<typeof openSending>[0];
  readonly accounts: Parameters<typeof openPlaces>[0];
};

function startProcess(
  clients: Clients,
  pools: { readonly collections: Pool; readonly payouts: Pool },
  clocks: Creation["clocks"],
  log: Creation["log"],
  fate: Fate,
): Process {
  const { guard, guardPool } = guards(fate);
  const shared = { log, fingerprint_key: FINGERPRINT_KEY };
  const sending = guard(openSending(clients.rails));
  const pool = guardPool(pools.collections);
  const books = openPayoutLedger(clients.ledger);
  const creation = {
    ...shared,
    pool,
    clocks,
    ledger: guard(openPaymentLedger(clients.ledger)),
    rails: guard(openRails(clients.rails)),
    terms: openTerms(clients.accounts, FeeOperation.COLLECTION),
  };
  const refunding = { ...shared, pool, ledger: guard(openOutgoingLedger(clients.ledger)), rails: sending };
  return {
    collections: { ...creation, refunding },
    payouts: {
      ...shared,
      pool: guardPool(pools.payouts),
      ledger: guard(books),
      withdrawal_ledger: guard(openWithdrawalLedger(clients.ledger, books.spend)),
      rails: sending,
      terms: openTerms(clients.accounts, FeeOperation.PAYOUT),
      withdrawal_terms: openTerms(clients.accounts, FeeOperation.WITHDRAWAL),
      places: openPlaces(clients.accounts),
      settlements: openSettlements(clients.accounts),
      drain: async () => ({ done: 0n }),
    },
  };
}

/** Every call of what is guarded is one effect of the process. */
function guards(fate: Fate) {
  let effects = 0;
  const wrap = <T extends object>(target: T, names: readonly string[] | null, can_lose: boolean): T =>
    new Proxy(target, {
      get(of, name) {
        const value = Reflect.get(of, name) as unknown;
        if (typeof value !== "function") return value;
        if (names !== null && !names.includes(String(name))) return value.bind(of);
        return async (...args: unknown[]) => {
          effects += 1;
          const is_lost = fate?.how === "loses" && effects === fate.at;
          if (fate?.how === "dies" && effects >= fate.at) throw new Interrupted("the process is dead");
          if (is_lost && !can_lose) throw new Interrupted("no connection");
          const answer = await value.apply(of, args);
          if (is_lost) throw new Interrupted("the answer is lost");
          return answer;
        };
      },
    });
  return {
    guard: <T extends object>(target: T) => wrap(target, null, true),
    guardPool: (pool: Pool) => wrap(pool, ["query", "connect"], false),
  };
}

/** The sweepers of both rooms, with everything due that is open: leases that ran out, and what was told ten minutes ago. */
export async function sweepAll({ collections, payouts }: MerchantRooms, process: Process): Promise<void> {
  for (const pool of [collections, payouts]) {
    await pool.query(
      `update claims set due_at = clock_timestamp() - interval '1 second',
                         lease_until = case when state = 'running' then clock_timestamp() - interval '2 seconds' end
        where due_at is not null`,
    );
  }
  const errors: unknown[] = [];
  const log = { error: (fields: object) => void errors.push((fields as { err?: unknown }).err) };
  const of = process.collections;
  await interrupted(() => sweepOnce(of.pool, OUTGOING_LEASE_MS, (due) => sweepCollections(of, of.refunding, due), log));
  await interrupted(() =>
    sweepOnce(process.payouts.pool, OUTGOING_LEASE_MS, (due) => sweepPayouts(process.payouts, due), log),
  );
  for (const error of errors) if (!isInterruption(error)) throw error;
}

/** The follow-up of both rooms, with everything due of this account whose end did not come. */
export async function lookAfter({ collections, payouts }: MerchantRooms, process: Process, account: string) {
  const due = (pool: Pool, table: string, states: readonly string[]) =>
    pool.query(`update ${table} set check_at = created_at where account = $1 and status = any($2::text[])`, [
      account,
      states,
    ]);
  await due(payouts, "payouts", ["pending"]);
  await due(payouts, "withdrawals", ["approved", "processing"]);
  await due(collections, "refunds", ["pending"]);
  await due(collections, "payments", ["pending"]);
  await interrupted(() => openFollowUp(payoutKind, process.payouts).drain(account));
  await interrupted(() => openFollowUpOfWithdrawals(process.payouts).drain(account));
  await interrupted(() => openFollowUp(refundKind, process.collections.refunding).drain(account));
  await interrupted(() => openExpiry(process.collections).drain(account));
}

/** Delivers a batch to the consumers of both rooms; what an interruption stopped is delivered again later. */
export async function hear(process: Process, batch: readonly News[]): Promise<void> {
  const of = (prefix: string) => batch.filter(({ id }) => id.startsWith(prefix));
  const { collections, payouts } = process;
  const consumers = [
    { batch: of("pay_"), apply: (news: readonly News[]) => applyNews(collections, news) },
    {
      batch: of("re_"),
      apply: (news: readonly News[]) => applyOutgoingNews(refundKind, collections.refunding, news),
    },
    { batch: [...of("po_"), ...of("wr_")], apply: (news: readonly News[]) => applyPayoutNews(payouts, news) },
  ];
  for (const consumer of consumers) {
    if (consumer.batch.length === 0) continue;
    const done = await interrupted(() => consumer.apply(consumer.batch));
    if (done) for (const news of consumer.batch) news.heard = true;
  }
}

/** Whether the work ended; false: it was interrupted. Anything else that is thrown is a failure. */
export async function interrupted(work: () => Promise<unknown>): Promise<boolean> {
  try {
    await work();
    return true;
  } catch (error) {
    if (isInterruption(error)) return false;
    throw error;
  }
}

export function isInterruption(error: unknown): boolean {
  if (error instanceof Interrupted) return true;
  return error instanceof Error && error.cause !== undefined && isInterruption(error.cause);
}

const RAILS = [{ rail: "mtn_momo", needsPhone: false }];
const SETTLEMENT = { type: "mobile_wallet", phone: "+22507*****00" };
const PLACE = { platformKnown: true, holdsAsset: true, isOpen: true };

function referenceOf(settling: MerchantRooms["settling"]): Partial<Handlers<typeof ReferenceServiceService>> {
  const of = (account: string) => settling.get(account) ?? assert.fail(`nothing is known of ${account}`);
  return {
    getTerms: async ({ operation }, { caller }) => ({
      assetKnown: true,
      platformKnown: true,
      corridorKnown: true,
      isOpen: true,
      minAmountMinor: 1n,
      maxAmountMinor: 2_000_000n,
      rails: RAILS,
      fee: feeOf(operation, of(caller.account)),
      country: "CI",
      currency: "XOF",
      scale: 0,
      merchantName: "Shop",
      destinationTypes: ["mobile_wallet"],
    }),
    getPlaces: async ({ platformIds }) => ({
      assetKnown: true,
      currency: "XOF",
      scale: 0,
      places: platformIds.map(() => PLACE),
      canReceive: true,
    }),
    getSettlement: async (_, { caller }) => {
      const { to } = of(caller.account);
      const destination = to === null ? undefined : SETTLEMENT;
      return { isActive: true, isLive: false, platformId: to?.platform_id, keptAs: to?.kept_as, destination };
    },
  };
}

function feeOf(operation: FeeOperation, { prices_withdrawals }: Settling) {
  if (operation === FeeOperation.WITHDRAWAL) {
    return prices_withdrawals ? { percentBps: 0, fixedMinor: WITHDRAWAL_FEE } : undefined;
  }
  const bps = operation === FeeOperation.COLLECTION ? PAYMENT_FEE_BPS : PAYOUT_FEE_BPS;
  return { percentBps: Number(bps), fixedMinor: 0n };
}

/** A neighbour of which the rooms call only some RPCs. */
function partly<D extends Definition>(definition: D, handlers: Partial<Handlers<D>>): Service {
  return service(definition, handlers as Handlers<D>);
}
