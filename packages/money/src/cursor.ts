// Cursors: where a list goes on. Opaque to the caller, and of no use with another list than its own: what a list is called,
// and what its place is made of, its room says.

import { type Refusal, refuseField } from "./refusal.ts";

export function cursorOf(parts: readonly unknown[]): string {
  return Buffer.from(JSON.stringify(parts)).toString("base64url");
}

/** What a cursor was made of; nothing where it is none. */
export function partsOf(cursor: string): unknown[] {
  try {
    const parts: unknown = JSON.parse(Buffer.from(cursor, "base64url").toString());
    return Array.isArray(parts) ? parts : [];
  } catch {
    return [];
  }
}

export function foreignCursor(): Refusal {
  return refuseField("cursor", "is not the next_cursor of this list: begin without one");
}
