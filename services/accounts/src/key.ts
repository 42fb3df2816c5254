// An API key without its secret: scopes, end, and what rotation may do. Pure.

import type { Mode } from "@cauri/money/mode";
import { type Refusal, refuse, refuseField } from "@cauri/money/refusal";

/** Every scope, in the order in which keys show them. */
export const SCOPES = [
  "can_initiate_payment",
  "can_payout",
  "can_refund",
  "can_read_transactions",
  "can_manage_webhooks",
] as const;

/** What a key may do when nothing is named: nothing that sends money away or reroutes its news. */
export const DEFAULT_SCOPES: readonly string[] = ["can_initiate_payment", "can_refund", "can_read_transactions"];

export type Key = {
  readonly key_id: string;
  readonly account_id: string;
  readonly mode: Mode;
  readonly scopes: readonly string[];
  readonly name: string;
  readonly created_at: Date;
  readonly revoked_at: Date | null;
  readonly expires_at: Date | null;
  readonly replaced_by: string | null;
};

/** A week: long enough for any deployment, short enough that a leaked old key dies by itself. */
export const OVERLAP_MAX_S = 604_800n;

const NAME_LENGTH_MAX = 80;
const ALL = "all";

/** The scopes asked for, each once and in our order, or the refusal that names the field. */
export function chooseScopes(asked: readonly string[]): readonly string[] | Refusal {
  if (asked.length === 0) return DEFAULT_SCOPES;
  if (asked.includes(ALL)) {
    return asked.every((scope) => scope === ALL) ? SCOPES : refuseField("scopes", `${ALL} stands alone`);
  }
  const known: readonly string[] = SCOPES;
  const unknown = asked.findIndex((scope) => !known.includes(scope));
  if (unknown >= 0) return refuseField(`scopes.${unknown}`, `must be one of ${SCOPES.join(", ")}, or ${ALL} alone`);
  return SCOPES.filter((scope) => asked.includes(scope));
}

/** A name for people, or the refusal that names the field. */
export function checkKeyName(name: string | undefined): string | Refusal {
  const text = (name ?? "").trim();
  if ([...text].length > NAME_LENGTH_MAX) return refuseField("name", `must have at most ${NAME_LENGTH_MAX} characters`);
  if (/\p{Cc}/u.test(text) || !text.isWellFormed()) return refuseField("name", "must not hold control characters");
  return text;
}

/** Whole seconds of overlap, or the refusal that names the field. */
export function checkOverlap(overlap_s: bigint | undefined): number | Refusal {
  const asked = overlap_s ?? 0n;
  if (asked < 0n || asked > OVERLAP_MAX_S)
    return refuseField("overlap_s", `must be from 0 to ${OVERLAP_MAX_S} (7 days)`);
  return Number(asked);
}

/** Why a key cannot be rotated, or null: only a working key that nothing has replaced yet has a successor. */
export function whyNotRotated(key: Key, now: Date): Refusal | null {
  if (key.replaced_by !== null)
    return refuse("precondition_failed", `the key was rotated before, to ${key.replaced_by}`);
  if (key.revoked_at !== null) return refuse("precondition_failed", "the key is revoked: create a new one");
  if (key.expires_at !== null && key.expires_at <= now) {
    return refuse("precondition_failed", "the key has ended: create a new one");
  }
  return null;
}
