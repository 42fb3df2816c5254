// Callbacks from operators: authenticated by their connector, kept, answered at once. A signed one is believed; any
// other is a hint, upon which the rail is asked. One that nobody knows yet waits for its attempt.

import { type Tx, transact } from "@cauri/store/pool";
import type { RailAnswer } from "./attempt.ts";
import { lockByReference, pollNow } from "./attempt-store.ts";
import { keepCallback, lockMatchable, markMatched } from "./callback-store.ts";
import type { House } from "./house.ts";
import { recordAnswer } from "./record.ts";

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
  const result = await transact(house.pool, async (tx) => {
    const raw = packCallback(news, body);
    const { repeated } = await keepCallback(tx, house.cipher, { connector: name, callback_id, reference, raw });
    if (repeated) return "repeated";
    return place(tx, { connector: name, callback_id, reference, news });
  });
  house.metrics.received(name, result);
  if (result === "hint") house.wakePoller();
  return { connector_known: true, authentic: true };
}

/** Matches what came before its attempt was known; tells how many found theirs. */
export async function matchWaiting(house: House): Promise<number> {
  const matched = await transact(house.pool, async (tx) => {
    const waiting = await lockMatchable(tx, house.cipher, MATCHED_AT_ONCE);
    let hints = 0;
    for (const { connector, callback_id, reference, raw } of waiting) {
      const result = await place(tx, { connector, callback_id, reference, news: unpackNews(raw) });
      if (result === "hint") hints += 1;
    }
    return { all: waiting.length, hints };
  });
  if (matched.hints > 0) house.wakePoller();
  return matched.all;
}

type Known = {
  readonly connector: string;
  readonly callback_id: string;
  readonly reference: string;
  readonly news: RailAnswer | null;
};

async function place(tx: Tx, callback: Known): Promise<"unmatched" | "hint" | "applied"> {
  const attempt = await lockByReference(tx, callback.connector, callback.reference);
  if (attempt === null) return "unmatched";
  await markMatched(tx, callback.connector, callback.callback_id);
  if (callback.news === null) {
    await pollNow(tx, attempt.operation_id);
    return "hint";
  }
  await recordAnswer(tx, attempt, callback.news, "callback");
  return "applied";
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
