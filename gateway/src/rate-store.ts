// The rate limit's one statement.

import { pgNumArray, pgTextArray } from "@cauri/store/arrays";
import type { Queryable } from "@cauri/store/pool";
import type { RateRule } from "./rate-log.ts";

export type StoreAnswer = {
  readonly delays: readonly number[];
  readonly free: number;
  readonly next_ms: number;
};

export type StoreAnswers = {
  /** In the order of the keys. */
  readonly answers: readonly StoreAnswer[];
  /** When the table's present contents began; another instant than before means that admissions were lost. */
  readonly born_at: string;
  readonly age_ms: number;
};

/** Asks for `calls[i]` admissions of `keys[i]`; the keys are distinct and sorted. */
export async function admitInStore(
  db: Queryable,
  keys: readonly string[],
  calls: readonly number[],
  rule: RateRule,
  at: Date | null = null,
): Promise<StoreAnswers> {
  const { rows } = await db.query<{
    delays: number[];
    free: number;
    next_ms: number;
    born_at: string;
    age_ms: bigint;
  }>(
    `select delays, free, next_ms, born_at::text as born_at, age_ms
     from admit_calls($1::text[], $2::int4[], $3, $4, $5, $6)`,
    [pgTextArray(keys), pgNumArray(calls), rule.limit, rule.window_ms, rule.hold_ms, at],
  );
  const [first] = rows;
  if (first === undefined || rows.length !== keys.length) {
    throw new Error(`${keys.length} keys, ${rows.length} answers of the rate limit`);
  }
  return { answers: rows, born_at: first.born_at, age_ms: Number(first.age_ms) };
}
