// Sends an operation to a rail exactly once. The attempt row and its lease decide who sends; whoever finds an attempt
// that a dead process left asks the rail before anything is sent again; another rail is tried only while nothing can
// have reached the customer.

import { setTimeout as sleep } from "node:timers/promises";
import { type Tx, transact } from "@cauri/store/pool";
import { planCollect, type RailAnswer } from "./attempt.ts";
import {
  type Attempt,
  lockAttempt,
  makeReady,
  type NewAttempt,
  openAttempt,
  startSending,
  takeOver,
} from "./attempt-store.ts";
import { askCharge, LEAST_CALL_MS, sendCharge } from "./call.ts";
import type { Charge, Connector, SentCharge } from "./connector.ts";
import type { House } from "./house.ts";
import { recordAnswer } from "./record.ts";
import { nextRail } from "./routing.ts";
import { openVault } from "./vault-store.ts";

/** How often an attempt that another process sends is looked at. */
const LOOK_EVERY_MS = 50;
/** Kept back of the caller's time for the transaction after the call. */
const RECORD_MS = 300;

export type Order = NewAttempt & {
  /** Open rails by priority. */
  readonly rails: readonly string[];
  readonly forced: boolean;
} & Pick<Charge, "description" | "return_url" | "cancel_url" | "merchant_name">;

/** What a Collect ends with: the attempt as it is, and where certainly nothing is out, why. */
export type Collected = { readonly attempt: Attempt; readonly nothing_out: "refused" | "unavailable" | null };

type Task =
  | { readonly do: "send"; readonly charge: Charge; readonly connector: Connector; readonly lease_no: bigint }
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
  for (;;) {
    const task: Task = await transact(house.pool, (tx) => decide(house, tx, order, tried, last));
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
    const answer = await sendCharge(house, task.connector, task.charge, left_ms);
    const attempt = await settleCall(house, order.operation_id, answer, task.lease_no);
    const certain = answer.outcome === "refused" || answer.outcome === "unavailable" ? answer.outcome : null;
    if (attempt.state !== "ready" || certain === null) return { attempt, nothing_out: null };
    last = certain;
    tried.add(task.charge.rail);
    if (order.forced || until_ms - house.clock() < LEAST_CALL_MS) return { attempt, nothing_out: last };
  }
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
  const rail = nextRail({
    rails: attempt.is_pinned && attempt.rail !== null ? [attempt.rail] : order.rails,
    forced: order.forced,
    tried,
    isServed: (name) => house.registry.serving(name, order.mode) !== null,
    isHealthy: house.health.isHealthy,
  });
  const connector = rail === null ? null : house.registry.serving(rail, order.mode);
  if (rail === null || connector === null) {
    return { do: "answer", result: { attempt, nothing_out: last ?? "unavailable" } };
  }
  const payer = await openVault(tx, house.cipher, order.operation_id);
  const lease_no = await startSending(tx, attempt, rail, connector.name);
  return { do: "send", connector, lease_no, charge: { ...order, rail, payer } };
}

async function settleCall(house: House, operation_id: string, answer: RailAnswer, lease_no: bigint): Promise<Attempt> {
  const attempt = await transact(house.pool, async (tx) =>
    recordAnswer(tx, await locked(tx, operation_id), answer, "call", lease_no),
  );
  if (answer.outcome === "unknown") house.wakePoller();
  return attempt;
}

/** After a take-over: the rail's word is taken down; where it has nothing, the attempt may be sent again. */
function settleQuestion(house: House, operation_id: string, answer: RailAnswer, lease_no: bigint): Promise<Attempt> {
  return transact(house.pool, async (tx) => {
    const attempt = await locked(tx, operation_id);
    if (answer.outcome === "not_found" && (await makeReady(tx, operation_id, lease_no))) {
      return { ...attempt, state: "ready" };
    }
    return recordAnswer(tx, attempt, answer, "ask", lease_no);
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

/** One operation is one charge: another amount or owner under its id would be a bug of the caller. */
function assertSame(attempt: Attempt, order: Order): void {
  const same =
    attempt.account === order.account &&
    attempt.mode === order.mode &&
    attempt.reference === order.reference &&
    attempt.amount_minor === order.amount_minor &&
    attempt.currency === order.currency;
  if (!same) throw new Error("a Collect names an operation that was begun with other terms");
}
