// The events of this room, each put into the outbox of the transaction that makes it true.

import { systemClock } from "@cauri/money/clock";
import { newId } from "@cauri/money/ids";
import type { Mode } from "@cauri/money/mode";
import { AccountChanged, ClockAdvanced, KeyChanged, TermsChanged } from "@cauri/proto/ts/cauri/events/v1/events";
import { appendEvents } from "@cauri/store/outbox";
import type { Tx } from "@cauri/store/pool";

const KEY_CHANGED = "cauri.accounts.key.changed";
const ACCOUNT_CHANGED = "cauri.accounts.account.changed";
const TERMS_CHANGED = "cauri.accounts.terms.changed";
const CLOCK_ADVANCED = "cauri.accounts.clock.advanced";

/** A key was created, rotated or revoked: whoever remembers it asks again. */
export async function tellKey(tx: Tx, key: { key_id: string; account_id: string; mode: Mode }): Promise<void> {
  const payload = KeyChanged.encode({ keyId: key.key_id, account: key.account_id }).finish();
  await append(tx, { topic: key.key_id, subject: KEY_CHANGED, payload, account: key.account_id, mode: key.mode });
}

/** The state, the products or the options of an account changed. */
export async function tellAccount(tx: Tx, account: string): Promise<void> {
  const payload = AccountChanged.encode({ account }).finish();
  await append(tx, { topic: account, subject: ACCOUNT_CHANGED, payload, account, mode: "live" });
}

/** Prices or corridors changed, of one account or (null) of everyone. */
export async function tellTerms(tx: Tx, account: string | null): Promise<void> {
  const payload = TermsChanged.encode({ account: account ?? "" }).finish();
  await append(tx, {
    topic: account ?? "terms",
    subject: TERMS_CHANGED,
    payload,
    account: account ?? "",
    mode: "live",
  });
}

/** A test clock was moved on. */
export async function tellClock(tx: Tx, account: string, offset_ms: bigint): Promise<void> {
  const payload = ClockAdvanced.encode({ account, offsetMs: offset_ms }).finish();
  await append(tx, { topic: account, subject: CLOCK_ADVANCED, payload, account, mode: "test" });
}

async function append(
  tx: Tx,
  event: { topic: string; subject: string; payload: Uint8Array; account: string; mode: Mode },
): Promise<void> {
  await appendEvents(tx, [{ id: newId("evt", systemClock()), ...event }]);
}
