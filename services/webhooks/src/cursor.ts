// Cursors of the lists of deliveries and attempts: what names a list, and what its place is made of.

import { cursorOf, foreignCursor, partsOf } from "@cauri/money/cursor";
import type { Refusal } from "@cauri/money/refusal";

/** The last row of a page: its time, and its id where two rows may share a time. */
export type Place = { readonly at: Date; readonly id: string };

/** `list` is whatever makes one list differ from another. */
export function writeCursor(list: readonly unknown[], { at, id }: Place): string {
  return cursorOf([nameOf(list), at.getTime(), id]);
}

/** The place behind a cursor of this list; null where none was given. */
export function readCursor(list: readonly unknown[], text: string | undefined): Place | null | Refusal {
  if (text === undefined || text === "") return null;
  const [of, at, id] = partsOf(text);
  if (of === nameOf(list) && Number.isSafeInteger(at) && typeof id === "string")
    return { at: new Date(Number(at)), id };
  return foreignCursor();
}

function nameOf(list: readonly unknown[]): string {
  return list.map((part) => (part instanceof Date ? part.toISOString() : String(part ?? "-"))).join(" ");
}
