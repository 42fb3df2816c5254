// A runner's lease inside its transactions: named by each of its writes, or the runner stops.

import { type Refusal, refuse } from "@cauri/money/refusal";
import { decideClaim, eraseClaim, finishClaim, tellUnfinished } from "./claims.ts";
import type { Lease } from "./operation.ts";
import type { Tx } from "./pool.ts";

/** Another runner has taken the operation over: this one stops, whatever it was doing. */
export class LeaseLost extends Error {
  override readonly name = "LeaseLost";
}

const ENDS = { finish: finishClaim, erase: eraseClaim, tell: tellUnfinished, decide: decideClaim } as const;

/** Part of each of a runner's transactions: touches one row, or the runner stops. Without a lease there is no runner. */
export async function underClaim(tx: Tx, lease: Lease | null, step: keyof typeof ENDS): Promise<void> {
  if (lease === null) return;
  if (!(await ENDS[step](tx, lease.operation_id, lease.lease_no))) throw new LeaseLost(lease.operation_id);
}

/** Another runner goes on with it: whoever still waits here asks again and finds its result. */
export function whenOvertaken(error: unknown): Refusal {
  if (!(error instanceof LeaseLost)) throw error;
  return refuse("concurrent_request", "another request goes on with this operation", { retry_after_s: 1 });
}

/** References are random: a clash is rarer than a crash, and the work is simply done with another one. */
const REFERENCE_ATTEMPTS = 3;

/** Runs work that mints a reference, again where the unique constraint says that the reference is taken. */
export async function withFreshReference<T>(constraint: string, work: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await work();
    } catch (error) {
      const clashed = error instanceof Error && "constraint" in error && error.constraint === constraint;
      if (attempt === REFERENCE_ATTEMPTS || !clashed) throw error;
    }
  }
}
