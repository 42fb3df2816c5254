// Callbacks from operators: authenticated by their connector, kept, answered at once. A signed one is believed; any
// other is a hint, upon which the rail is asked. One that nobody knows yet waits for its attempt.

import { coalescePer } from "@cauri/store/coalescer";
import { type Tx, transact } from "@cauri/store/pool";
import { needsAsking, type RailAnswer } from "./attempt.ts";
import { type Attempt, lockByReferences } from "./attempt-store.ts";
import { keepCallbacks, lockMatchable, markMatched, type StoredCallback } from "./callback-store.ts";
import type { House } from "./house.ts";
import { pollNow } from "./poll-store.ts";
import { recordAll } from "./record.ts";
import { TOGETHER } from "./together.ts";

/** Header names in lower case. */
export type IncomingHeaders = { readonly [name: string]: string | undefined };

export type Received = { readonly connector_known: boolean; readonly authentic: boolean };

const MATCHED_AT_ONCE = 100;

export async function receiveCallback(
  house: House,
  name: string,
  headers: IncomingHeaders,
  body: Buffer,
): Promise<Received> {
  const connector = house.registry.named(name);
  if (connector === null) return { connector_known: false, authentic: false };
  const reading = connector.readCallback(headers, body, house.clock());
  if (!reading.authentic) {
    house.metrics.received(name, "forged");
    return { connector_known: true, authentic: false };
  }
  const { callback_id, reference, news } = reading;
  const raw = packCallback(news, body);
  const result = await take(house, { connector: name, callback_id, reference, raw, news });
  house.metrics.received(name, result);
  if (result === "hint") house.wakePoller();
  return { connector_known: true, authentic: true };
}

type Callback = StoredCallback & {
  /** Null: a hint. */
  readonly news: RailAnswer | null;
};
type Result = "repeated" | "unmatched" | "hint" | "applied";

/** Callbacks of the same moment share a transaction. */
const take = coalescePer<House, Callback, Result>((house) => ({
  run: (callbacks) => transact(house.pool, (tx) => takeAll(house, tx, callbacks)),
  ...TOGETHER,
}));

async function takeAll(house: House, tx: Tx, callbacks: readonly Callback[]): Promise<Result[]> {
  // Both leave in one packet: the attempts of repeated ones are locked in vain, which is rare.
  const keeping = keepCallbacks(tx, house.cipher, callbacks);
  const attempts = await lockOf(tx, callbacks);
  const kept = await keeping;
  const matched = callbacks.filter((_, at) => kept[at] === "matched");
  const hints = await place(tx, matched, attempts);
  return callbacks.map((callback, at) => {
    const became = kept[at] ?? "unmatched";
    return became === "matched" ? (hints[matched.indexOf(callback)] ? "hint" : "applied") : became;
  });
}

/** Matches what came before its attempt was known; tells how many found theirs. */
export async function matchWaiting(house: House): Promise<number> {
  const waiting = await transact(house.pool, async (tx) => {
    const stored = await lockMatchable(tx, house.cipher, MATCHED_AT_ONCE);
    if (stored.length === 0) return [];
    const callbacks = stored.map((callback) => ({ ...callback, news: unpackNews(callback.raw) }));
    await markMatched(tx, callbacks);
    return await place(tx, callbacks, await lockOf(tx, callbacks));
  });
  if (waiting.some((is_hint) => is_hint)) house.wakePoller();
  return waiting.length;
}

function lockOf(tx: Tx, callbacks: readonly Callback[]): Promise<Map<string, Attempt>> {
  return lockByReferences(tx, [...new Set(callbacks.map(({ reference }) => reference))]);
}

/**
 * Places callbacks in their attempts, locked and by reference. Answers which of them are hints, upon which the rail is
 * asked: those that nobody signed, and a "no" to what goes out, which only the rail itself may say.
 */
async function place(
  tx: Tx,
  callbacks: readonly Callback[],
  attempts: ReadonlyMap<string, Attempt>,
): Promise<boolean[]> {
  const placed = callbacks.map(({ reference, news }) => {
    const attempt = attempts.get(reference);
    if (attempt === undefined) throw new Error("an attempt is gone: attempts are never deleted");
    return { ...attempt, news, is_hint: news === null || needsAsking(attempt.kind, news) };
  });
  await pollNow(
    tx,
    placed.flatMap(({ operation_id, is_hint }) => (is_hint ? [operation_id] : [])),
  );
  await recordAll(
    tx,
    placed.flatMap(({ operation_id, news }) =>
      news === null ? [] : [{ operation_id, answer: news, source: "callback" as const, lease_no: null }],
    ),
    new Map([...attempts.values()].map((attempt) => [attempt.operation_id, attempt])),
  );
  return placed.map(({ is_hint }) => is_hint);
}

/**
 * What is sealed: the verdict on the message, then the message. The signature was checked when it came; when it is
 * matched hours later its stamp would be out of tolerance, so the verdict is kept instead of being found again.
 */
function packCallback(news: RailAnswer | null, body: Buffer): Buffer {
  const verdict = JSON.stringify(news, (_key, value) => (typeof value === "bigint" ? `${value}n` : value));
  return Buffer.concat([Buffer.from(`${verdict}\n`, "utf8"), body]);
}

function unpackNews(raw: Buffer): RailAnswer | null {
  const verdict = raw.subarray(0, raw.indexOf("\n")).toString("utf8");
  const revive = (key: string, value: unknown) => (key === "amount_minor" ? BigInt(String(value).slice(0, -1)) : value);
  return JSON.parse(verdict, revive) as RailAnswer | null;
}
