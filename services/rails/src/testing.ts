// For the tests of this room: its parts on a real database, several "processes" of it, and a small gateway that passes
// callbacks in over real HTTP.

import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { systemClock } from "@cauri/money/clock";
import { newId } from "@cauri/money/ids";
import type { Mode } from "@cauri/money/mode";
import { newReference } from "@cauri/money/reference";
import { OperationNews } from "@cauri/proto/ts/cauri/events/v1/events";
import { openCipher } from "@cauri/store/cipher";
import { type Pool, transact } from "@cauri/store/pool";
import { testDatabase } from "@cauri/store/testing";
import { receiveCallback } from "./callback.ts";
import { type Collected, collect } from "./collect.ts";
import { type Connector, openRegistry } from "./connector.ts";
import type { House } from "./house.ts";
import type { CollectOrder } from "./order.ts";
import { writePayer } from "./payer.ts";
import { openHealth } from "./routing.ts";
import { openSimulator, type Simulator } from "./simulator/simulator.ts";
import { keepInVault } from "./vault-store.ts";

export const SECRET = "sim-secret";
export const DELAY_MS = 50;
export const cipher = openCipher(`k1:${Buffer.alloc(32, 7).toString("base64")}`);
const log = { info() {}, warn() {}, error() {} };

export type Process = { readonly house: House; readonly simulator: Simulator };

export type TestRails = {
  readonly pool: Pool;
  readonly admin_url: string;
  /** Another process of the room on the same database. */
  readonly open: (options?: { clock?: () => number; connectors?: readonly Connector[] }) => Process;
  readonly gateway: {
    readonly url: string;
    /** Every callback that came in, with the status it got. */
    readonly seen: { readonly body: string; readonly status: number }[];
    /** While true, callbacks are answered 503 and not passed on. */
    is_down: boolean;
  };
  readonly close: () => Promise<void>;
};

export async function openRails(): Promise<TestRails> {
  const database = await testDatabase("rails", [join(import.meta.dirname, "../migrations")], { max: 20 });
  const { pool } = database;
  const simulators: Simulator[] = [];
  const gateway: { url: string; seen: { body: string; status: number }[]; is_down: boolean } = {
    url: "",
    seen: [],
    is_down: false,
  };
  const open: TestRails["open"] = ({ clock = systemClock, connectors = [] } = {}) => {
    const metrics = { called() {}, received() {}, simulated() {} };
    const simulator = openSimulator({
      pool,
      callback_url: gateway.url,
      pay_url: "https://pay.test",
      secret: SECRET,
      delay_ms: DELAY_MS,
      clock,
      metrics,
      log,
    });
    if (simulator === null) throw new Error("the simulator needs its secret");
    simulators.push(simulator);
    const served = [...connectors, simulator.connector];
    const registry = openRegistry({ test: served, live: served });
    const house = { pool, cipher, registry, health: openHealth(clock), metrics, clock, log, wakePoller() {} };
    return { house, simulator };
  };
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const body = Buffer.concat(chunks);
    const status = gateway.is_down ? 503 : await pass(receiver, request.headers, body);
    gateway.seen.push({ body: body.toString("utf8"), status });
    response.writeHead(status).end();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  gateway.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const receiver = open().house;
  return {
    pool,
    admin_url: database.admin_url,
    open,
    gateway,
    close: async () => {
      await Promise.all(simulators.map((simulator) => simulator.close()));
      server.closeAllConnections();
      server.close();
      await database.close();
    },
  };
}

async function pass(house: House, headers: NodeJS.Dict<string | string[]>, body: Buffer): Promise<number> {
  const flat = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, String(value)]));
  const { authentic } = await receiveCallback(house, "simulator", flat, body);
  return authentic ? 200 : 401;
}

/** An order on `mtn_momo` in CI, unless told otherwise. */
export function orderOf(changes: Partial<CollectOrder> = {}): CollectOrder {
  const mode: Mode = changes.mode ?? "test";
  return {
    kind: "collection",
    operation_id: newId("pay", systemClock()),
    account: newId("acct", systemClock()),
    mode,
    reference: newReference("PAY", mode),
    amount_minor: 1500n,
    asset_id: "ast_xof",
    currency: "XOF",
    scale: 0,
    platform_id: "plt_mtn_ci",
    expires_at: new Date(systemClock() + 3_600_000),
    rails: ["mtn_momo"],
    forced: false,
    description: null,
    return_url: "https://shop.test/back",
    cancel_url: "https://shop.test/cancelled",
    merchant_name: "Chez Awa",
    ...changes,
  };
}

/** A phone of CI whose last two digits choose the row. */
export const phoneOf = (digits: string) => `+22507070707${digits}`;

/** Keeps the payer and collects, as collections does. */
export async function collectFrom(house: House, order: CollectOrder, phone?: string): Promise<Collected> {
  if (phone !== undefined)
    await transact(house.pool, (tx) =>
      keepInVault(tx, house.cipher, order, { plain: writePayer({ phone }), retention: "transient" }),
    );
  return collect(house, order, systemClock() + 60_000);
}

/** The room's news of an operation in the order of their versions. */
export async function newsOf(pool: Pool, operation_id: string): Promise<OperationNews[]> {
  const { rows } = await pool.query<{ payload: Buffer }>("select payload from outbox where topic = $1 order by seq", [
    operation_id,
  ]);
  return rows.map(({ payload }) => OperationNews.decode(payload));
}

/** Moves the test clock of an account. */
export async function moveClock(pool: Pool, account: string, ms: number): Promise<void> {
  await pool.query(
    `insert into clocks as c (account, offset_ms) values ($1, $2)
     on conflict (account) do update set offset_ms = c.offset_ms + excluded.offset_ms`,
    [account, ms],
  );
}

/** Asks until it holds; the bound only ends a test that hangs. */
export async function until(what: string, holds: () => Promise<boolean>): Promise<void> {
  for (let tries = 0; tries < 3_000; tries += 1) {
    if (await holds()) return;
    await sleep(20);
  }
  throw new Error(`it never came true: ${what}`);
}
