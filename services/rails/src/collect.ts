// Sends an operation to a rail exactly once. The attempt row and its lease decide who sends; whoever finds an attempt
// that a dead process left asks the rail before anything is sent again; another rail is tried only while nothing can
// have reached the customer.

import { setTimeout as sleep } from "node:timers/promises";
import { coalescePer } from "@cauri/store/coalescer";
import { type Tx, transact } from "@cauri/store/pool";
import { needsAsking, planCollect, type RailAnswer } from "./attempt.ts";
import {
  type Attempt,
  lockAttempt,
  makeReady,
  openAttempt,
  openSending,
  startSending,
  takeOver,
} from "./attempt-store.ts";
import { askCharge, LEAST_CALL_MS, sendCall } from "./call.ts";
import type { Connector, SentCharge } from "./connector.ts";
import type { House } from "./house.ts";
import { callOf, keeperOf, type Order, type RailCall } from "./order.ts";
import { isFact, recordAccepted, recordAnswers, recordHeard, recordTold } from "./record.ts";
import { nextRail } from "./routing.ts";
import { TOGETHER } from "./together.ts";
import { openSealed, openVault, readSealed } from "./vault-store.ts";

/** How often an attempt that another process sends is looked at. */
const LOOK_EVERY_MS = 50;
/** Kept back of the caller's time for the transaction after the call. */
const RECORD_MS = 300;

/** What a sending ends with: the attempt as it is, and where certainly nothing is out, why. */
export type Collected = { readonly attempt: Attempt; readonly nothing_out: "refused" | "unavailable" | null };

type SendTask = {
  readonly do: "send";
  readonly call: RailCall;
  readonly connector: Connector;
  readonly lease_no: bigint;
  /** The attempt as this sending wrote it for the first time; null: it had been there. */
  readonly fresh: Attempt | null;
};
type Task =
  | SendTask
  | { readonly do: "ask"; readonly connector: Connector; readonly lease_no: bigint; readonly attempt: Attempt }
  | { readonly do: "wait"; readonly attempt: Attempt }
  | { readonly do: "answer"; readonly result: Collected };

/** Runs of this process, so that racing repeats of one operation share one run instead of queueing for its row. */
const running = new WeakMap<House, Map<string, Promise<Collected>>>();

export function collect(house: House, order: Order, deadline_ms: number): Promise<Collected> {
  const mine = running.get(house) ?? new Map<string, Promise<Collected>>();
  running.set(house, mine);
  const known = mine.get(order.operation_id);
  if (known !== undefined) return known;
  const run = collectOnce(house, order, deadline_ms - RECORD_MS).finally(() => mine.delete(order.operation_id));
  mine.set(order.operation_id, run);
  return run;
}

async function collectOnce(house: House, order: Order, until_ms: number): Promise<Collected> {
  const tried = new Set<string>();
  let last: "refused" | "unavailable" | null = null;
  for (let sending = await beginSending(house, order); ; sending = null) {
    const task: Task = sending ?? (await transact(house.pool, (tx) => decide(house, tx, order, tried, last)));
    const left_ms = until_ms - house.clock();
    if (task.do === "answer") return task.result;
    if (task.do === "wait") {
      if (left_ms <= LOOK_EVERY_MS) return { attempt: task.attempt, nothing_out: null };
      await sleep(LOOK_EVERY_MS);
      continue;
    }
    if (task.do === "ask") {
      const answer = await askCharge(house, task.connector, sentCharge(task.attempt), left_ms);
      const attempt = await settleQuestion(house, order.operation_id, answer, task.lease_no);
      if (attempt.state !== "ready") return { attempt, nothing_out: null };
      if (until_ms - house.clock() < LEAST_CALL_MS) return { attempt, nothing_out: "unavailable" };
      continue;
    }
    const answer = await sendCall(house, task.connector, task.call, left_ms);
    const attempt = await settleCall(house, order, task, answer, until_ms - house.clock());
    const certain = answer.outcome === "refused" || answer.outcome === "unavailable" ? answer.outcome : null;
    if (attempt.state !== "ready" || certain === null) return { attempt, nothing_out: null };
    last = certain;
    tried.add(task.call.rail);
    if (order.forced || until_ms - house.clock() < LEAST_CALL_MS) return { attempt, nothing_out: last };
  }
}

/**
 * The usual way, in a statement that orders of the same moment share: an attempt that nobody began is written down as being
 * sent. Null: it is there already, or no rail serves it, and is looked at by itself.
 */
const beginSending = coalescePer<House, Order, SendTask | null>((house) => ({
  run: (orders) => openAll(house, orders),
  ...TOGETHER,
}));

async function openAll(house: House, orders: readonly Order[]): Promise<(SendTask | null | Error)[]> {
  // A refund's details are kept under the id of its collection.
  const of_others = orders.filter((order) => keeperOf(order) !== order.operation_id);
  const others = await readSealed(house.pool, of_others.map(keeperOf));
  const chosen = orders.map((order) => ({ order, ...chooseRail(house, order, order.rails, new Set()) }));
  const served = chosen.flatMap(({ order, rail, connector }) =>
    connector === null ? [] : [{ attempt: order, rail, connector: connector.name }],
  );
  const opened = await openSending(house.pool, served);
  return chosen.map(({ order, rail, connector }) => {
    const { attempt: fresh, sealed } = opened.get(order.operation_id) ?? { attempt: null, sealed: null };
    if (fresh === null || connector === null) return null;
    const keeper = keeperOf(order);
    try {
      const details = openSealed(house.cipher, keeper, keeper === order.operation_id ? sealed : others.get(keeper));
      return { do: "send", connector, lease_no: fresh.lease_no, call: callOf(order, rail, details), fresh };
    } catch (error) {
      // What can't be opened fails alone. Its attempt stands, unsent: once its lease is over, the rail is asked first.
      return error as Error;
    }
  });
}

type Chosen =
  | { readonly rail: string; readonly connector: Connector }
  | { readonly rail: null; readonly connector: null };

function chooseRail(
  house: House,
  { mode, kind, forced }: Order,
  rails: readonly string[],
  tried: ReadonlySet<string>,
): Chosen {
  const isServed = (name: string) => house.registry.serving(name, mode, kind) !== null;
  const rail = nextRail({ rails, forced, tried, isServed, isHealthy: house.health.isHealthy });
  const connector = rail === null ? null : house.registry.serving(rail, mode, kind);
  return rail === null || connector === null ? { rail: null, connector: null } : { rail, connector };
}

/** Under the row's lock: what this caller is to do, with the lease in its hand where that is anything. */
async function decide(
  house: House,
  tx: Tx,
  order: Order,
  tried: ReadonlySet<string>,
  last: "refused" | "unavailable" | null,
): Promise<Task> {
  const attempt = await openAttempt(tx, order);
  assertSame(attempt, order);
  const plan = planCollect(attempt);
  if (plan === "answer") return { do: "answer", result: { attempt, nothing_out: null } };
  if (plan === "wait") return { do: "wait", attempt };
  if (plan === "ask") {
    const connector = attempt.connector === null ? null : house.registry.named(attempt.connector);
    // Its connector is configured no longer: nobody can be asked, so it stays unknown.
    if (connector === null) return { do: "answer", result: { attempt, nothing_out: null } };
    return { do: "ask", connector, lease_no: await takeOver(tx, attempt), attempt };
  }
  const usable = attempt.is_pinned && attempt.rail !== null ? [attempt.rail] : order.rails;
  const { rail, connector } = chooseRail(house, order, usable, tried);
  if (connector === null) return { do: "answer", result: { attempt, nothing_out: last ?? "unavailable" } };
  const details = await openVault(tx, house.cipher, keeperOf(order));
  // Erased for its age, or never kept.
  if (order.kind === "payout" && details === undefined) {
    house.log.error({ operation: order.operation_id }, "a payout without a destination in the vault is refused");
    return { do: "answer", result: { attempt, nothing_out: "refused" } };
  }
  const lease_no = await startSending(tx, attempt, rail, connector.name);
  return { do: "send", connector, lease_no, call: callOf(order, rail, details), fresh: null };
}

/** Takes the answer to a call down. A "no" to what goes out counts once the rail, asked by our reference, repeats it. */
async function settleCall(
  house: House,
  { kind, operation_id, account, mode, reference }: Order,
  { connector, lease_no, call: { rail }, fresh }: SendTask,
  answer: RailAnswer,
  left_ms: number,
): Promise<Attempt> {
  if (needsAsking(kind, answer)) {
    const sent = { rail, account, mode, reference, handoff: {} };
    const asked = await askCharge(house, connector, sent, left_ms);
    if (isFact(asked)) return await recordHeard(house.pool, { operation_id, answer: asked, source: "ask", lease_no });
    return await settleUnknown(house, operation_id, lease_no);
  }
  if (answer.outcome === "unknown") return await settleUnknown(house, operation_id, lease_no);
  const accepted = answer.outcome === "pending" && fresh !== null;
  const known = accepted ? await recordAccepted(house.pool, { attempt: fresh, answer }) : null;
  return known ?? (await recordTold(house.pool, { operation_id, answer, source: "call", lease_no }));
}

async function settleUnknown(house: House, operation_id: string, lease_no: bigint): Promise<Attempt> {
  const answer: RailAnswer = { outcome: "unknown" };
  const attempt = await recordTold(house.pool, { operation_id, answer, source: "call", lease_no });
  house.wakePoller();
  return attempt;
}

/** After a take-over: the rail's word is taken down; where it has nothing, the attempt may be sent again. */
async function settleQuestion(
  house: House,
  operation_id: string,
  answer: RailAnswer,
  lease_no: bigint,
): Promise<Attempt> {
  if (isFact(answer)) return await recordHeard(house.pool, { operation_id, answer, source: "ask", lease_no });
  return await transact(house.pool, async (tx) => {
    const attempt = await locked(tx, operation_id);
    if (answer.outcome === "not_found" && (await makeReady(tx, operation_id, lease_no))) {
      return { ...attempt, state: "ready" };
    }
    const [after] = recordAnswers(tx, [{ attempt, said: { answer, source: "ask", lease_no } }]);
    return after ?? attempt;
  });
}

/** What a rail needs to be asked for an attempt. */
export function sentCharge(attempt: Attempt): SentCharge {
  const { payment_url, deep_link, qr } = attempt;
  return {
    rail: attempt.rail ?? "",
    account: attempt.account,
    mode: attempt.mode,
    reference: attempt.reference,
    handoff: {
      ...(payment_url === null ? {} : { payment_url }),
      ...(deep_link === null ? {} : { deep_link }),
      ...(qr === null ? {} : { qr }),
    },
  };
}

async function locked(tx: Tx, operation_id: string): Promise<Attempt> {
  const attempt = await lockAttempt(tx, operation_id);
  if (attempt === null) throw new Error("an attempt is gone: attempts are never deleted");
  return attempt;
}

/** One operation is one attempt: another amount or owner under its id would be a bug of the caller. */
export function assertSame(attempt: Attempt, order: Order): void {
  const same =
    attempt.kind === order.kind &&
    attempt.account === order.account &&
    attempt.mode === order.mode &&
    attempt.reference === order.reference &&
    attempt.amount_minor === order.amount_minor &&
    attempt.currency === order.currency;
  if (!same) throw new Error("an order names an operation that was begun with other terms");
}
