// What the tests of claims share: requests of one merchant, claims in their own transactions, and time that has passed.

import assert from "node:assert/strict";
import { systemClock } from "@cauri/money/clock";
import { newId } from "@cauri/money/ids";
import { isRefusal } from "@cauri/money/refusal";
import {
  type Claimed,
  type ClaimRequest,
  claim,
  type DueClaim,
  dueClaims,
  fingerprint,
  type finishClaim,
  peek,
} from "./claims.ts";
import { type Pool, transact } from "./pool.ts";

export const LEASE_MS = 9_000;

/** What ends or moves a claim: finish, erase, tell, decide, yield. */
type Step = typeof finishClaim;

export function claimRequest(change: Partial<ClaimRequest> = {}): ClaimRequest {
  return {
    operation_id: newId("pay", systemClock()),
    account: newId("acct", systemClock()),
    mode: "live",
    route: "POST /v1/payments",
    kind: "payment",
    key: "key-1",
    client_ref: null,
    fingerprint: fingerprint("secret", "POST /v1/payments", { amount_minor: 1500n }),
    lease_ms: LEASE_MS,
    takeover: false,
    ...change,
  };
}

/** Another request of the same merchant: only the minted id differs. */
export function again(first: ClaimRequest, change: Partial<ClaimRequest> = {}): ClaimRequest {
  return { ...first, operation_id: newId("pay", systemClock()), ...change };
}

export const other_payload = fingerprint("secret", "POST /v1/payments", { amount_minor: 1n });

export function claimNow(pool: Pool, wanted: ClaimRequest): ReturnType<typeof claim> {
  return transact(pool, (tx) => claim(tx, wanted));
}

export function sweep(pool: Pool, limit = 1000): Promise<DueClaim[]> {
  return transact(pool, (tx) => dueClaims(tx, { limit, lease_ms: LEASE_MS }));
}

/** Claims and runs the steps, each in its own transaction. */
export async function claimed(pool: Pool, wanted: ClaimRequest, ...steps: Step[]): Promise<Claimed> {
  const lease = await claimNow(pool, wanted);
  assert.ok("claimed" in lease, `not claimed: ${JSON.stringify(lease)}`);
  const { operation_id, lease_no } = lease;
  for (const step of steps) assert.ok(await transact(pool, (tx) => step(tx, operation_id, lease_no)));
  return lease;
}

/** Moves everything about this operation into the past, instead of waiting. */
export async function age(pool: Pool, operation_id: string, ms: number): Promise<void> {
  await pool.query(
    `update claims set lease_until = lease_until - $2 * interval '1 millisecond',
       told_at = told_at - $2 * interval '1 millisecond', due_at = due_at - $2 * interval '1 millisecond',
       created_at = created_at - $2 * interval '1 millisecond'
      where operation_id = $1`,
    [operation_id, ms],
  );
}

/** Both the look and the claim are refused, in the same words, which are the answer. */
export async function assertRefused(
  pool: Pool,
  wanted: ClaimRequest,
  refused: string,
  retry_after_s: number | undefined,
): Promise<string> {
  const [looked, tried] = [await peek(pool, wanted), await claimNow(pool, wanted)];
  assert.ok(isRefusal(looked), `not refused: ${JSON.stringify(looked)}`);
  assert.deepEqual(tried, looked);
  assert.deepEqual([looked.refused, looked.retry_after_s], [refused, retry_after_s]);
  return looked.message;
}
