// A statement's arithmetic, pure: the balances after each line, and whether the lines lead from opening to closing.

import type { Balances } from "./books.ts";
import type { Movement } from "./past-store.ts";
import { differenceOf } from "./replay.ts";

export type Line = { readonly movement: Movement; readonly after: Balances };

export function statementLines(
  before: Balances,
  movements: readonly Movement[],
  closing: Balances,
): { readonly lines: readonly Line[]; readonly last: Balances; readonly adds_up: boolean } {
  let last = before;
  const lines = movements.map((movement) => {
    last = plus(last, movement.change);
    return { movement, after: last };
  });
  return { lines, last, adds_up: differenceOf(last, closing) === null };
}

function plus(a: Balances, b: Balances): Balances {
  return {
    debits_pending: a.debits_pending + b.debits_pending,
    debits_posted: a.debits_posted + b.debits_posted,
    credits_pending: a.credits_pending + b.credits_pending,
    credits_posted: a.credits_posted + b.credits_posted,
  };
}
