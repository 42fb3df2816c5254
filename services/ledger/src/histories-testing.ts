// For tests: histories run against the real engine and the plain model at once. Each history has lanes and ids of its own,
// so that many run side by side; two engines take turns, so that each meets lanes which the other one has moved.

import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { systemClock } from "@cauri/money/clock";
import type { Pool } from "@cauri/store/pool";
import { openAccounts, readAccounts } from "./account-store.ts";
import type { GroupAnswer, GroupOrder } from "./books.ts";
import type { Engine } from "./engine.ts";
import { Model, type ModelEntry } from "./model-testing.ts";
import { CODES, idOf, LANES, type Step } from "./testing.ts";

export type Bench = { readonly pool: Pool; readonly engines: readonly [Engine, Engine] };

/** A history as generated, and the instant that its times count from. */
export type History = { readonly name: string; readonly steps: readonly Step[]; readonly start_ms: number };

/** Groups that are asked for at the same time: all of one lane, so that their order is that of the calls. */
type Burst = { readonly after_ms: number; readonly groups: GroupOrder[] };

const BURST_STEPS = 3;
/** Ends of holds are generated as 0 to 40: spread over about the time that a history takes, many are raced for. */
const STRETCH = 4;
const LAST_END_MS = 41 * STRETCH;

/** Opens the lanes of many histories with one call and starts them. */
export async function openHistories(pool: Pool, many: readonly Omit<History, "start_ms">[]): Promise<History[]> {
  await openAccounts(pool, many.flatMap(namesOf));
  const { rows } = await pool.query<{ now: Date }>("select clock_timestamp() as now");
  const start_ms = rows[0]?.now.getTime() ?? 0;
  return many.map((one) => ({ ...one, start_ms }));
}

/** Runs one history, and throws where an answer, a balance or an entry is not the model's. */
export async function runHistory({ pool, engines }: Bench, history: History): Promise<void> {
  const model = new Model();
  const names = namesOf(history);
  for (const { asset_id, book, code } of names) model.open(asset_id, book, code);
  const times = new Map<string, number>();
  for (const [index, burst] of burstsOf(history).entries()) {
    if (burst.after_ms > 0) await sleep(burst.after_ms);
    // Twice the one, then the other: it decides ahead on what it left, or finds that it was overtaken.
    const engine = engines[Math.floor(index / 2) % 2 === 0 ? 0 : 1];
    const answers = await ask(engine, burst.groups, index % 2 === 0);
    for (const [place, group] of burst.groups.entries()) {
      const answer = answers[place] ?? assert.fail("no answer");
      const lane = laneOf(burst.groups);
      const { expected, now_us } = expect(model, group, answer, times.get(lane) ?? 0);
      times.set(lane, now_us);
      assert.deepEqual(resultsOf(answer), resultsOf(expected), `group ${place} of burst ${index}`);
      assert.equal(answer.accepted, expected.accepted);
    }
  }
  // Reads count a hold as free from its very instant, so all of them have to be over before balances are compared.
  await waitUntil(pool, history.start_ms + LAST_END_MS);
  model.expire(Number.MAX_SAFE_INTEGER);
  for (const account of await readAccounts(pool, names)) {
    const { debits_pending, debits_posted, credits_pending, credits_posted, asset_id, book, code } = account;
    const of = model.state.accounts.get(`${asset_id}/${book}/${code}`);
    assert.deepEqual({ debits_pending, debits_posted, credits_pending, credits_posted }, of?.balances, code);
  }
  const assets = [...new Set(names.map((name) => name.asset_id))];
  assert.deepEqual(byAccount(await readModelEntries(pool, assets)), byAccount(model.state.entries));
}

/**
 * What the model answers. What was recorded now tells the time of its batch, which decides about every hold that ends. A
 * refusal that is not recorded tells none: then the engine may have counted any hold as free whose end was over.
 */
function expect(model: Model, group: GroupOrder, answer: GroupAnswer, last_us: number) {
  const recorded_us = Math.max(0, ...answer.transfers.map((one) => one.recorded_us ?? 0));
  const times_us = recorded_us > last_us ? [recorded_us] : [last_us, ...endsBetween(model, last_us, systemClock())];
  const [first_us = last_us, ...later_us] = times_us;
  const before = later_us.length === 0 ? model.state : structuredClone(model.state);
  const first = { expected: model.post(group, first_us, { lane_time: true }), now_us: first_us };
  if (resultsOf(first.expected) === resultsOf(answer)) return first;
  for (const now_us of later_us) {
    model.state = structuredClone(before);
    const expected = model.post(group, now_us, { lane_time: true });
    if (resultsOf(expected) === resultsOf(answer)) return { expected, now_us };
  }
  return first;
}

/** The ends of open holds from one instant to another, ascending, in microseconds. */
function endsBetween(model: Model, from_us: number, to_ms: number): number[] {
  const ends = [...model.state.holds.values()].flatMap(({ state, expires_ms }) =>
    state === "held" && expires_ms !== null && expires_ms * 1000 > from_us && expires_ms <= to_ms
      ? [expires_ms * 1000]
      : [],
  );
  return ends.sort((a, b) => a - b);
}

/** The entries of the engine in the order of recording, without those of expiries, which the model has no transfers for. */
async function readModelEntries(pool: Pool, assets: readonly string[]): Promise<ModelEntry[]> {
  const { rows } = await pool.query<ModelEntry>(
    `select l.asset_id || '/' || l.book || '/' || a.code as account, t.transfer_id as id, e.debits_posted, e.credits_posted
     from lanes l join transfers t using (lane_id) join accounts a on a.account_id in (t.debit_id, t.credit_id)
     join entries e on e.account_id = a.account_id and e.recorded_at = t.recorded_at and e.position = t.position
     where l.asset_id = any($1) and t.kind <> 'expire' order by t.recorded_at, t.position`,
    [assets],
  );
  return rows;
}

function byAccount(entries: readonly ModelEntry[]): Map<string, ModelEntry[]> {
  return Map.groupBy(entries, (entry) => entry.account);
}

/** In one call, or each group by a caller of its own: in both the lane takes them in the order of the calls. */
async function ask(engine: Engine, groups: readonly GroupOrder[], together: boolean): Promise<GroupAnswer[]> {
  if (together) return await engine.post(groups);
  return (await Promise.all(groups.map((group) => engine.post([group])))).flat();
}

function burstsOf(history: History): Burst[] {
  const bursts: Burst[] = [];
  let steps = 0;
  for (const step of history.steps) {
    const groups = step.groups.map((group) => own(history, group));
    const last = bursts.at(-1);
    const joins = last !== undefined && steps < BURST_STEPS && laneOf(last.groups) === laneOf(groups);
    if (joins) last.groups.push(...groups);
    else bursts.push({ after_ms: step.after_ms, groups: [...groups] });
    steps = joins ? steps + 1 : 1;
  }
  // Every third is asked again after itself: the same answers, or what was missing before is there now.
  return bursts.map(({ after_ms, groups }, index) => ({
    after_ms,
    groups: index % 3 === 2 ? [...groups, ...groups] : groups,
  }));
}

/** Ids are global and lanes are shared by name, so each history has its own; times become those of its start. */
function own(history: History, group: GroupOrder): GroupOrder {
  const id = (text: string) => idOf(`${history.name}/${text}`);
  const transfers = group.transfers.map((one) => ({
    ...one,
    id: id(one.id),
    hold_id: one.hold_id === null ? null : id(one.hold_id),
    expires_ms: one.expires_ms === null ? null : history.start_ms + one.expires_ms * STRETCH,
  }));
  return { ...group, asset_id: assetOf(history, group.asset_id), transfers };
}

function namesOf(history: Pick<History, "name">) {
  return LANES.flatMap(({ asset_id, book }) =>
    CODES.map((code) => ({ code, book, asset_id: assetOf(history, asset_id) })),
  );
}

function assetOf(history: Pick<History, "name">, asset_id: string): string {
  return `${asset_id}_${history.name}`;
}

function laneOf([group]: readonly GroupOrder[]): string {
  return `${group?.asset_id}/${group?.book}`;
}

function resultsOf(answer: GroupAnswer): string {
  return answer.transfers.map((one) => one.result).join();
}

async function waitUntil(pool: Pool, instant_ms: number): Promise<void> {
  const { rows } = await pool.query<{ ms: number }>(
    "select (extract(epoch from clock_timestamp()) * 1000)::float8 as ms",
  );
  const left_ms = instant_ms - (rows[0]?.ms ?? 0);
  if (left_ms > 0) await sleep(left_ms + 1);
}
