// Keeps an operation from ever being sent, where that can still be certain.

import type { FailureCode } from "@cauri/money/failure";
import { transact } from "@cauri/store/pool";
import { outgoingMoves } from "./attempt.ts";
import { type Attempt, openAttempt, writeWithheld } from "./attempt-store.ts";
import { assertSame } from "./collect.ts";
import type { House } from "./house.ts";
import type { SendOrder } from "./order.ts";

/**
 * The attempt afterwards: `withheld`, or whatever state it had where something may be out already. Its row is written
 * also where no sending has come yet: one that comes later finds it.
 */
export function withhold(house: House, order: SendOrder, failure_code: FailureCode | null): Promise<Attempt> {
  return transact(house.pool, async (tx) => {
    const attempt = await openAttempt(tx, order);
    assertSame(attempt, order);
    if (attempt.state !== "ready") return attempt;
    await writeWithheld(tx, order.operation_id, failure_code);
    return { ...attempt, state: outgoingMoves.ready.withhold.to, failure_code };
  });
}
