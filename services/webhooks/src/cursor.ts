// Cursors: where a list goes on. Opaque to the caller, and of no use with another list than its own.

import { type Refusal, refuseField } from "@cauri/money/refusal";

/** The last row of a page: its time, and its id where two rows may share a time. */
export type Place = { readonly at: Date; readonly id: string };

/** `list` is whatever makes one list differ from another. */
export function writeCursor(list: readonly unknown[], { at, id }: Place): string {
  return Buffer.from(JSON.stringify([nameOf(list), at.getTime(), id])).toString("base64url");
}

/** The place behind a cursor of this list; null where none was given. */
export function readCursor(list: readonly unknown[], text: string | undefined): Place | null | Refusal {
  if (text === undefined || text === "") return null;
  const [of, at, id] = partsOf(text);
  if (of === nameOf(list) && Number.isSafeInteger(at) && typeof id === "string")
    return { at: new Date(Number(at)), id };
  return refuseField("cursor", "is not the next_cursor of this list: begin without one");
}

function nameOf(list: readonly unknown[]): string {
  return list.map((part) => (part instanceof Date ? part.toISOString() : String(part ?? "-"))).join(" ");
}

function partsOf(text: string): unknown[] {
  try {
    const parts: unknown = JSON.parse(Buffer.from(text, "base64url").toString());
    return Array.isArray(parts) ? parts : [];
  } catch {
    return [];
  }
}
