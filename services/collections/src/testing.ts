// What the room's database tests stand on: a real database, and neighbours that answer real gRPC calls from memory, can
// be told what to say, and are met by a process that dies before its n-th effect.

import assert from "node:assert/strict";
import { applyOutgoingNews } from "@cauri/events/outgoing-follow";
import { openOutgoingLedger } from "@cauri/events/outgoing-ledger";
import { openTerms } from "@cauri/events/terms";
import { newId } from "@cauri/money/ids";
import { isRefusal, refuse } from "@cauri/money/refusal";
import {
  FeeOperation,
  ReferenceServiceClient,
  ReferenceServiceService,
  type Terms,
} from "@cauri/proto/ts/cauri/accounts/v1/reference";
import type { CreatePaymentRequest } from "@cauri/proto/ts/cauri/collections/v1/payments";
import { OperationNews } from "@cauri/proto/ts/cauri/events/v1/events";
import { LedgerServiceClient, LedgerServiceService } from "@cauri/proto/ts/cauri/ledger/v1/ledger";
import {
  AttemptOutcome,
  type CollectResponse,
  RailsServiceClient,
  RailsServiceService,
} from "@cauri/proto/ts/cauri/rails/v1/rails";
import { type Caller, houseCaller } from "@cauri/rpc/caller";
import { connectClient } from "@cauri/rpc/client";
import { logger } from "@cauri/rpc/log";
import { openSending } from "@cauri/rpc/sending";
import { type Definition, type Handlers, type Service, service, startServer } from "@cauri/rpc/server";
import { openClocks } from "@cauri/store/clock";
import { sweepOnce } from "@cauri/store/operation";
import type { Pool } from "@cauri/store/pool";
import { type TestDatabase, testDatabase } from "@cauri/store/testing";
import { reread } from "./apply.ts";
import { type Creation, createPayment, LEASE_MS } from "./create.ts";
import { openLedger } from "./ledger.ts";
import { LedgerDouble } from "./ledger-double.ts";
import { applyNews } from "./news.ts";
import type { Payment } from "./payment.ts";
import { openRails } from "./rails.ts";
import { type Refunding, refundKind } from "./refund-create.ts";
import { sweep } from "./sweep.ts";

export const ACCOUNT = "acct_01KAE800000000000000000001";
const TOKEN = "house";
export const SILENT = logger("collections", "silent");

export type TestRooms = Creation & { readonly refunding: Refunding };

export type TestRoom = {
  readonly db: TestDatabase;
  readonly rooms: TestRooms;
  readonly ledger: LedgerDouble;
  readonly rails: RailsDouble;
  readonly terms: Terms;
  /** Creates as the gateway would; a fault is thrown, a refusal is a failed assertion. */
  create(request?: Partial<CreatePaymentRequest>, caller?: Partial<Caller>): Promise<Payment>;
  tellNews(...payloads: Uint8Array[]): Promise<void>;
  /** Lets every open claim become due and sweeps it, as the sweeper of another replica would. */
  sweep(rooms?: TestRooms): Promise<void>;
  eventsOf(id: string): Promise<string[]>;
  claimOf(id: string): Promise<string | undefined>;
  close(): Promise<void>;
};

export async function openTestRoom(): Promise<TestRoom> {
  const db = await testDatabase("collections", [`${import.meta.dirname}/../migrations`]);
  const ledger = new LedgerDouble();
  const rails = new RailsDouble();
  const terms = usualTerms();
  const server = await startServer({
    room: "neighbours",
    settings: { CAURI_BIND_HOST: "127.0.0.1", CAURI_RPC_PORT: 0, CAURI_RPC_TOKEN: TOKEN, CAURI_DRAIN_MS: 100 },
    services: [
      partly(LedgerServiceService, ledger.handlers()),
      partly(RailsServiceService, rails.handlers()),
      partly(ReferenceServiceService, { getTerms: async () => terms }),
    ],
    log: SILENT,
  });
  const to = { address: `127.0.0.1:${server.port}`, token: TOKEN };
  const clients = {
    ledger: connectClient(LedgerServiceClient, to),
    rails: connectClient(RailsServiceClient, to),
    accounts: connectClient(ReferenceServiceClient, to),
  };
  const clocks = await openClocks(db.pool);
  const creation: Creation = {
    pool: db.pool,
    ledger: openLedger(clients.ledger),
    rails: openRails(clients.rails),
    terms: openTerms(clients.accounts, FeeOperation.COLLECTION),
    clocks,
    log: SILENT,
    fingerprint_key: "a fingerprint key for tests",
  };
  const to_rails = openSending(clients.rails);
  const refunding = { ...creation, ledger: openOutgoingLedger(clients.ledger), rails: to_rails };
  const rooms = { ...creation, refunding };
  return {
    db,
    rooms,
    ledger,
    rails,
    terms,
    create: (request, caller) => create(rooms, request, caller),
    tellNews: (...payloads) => tell(rooms, ...payloads),
    sweep: (by = rooms) => sweepAll(db.pool, by),
    eventsOf: async (id) => {
      const text = "select payload from outbox where topic = $1 order by seq";
      const { rows } = await db.pool.query<{ payload: Buffer }>(text, [id]);
      const news = rows.map(({ payload }) => OperationNews.decode(payload));
      assert.deepEqual(
        news.map(({ version }) => Number(version)),
        news.map((_, index) => index + 1),
        "versions count from 1",
      );
      return news.map(({ event, status }) => (event.endsWith(`.${status}`) ? event : `${event} (${status})`));
    },
    claimOf: async (id) => {
      const { rows } = await db.pool.query<{ state: string }>("select state from claims where operation_id = $1", [id]);
      return rows[0]?.state;
    },
    close: async () => {
      clocks.close();
      for (const client of Object.values(clients)) client.closeChannel();
      await server.drain();
      await db.close();
    },
  };
}

/** News as the consumers of this room hear them: those of refunds apart. */
export async function tell(rooms: TestRooms, ...payloads: Uint8Array[]): Promise<void> {
  const news = payloads.map((payload) => ({ payload, of_refund: OperationNews.decode(payload).id.startsWith("re_") }));
  await applyNews(
    rooms,
    news.filter(({ of_refund }) => !of_refund),
  );
  await applyOutgoingNews(
    refundKind,
    rooms.refunding,
    news.filter(({ of_refund }) => of_refund),
  );
}

export function requestOf(request: Partial<CreatePaymentRequest> = {}): CreatePaymentRequest {
  return {
    amountMinor: 10_000n,
    assetId: "ast_xof",
    platformId: "plt_mtn_ci",
    payer: { phone: "+2250700000000" },
    ...request,
  };
}

export function callerOf(caller: Partial<Caller> = {}): Caller {
  const operation = newId("pay", 1_790_000_000_000);
  return { ...houseCaller(ACCOUNT, "test", "req_test"), operation, ...caller };
}

async function create(rooms: Creation, request?: Partial<CreatePaymentRequest>, caller?: Partial<Caller>) {
  const created = await createPayment(rooms, requestOf(request), callerOf(caller));
  if (isRefusal(created)) assert.fail(`refused: ${created.refused} ${created.field ?? ""} ${created.message}`);
  return created.payment;
}

async function sweepAll(pool: Pool, rooms: TestRooms): Promise<void> {
  await pool.query(
    `update claims set due_at = clock_timestamp() - interval '1 second',
                       lease_until = case when state = 'running' then clock_timestamp() - interval '2 seconds' end
      where due_at is not null`,
  );
  const errors: unknown[] = [];
  await sweepOnce(pool, LEASE_MS, (due) => sweep(rooms, rooms.refunding, due), {
    error: (fields) => errors.push(fields),
  });
  assert.deepEqual(errors, []);
}

/** The rooms of a process that dies before its n-th effect: from then on nothing of it reaches anyone. */
export function mortal(rooms: TestRooms, dies_before: number): { rooms: TestRooms; effects: () => number } {
  let effects = 0;
  const step = () => {
    effects += 1;
    if (effects >= dies_before) throw new Error("the process is dead");
  };
  const guard = <T extends object>(target: T, names: readonly string[]): T =>
    new Proxy(target, {
      get(of, name) {
        const value = Reflect.get(of, name) as unknown;
        if (typeof value !== "function") return value;
        if (!names.includes(String(name))) return value.bind(of);
        return async (...args: unknown[]) => {
          step();
          return await value.apply(of, args);
        };
      },
    });
  const pool = guard(rooms.pool, ["query", "connect"]);
  const { refunding } = rooms;
  return {
    rooms: {
      ...rooms,
      pool,
      ledger: guard(rooms.ledger, ["post", "postSuspense"]),
      rails: guard(rooms.rails, ["keepPayer", "collect", "ask"]),
      refunding: {
        ...refunding,
        pool,
        ledger: guard(refunding.ledger, ["reserve", "post", "postSuspense"]),
        rails: guard(refunding.rails, ["send", "withhold", "ask"]),
      },
    },
    effects: () => effects,
  };
}

export async function stateOf(room: TestRoom, id: string) {
  const { status, failure_code, payment_url } = await reread(room.db.pool, id);
  return {
    status,
    failure_code,
    payment_url,
    books: room.ledger.booksOf(id),
    events: await room.eventsOf(id),
    claim: await room.claimOf(id),
  };
}

function usualTerms(): Terms {
  return {
    assetKnown: true,
    platformKnown: true,
    corridorKnown: true,
    isOpen: true,
    minAmountMinor: 100n,
    maxAmountMinor: 2_000_000n,
    rails: [{ rail: "mtn_momo", needsPhone: true }],
    fee: { percentBps: 150, fixedMinor: 0n },
    country: "CI",
    currency: "XOF",
    scale: 0,
    merchantName: "Shop",
    destinationTypes: [],
  };
}

type Said = Partial<CollectResponse> & { readonly outcome: AttemptOutcome };
type Attempt = { readonly said: Said; version: bigint };

/** Rails in memory: one attempt per operation; what it says is chosen by the test. */
export class RailsDouble {
  readonly attempts = new Map<string, Attempt>();
  collected = 0;
  /** What a rail says to a new attempt; may wait, and may tell news before it answers. */
  script: (request: { readonly operationId: string }) => Promise<Said> | Said = () => ({
    outcome: AttemptOutcome.PENDING,
  });
  /** Instead of what is known of the attempt. */
  onAsk: ((operation_id: string) => Said) | null = null;
  /** Whether the simulator takes a move. */
  onAdvance: (operation_id: string) => boolean = () => false;
  /** What `KeepPayer` refuses, by field. */
  wrongPayer: string | null = null;

  handlers(): Partial<Handlers<typeof RailsServiceService>> {
    return {
      keepPayer: async () =>
        this.wrongPayer === null
          ? { phone: "+22507*****00" }
          : refuse("invalid_request", "not a valid phone number for CI", { field: this.wrongPayer }),
      collect: (request) => this.#send(request),
      send: (request) => this.#send(request),
      withhold: async ({ order, failureCode }) => {
        const id = order?.operationId ?? "";
        const known = this.attempts.get(id);
        if (known === undefined || nothingThere(known.said.outcome)) {
          this.attempts.set(id, { said: { outcome: AttemptOutcome.WITHHELD, failureCode }, version: 0n });
        }
        return this.#known(id);
      },
      advanceSimulator: async ({ operationId }) => ({ moved: this.onAdvance(operationId) }),
      ask: async ({ operationId }) => {
        if (this.onAsk !== null) return answer(this.onAsk(operationId), 0n);
        return this.#known(operationId);
      },
    };
  }

  async #send(request: { readonly operationId: string }): Promise<CollectResponse> {
    this.collected += 1;
    const known = this.attempts.get(request.operationId);
    if (known === undefined || nothingThere(known.said.outcome)) {
      const said = await this.script(request);
      // News that the script told meanwhile are newer than its own answer.
      const now = this.attempts.get(request.operationId);
      if (now !== undefined && !nothingThere(now.said.outcome)) return answer(said, 1n);
      this.attempts.set(request.operationId, { said, version: nothingThere(said.outcome) ? 0n : 1n });
    }
    return this.#known(request.operationId);
  }

  /** The rail changes its word; the news of it, to be delivered by the test, come back. */
  say(
    payment: Pick<Payment, "id">,
    kind: "pending" | "success" | "failed" | "cancelled" | "returned",
    said: Partial<Said> = {},
  ) {
    const outcomes = {
      pending: AttemptOutcome.PENDING,
      success: AttemptOutcome.SUCCESS,
      failed: AttemptOutcome.FAILED,
      cancelled: AttemptOutcome.CANCELLED,
      returned: AttemptOutcome.RETURNED,
    };
    const version = (this.attempts.get(payment.id)?.version ?? 0n) + 1n;
    const paid = kind === "success" ? { railAmountMinor: 10_000n, railCurrency: "XOF" } : {};
    const now: Said = { ...paid, ...said, outcome: outcomes[kind] };
    this.attempts.set(payment.id, { said: now, version });
    return newsOf(payment.id, kind, version, now);
  }

  #known(id: string): CollectResponse {
    const attempt = this.attempts.get(id);
    return attempt === undefined
      ? answer({ outcome: AttemptOutcome.NOT_FOUND }, 0n)
      : answer(attempt.said, attempt.version);
  }
}

export function newsOf(id: string, kind: string, version: bigint, said: Partial<Said> = {}): Uint8Array {
  return OperationNews.encode(
    OperationNews.fromPartial({
      event: `${id.startsWith("re_") ? "refund" : "collection"}.${kind}`,
      id,
      status: kind,
      version,
      failureCode: said.failureCode ?? "",
      railCurrency: said.railCurrency ?? "",
      rail: "mtn_momo",
      ...(said.railAmountMinor === undefined ? {} : { railAmountMinor: said.railAmountMinor }),
    }),
  ).finish();
}

function answer(said: Said, version: bigint): CollectResponse {
  const there = !nothingThere(said.outcome) && said.outcome !== AttemptOutcome.NOT_FOUND;
  return { rail: there ? "mtn_momo" : "", ...(there ? { paymentUrl: "https://pay.test/1" } : {}), ...said, version };
}

function nothingThere(outcome: AttemptOutcome): boolean {
  return outcome === AttemptOutcome.REFUSED || outcome === AttemptOutcome.UNAVAILABLE;
}

/** A neighbour of which the room calls only some RPCs. */
function partly<D extends Definition>(definition: D, handlers: Partial<Handlers<D>>): Service {
  return service(definition, handlers as Handlers<D>);
}
