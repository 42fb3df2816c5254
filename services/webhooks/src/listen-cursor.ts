// Where a listener stands: when the stream took the last event that it got, and which one that was. Time and not a
// sequence number, because a NATS that lost its store counts anew while time goes on. Pure.

export type Cursor = {
  /** By the stream's clock, in nanoseconds since 1970. */
  readonly time_ns: bigint;
  /** Null where no event was got yet. */
  readonly event_id: string | null;
};

/** How far back a listener may begin: a laptop that slept longer has other worries than yesterday's test events. */
export const REACH_MS = 3_600_000;

export function writeCursor({ time_ns, event_id }: Cursor): string {
  return event_id === null ? String(time_ns) : `${time_ns}.${event_id}`;
}

/** Reads what the schema of the door has let through. */
export function readCursor(text: string): Cursor {
  const [time = "", event_id = null] = text.split(".");
  return { time_ns: BigInt(time), event_id };
}

/**
 * Whether events, given in their order from the cursor's time on, lie behind the cursor. Several events may bear its
 * time: those up to its own event were got, those after it were not.
 */
export function createBehind(
  cursor: Cursor,
): (event: { readonly time_ns: bigint; readonly event_id: string }) => boolean {
  let passed = false;
  return ({ time_ns, event_id }) => {
    if (passed || time_ns > cursor.time_ns) return true;
    passed = event_id === cursor.event_id;
    return false;
  };
}
