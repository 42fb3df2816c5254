// What the room's database tests stand on: a real database, and neighbours that answer real gRPC calls from memory, can
// be told what to say, and are met by a process that dies before its n-th effect.

import assert from "node:assert/strict";
import { OUTGOING_LEASE_MS } from "@cauri/events/outgoing-run";
import { openTerms } from "@cauri/events/terms";
import { newId } from "@cauri/money/ids";
import { merchantCode } from "@cauri/money/posting";
import { isRefusal, type Refusal } from "@cauri/money/refusal";
import {
  FeeOperation,
  ReferenceServiceClient,
  ReferenceServiceService,
  type Terms,
} from "@cauri/proto/ts/cauri/accounts/v1/reference";
import { OperationNews } from "@cauri/proto/ts/cauri/events/v1/events";
import { LedgerServiceClient, LedgerServiceService } from "@cauri/proto/ts/cauri/ledger/v1/ledger";
import type { CreatePayoutRequest } from "@cauri/proto/ts/cauri/payouts/v1/payouts";
import { RailsServiceClient, RailsServiceService } from "@cauri/proto/ts/cauri/rails/v1/rails";
import { type Caller, houseCaller } from "@cauri/rpc/caller";
import { connectClient } from "@cauri/rpc/client";
import { logger } from "@cauri/rpc/log";
import { openSending } from "@cauri/rpc/sending";
import {
  type Definition,
  type Handlers,
  type RunningServer,
  type Service,
  service,
  startServer,
} from "@cauri/rpc/server";
import { sweepOnce } from "@cauri/store/operation";
import { type TestDatabase, testDatabase } from "@cauri/store/testing";
import { applyNews } from "./follow-up.ts";
import { openLedger } from "./ledger.ts";
import { LedgerDouble } from "./ledger-double.ts";
import { openPlaces } from "./movement-create.ts";
import { RailsDouble } from "./rails-double.ts";
import type { PayoutRooms } from "./service.ts";
import { payouts } from "./store.ts";
import { sweep } from "./sweep.ts";
import { openSettlements } from "./withdrawal-create.ts";
import { openWithdrawalLedger } from "./withdrawal-ledger.ts";

export const ACCOUNT = "acct_01KAE800000000000000000001";
export const RECEIVER = "acct_01KAE800000000000000000002";
export const MTN = "plt_mtn_ci";
export const ORANGE = "plt_orange_ci";
/** More than all payouts of a file together. */
const FUNDED = 1_000_000_000n;
const TOKEN = "house";
export const SILENT = logger("payouts", "silent");

type Neighbours = Pick<TestRoom, "ledger" | "rails" | "terms" | "settlement">;

export type TestRoom = {
  readonly db: TestDatabase;
  readonly rooms: PayoutRooms;
  readonly ledger: LedgerDouble;
  readonly rails: RailsDouble;
  readonly terms: Terms;
  readonly settlement: {
    isActive: boolean;
    isLive: boolean;
    platformId: string | undefined;
    keptAs: string | undefined;
    destination: { type: string; phone: string };
  };
  tellNews(...payloads: Uint8Array[]): Promise<void>;
  /** Lets every open claim become due and sweeps it, as the sweeper of another replica would. */
  sweep(rooms?: PayoutRooms): Promise<void>;
  eventsOf(id: string): Promise<string[]>;
  claimOf(id: string): Promise<string | undefined>;
  close(): Promise<void>;
};

export async function openTestRoom(): Promise<TestRoom> {
  const db = await testDatabase("payouts", [`${import.meta.dirname}/../migrations`]);
  const ledger = new LedgerDouble();
  ledger.fund(merchantCode(ACCOUNT, MTN), FUNDED);
  const rails = new RailsDouble();
  const terms = usualTerms();
  const settlement: TestRoom["settlement"] = {
    isActive: true,
    isLive: false,
    platformId: ORANGE,
    keptAs: "kept",
    destination: { type: "mobile_wallet", phone: "+22507*****00" },
  };
  const server = await startNeighbours({ ledger, rails, terms, settlement });
  const to = { address: `127.0.0.1:${server.port}`, token: TOKEN };
  const clients = {
    ledger: connectClient(LedgerServiceClient, to),
    rails: connectClient(RailsServiceClient, to),
    accounts: connectClient(ReferenceServiceClient, to),
  };
  const books = openLedger(clients.ledger);
  const rooms: PayoutRooms = {
    pool: db.pool,
    ledger: books,
    withdrawal_ledger: openWithdrawalLedger(clients.ledger, books.spend),
    rails: openSending(clients.rails),
    terms: openTerms(clients.accounts, FeeOperation.PAYOUT),
    withdrawal_terms: openTerms(clients.accounts, FeeOperation.WITHDRAWAL),
    places: openPlaces(clients.accounts),
    settlements: openSettlements(clients.accounts),
    log: SILENT,
    fingerprint_key: "a fingerprint key for tests",
    drain: async () => ({ done: 0n }),
  };
  return {
    db,
    rooms,
    ledger,
    rails,
    terms,
    settlement,
    tellNews: (...payloads) =>
      applyNews(
        rooms,
        payloads.map((payload) => ({ payload })),
      ),
    sweep: (by = rooms) => sweepAll(by),
    eventsOf: async (id) => {
      const text = "select payload from outbox where topic = $1 order by seq";
      const { rows } = await db.pool.query<{ payload: Buffer }>(text, [id]);
      const news = rows.map(({ payload }) => OperationNews.decode(payload));
      assert.deepEqual(
        news.map(({ version }) => Number(version)),
        news.map((_, at) => at + 1),
        "versions count from 1",
      );
      return news.map(({ event }) => event);
    },
    claimOf: async (id) => {
      const { rows } = await db.pool.query<{ state: string }>("select state from claims where operation_id = $1", [id]);
      return rows[0]?.state;
    },
    close: async () => {
      for (const client of Object.values(clients)) client.closeChannel();
      await server.drain();
      await db.close();
    },
  };
}

/** The rooms that this one calls, over real gRPC. */
function startNeighbours({ ledger, rails, terms, settlement }: Neighbours): Promise<RunningServer> {
  const place = { platformKnown: true, holdsAsset: true, isOpen: true };
  return startServer({
    room: "neighbours",
    settings: { CAURI_BIND_HOST: "127.0.0.1", CAURI_RPC_PORT: 0, CAURI_RPC_TOKEN: TOKEN, CAURI_DRAIN_MS: 100 },
    services: [
      partly(LedgerServiceService, ledger.handlers()),
      partly(RailsServiceService, rails.handlers()),
      partly(ReferenceServiceService, {
        getTerms: async () => terms,
        getSettlement: async () => settlement,
        getPlaces: async ({ platformIds }) => ({
          assetKnown: true,
          currency: "XOF",
          scale: 0,
          places: platformIds.map(() => place),
          canReceive: true,
        }),
      }),
    ],
    log: SILENT,
  });
}

async function sweepAll(rooms: PayoutRooms): Promise<void> {
  await rooms.pool.query(
    `update claims set due_at = clock_timestamp() - interval '1 second',
                       lease_until = case when state = 'running' then clock_timestamp() - interval '2 seconds' end
      where due_at is not null`,
  );
  const errors: unknown[] = [];
  await sweepOnce(rooms.pool, OUTGOING_LEASE_MS, (due) => sweep(rooms, due), {
    error: (fields) => errors.push(fields),
  });
  assert.deepEqual(errors, []);
}

export function payoutRequest(request: Partial<CreatePayoutRequest> = {}): CreatePayoutRequest {
  return {
    amountMinor: 10_000n,
    assetId: "ast_xof",
    platformId: MTN,
    destination: { type: "mobile_wallet", phone: "+2250504030200" },
    ...request,
  };
}

export function callerOf(prefix: "po" | "tr" | "rb" | "wr", caller: Partial<Caller> = {}): Caller {
  const operation = newId(prefix, 1_790_000_000_000);
  return { ...houseCaller(ACCOUNT, "test", "req_test"), operation, ...caller };
}

/** The answer, where a refusal would be a failed test. */
export function good<T>(answer: T | Refusal): T {
  if (isRefusal(answer)) assert.fail(`refused: ${answer.refused} ${answer.field ?? ""} ${answer.message}`);
  return answer;
}

/** The rooms of a process that dies before its n-th effect: from then on nothing of it reaches anyone. */
export function mortal(rooms: PayoutRooms, dies_before: number): { rooms: PayoutRooms; effects: () => number } {
  let effects = 0;
  const step = () => {
    effects += 1;
    if (effects >= dies_before) throw new Error("the process is dead");
  };
  const guard = <T extends object>(target: T): T =>
    new Proxy(target, {
      get(of, name) {
        const value = Reflect.get(of, name) as unknown;
        if (typeof value !== "function") return value;
        return async (...args: unknown[]) => {
          step();
          return await value.apply(of, args);
        };
      },
    });
  const guarded = {
    pool: guard(rooms.pool),
    ledger: guard(rooms.ledger),
    withdrawal_ledger: guard(rooms.withdrawal_ledger),
    rails: guard(rooms.rails),
  };
  return { rooms: { ...rooms, ...guarded }, effects: () => effects };
}

/** Everything that a payout has left behind; of one that was erased there is nothing. */
export async function payoutState(room: TestRoom, id: string) {
  const payout = await payouts.find(room.db.pool, id);
  return {
    status: payout?.status ?? null,
    failure_code: payout?.failure_code ?? null,
    books: room.ledger.booksOf(id),
    events: await room.eventsOf(id),
    claim: await room.claimOf(id),
    sent: new Set(room.rails.sent.get(id) ?? []).size,
  };
}

function usualTerms(): Terms {
  return {
    assetKnown: true,
    platformKnown: true,
    corridorKnown: true,
    isOpen: true,
    minAmountMinor: 100n,
    maxAmountMinor: 2_000_000_000n,
    rails: [{ rail: "mtn_momo", needsPhone: true }],
    fee: { percentBps: 100, fixedMinor: 0n },
    country: "CI",
    currency: "XOF",
    scale: 0,
    merchantName: "Shop",
    destinationTypes: ["mobile_wallet"],
  };
}

/** A neighbour of which the room calls only some RPCs. */
function partly<D extends Definition>(definition: D, handlers: Partial<Handlers<D>>): Service {
  return service(definition, handlers as Handlers<D>);
}
