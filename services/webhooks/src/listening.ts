// One listener's stream: what it missed is read from the stream of events at its own pace, then the hub's buffer, and the
// stream again whenever the buffer was too small. Nothing is lost or told twice on the way from one to the other.

import type { Events } from "@cauri/events/events";
import { openTail } from "@cauri/events/tail";
import type { Clock } from "@cauri/money/clock";
import { SUBJECTS } from "./events.ts";
import { type Cursor, createBehind, REACH_MS, readCursor, writeCursor } from "./listen-cursor.ts";
import { type Heard, hear, type NewsHub } from "./news-hub.ts";

/** Shorter than the idle time-outs of proxies, 30 s and up. */
const QUIET_MS = 15_000;
/** A stream ends by itself and its client opens the next one: what a vanished client holds is not held for ever. */
const LIFE_MS = 600_000;

export type Told =
  | { readonly kind: "opened"; readonly cursor: string }
  | { readonly kind: "heard"; readonly heard: Heard }
  | { readonly kind: "quiet" }
  | { readonly kind: "skipped" };

export type Listener = {
  readonly account: string;
  readonly wants: (event: string) => boolean;
  /** As the client gave it. */
  readonly after: string | undefined;
};

/** Thrown where the stream of events broke off: the client is to come again. */
class NewsBroken extends Error {
  readonly unavailable = true;
}

export type ListenRooms = {
  readonly events: Events;
  readonly hub: NewsHub;
  readonly now: Clock;
  readonly quiet_ms?: number;
  readonly life_ms?: number;
};

/** Tells an account's test events until `signal` ends it, its time is over, or the stream of events breaks off. */
export async function* listen(rooms: ListenRooms, listener: Listener, signal: AbortSignal): AsyncGenerator<Told> {
  const broken = new AbortController();
  const over = AbortSignal.any([signal, broken.signal, AbortSignal.timeout(rooms.life_ms ?? LIFE_MS)]);
  const seat = await rooms.hub.join(listener.account, listener.wants, () => broken.abort()).catch(breakOff);
  over.addEventListener("abort", seat.leave, { once: true });
  try {
    let position = seat.restart();
    let cursor = listener.after ?? writeCursor(position.cursor);
    let is_behind = listener.after !== undefined;
    yield { kind: "opened", cursor };
    while (!over.aborted) {
      const heard = is_behind ? undefined : seat.take();
      if (is_behind) {
        for await (const told of catchUp(rooms, listener, cursor, position.seq, over)) {
          if (told.kind === "heard") cursor = told.heard.cursor;
          yield told;
        }
        is_behind = false;
      } else if (heard !== undefined) {
        cursor = heard.cursor;
        yield { kind: "heard", heard };
      } else if (seat.is_behind) {
        position = seat.restart();
        is_behind = true;
      } else if (!(await seat.wait(rooms.quiet_ms ?? QUIET_MS))) {
        yield { kind: "quiet" };
      }
    }
    if (broken.signal.aborted) breakOff();
  } finally {
    over.removeEventListener("abort", seat.leave);
    seat.leave();
  }
}

/** What the stream holds of the account's between a cursor and a sequence number, from where on the buffer is complete. */
async function* catchUp(
  rooms: ListenRooms,
  listener: Listener,
  after: string,
  upto_seq: number,
  over: AbortSignal,
): AsyncGenerator<Told> {
  const oldest_ns = BigInt(rooms.now() - REACH_MS) * 1_000_000n;
  const skips = yield* readOn(rooms, listener, readCursor(after), { oldest_ns, upto_seq }, over);
  if (!skips) return;
  yield { kind: "skipped" };
  yield* readOn(rooms, listener, { time_ns: oldest_ns - 1n, event_id: null }, { oldest_ns, upto_seq }, over);
}

/** Reads on from a cursor; true, with nothing told, where the next event is older than what may be read. */
async function* readOn(
  { events, now, quiet_ms = QUIET_MS }: ListenRooms,
  { account, wants }: Listener,
  cursor: Cursor,
  { oldest_ns, upto_seq }: { readonly oldest_ns: bigint; readonly upto_seq: number },
  over: AbortSignal,
): AsyncGenerator<Told, boolean> {
  const tail = await openTail(events, SUBJECTS, { since_ns: cursor.time_ns }).catch(breakOff);
  const isBehind = createBehind(cursor);
  over.addEventListener("abort", tail.close, { once: true });
  try {
    let said_ms = now();
    for await (const passed of tail.is_empty || over.aborted ? [] : tail) {
      if (passed.seq > upto_seq) break;
      const is_news = isBehind(passed);
      if (is_news && passed.time_ns < oldest_ns) return true;
      const heard = is_news && passed.account === account ? hear(passed) : null;
      if (heard !== null && wants(heard.event.event)) {
        said_ms = now();
        yield { kind: "heard", heard };
      } else if (now() - said_ms > quiet_ms) {
        said_ms = now();
        yield { kind: "quiet" };
      }
      if (passed.is_last) break;
    }
    return false;
  } finally {
    over.removeEventListener("abort", tail.close);
    tail.close();
  }
}

function breakOff(cause?: unknown): never {
  throw new NewsBroken("the stream of events broke off", { cause });
}
