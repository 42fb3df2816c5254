// Cursors of the statements of accounts: what names a list, and what its place is made of.

import { cursorOf, foreignCursor, partsOf } from "@cauri/money/cursor";
import type { Refusal } from "@cauri/money/refusal";
import type { Balances } from "./books.ts";
import type { Place } from "./past-store.ts";

/** The last row of a page, and the balances after it in the order of its list. */
export type Cursor = { readonly place: Place; readonly after: Balances };

/** As PostgreSQL writes it: day, time, fraction, zone. */
const TIME = /^((?!0000)\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)(\.\d{1,6})?[+-](0\d|1[0-5])(:[0-5]\d)?$/;
const SUM = /^-?\d{1,19}$/;
/** Of PostgreSQL's integer. */
const MAX_POSITION = 2 ** 31 - 1;

/** `list` is whatever makes one list differ from another: account, stretch, basis. */
export function writeCursor(list: readonly unknown[], { place, after }: Cursor): string {
  const { debits_pending, debits_posted, credits_pending, credits_posted } = after;
  const sums = [debits_pending, debits_posted, credits_pending, credits_posted].map(String);
  return cursorOf([list.map(String).join(" "), place.at, place.recorded_at, place.position, ...sums]);
}

/** The place behind a cursor of this list; null where none was given. */
export function readCursor(list: readonly unknown[], text: string | undefined): Cursor | null | Refusal {
  if (text === undefined || text === "") return null;
  const [of, at, recorded_at, position, ...sums] = partsOf(text);
  const fits =
    of === list.map(String).join(" ") &&
    isTime(at) &&
    isTime(recorded_at) &&
    Number.isInteger(position) &&
    Math.abs(position as number) <= MAX_POSITION &&
    sums.length === 4;
  if (!fits || !sums.every((sum) => typeof sum === "string" && SUM.test(sum))) return foreignCursor();
  const [debits_pending = 0n, debits_posted = 0n, credits_pending = 0n, credits_posted = 0n] = (sums as string[]).map(
    BigInt,
  );
  return {
    place: { at: at as string, recorded_at: recorded_at as string, position: position as number },
    after: { debits_pending, debits_posted, credits_pending, credits_posted },
  };
}

/** The database fails at a day that no calendar has, and a forged cursor is a refusal. */
function isTime(value: unknown): boolean {
  const [, day, time] = (typeof value === "string" && TIME.exec(value)) || [];
  const instant = new Date(`${day}T${time}Z`);
  return !Number.isNaN(instant.getTime()) && instant.toISOString().startsWith(`${day}T${time}`);
}
