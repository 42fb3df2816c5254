// One look at the stream for all who listen at this replica, however many: it stands while somebody listens, and puts each
// test event into the buffers of its account's listeners.

import type { Events } from "@cauri/events/events";
import { endOfStream, openTail, type Passed, type Tail } from "@cauri/events/tail";
import type { Log } from "@cauri/rpc/log";
import { gauge } from "@cauri/rpc/metrics";
import type { Event } from "./arrival-store.ts";
import { eventOf, SUBJECTS } from "./events.ts";
import { type Cursor, writeCursor } from "./listen-cursor.ts";

/** Events that wait here for one listener; what comes on top is read from the stream again, at the listener's pace. */
const MAX_WAITING = 500;

/** What a listener gets. */
export type Heard = { readonly event: Event; readonly cursor: string };

/** The place of the last event that every buffer had its chance to take. */
type Position = { readonly seq: number; readonly cursor: Cursor };

export type Seat = {
  /** Empties the buffer, and tells behind which place it is complete from now on. */
  restart(): Position;
  take(): Heard | undefined;
  /** Something did not fit: once the buffer is empty, the stream is to be read from the last event taken. */
  readonly is_behind: boolean;
  /** Resolves when something may be taken, at the latest after `ms`; true when it was woken. */
  wait(ms: number): Promise<boolean>;
  leave(): void;
};

export type NewsHub = {
  /** Begins to hear an account's test events; throws when the stream cannot be reached. `broken` ends the seat. */
  join(account: string, wants: (event: string) => boolean, broken: () => void): Promise<Seat>;
  close(): void;
};

type Sitting = {
  readonly account: string;
  readonly wants: (event: string) => boolean;
  readonly broken: () => void;
  waiting: Heard[];
  is_behind: boolean;
  wake: () => void;
};

/** Reads one message for the listeners of an account; null for what no listener gets. */
export function hear(passed: Passed): Heard | null {
  const event = eventOf(passed.payload);
  if (event === null || event.mode !== "test") return null;
  return { event, cursor: writeCursor({ time_ns: passed.time_ns, event_id: passed.event_id }) };
}

export function openNewsHub({ events, log }: { readonly events: Events; readonly log: Log }): NewsHub {
  const sitting = new Set<Sitting>();
  const shown = gauge("cauri_webhook_listeners", "Streams of `cauri listen` that this process serves.");
  let running: Promise<Watch> | null = null;

  const stop = () => {
    running?.then((watch) => watch.tail.close()).catch(() => {});
    running = null;
  };
  const breakAll = () => {
    stop();
    for (const one of sitting) one.broken();
  };
  // Whatever the stream was before, it may be another one now: listeners come again with their cursors.
  const forget = events.onReconnect(breakAll);

  const follow = async (watch: Watch) => {
    try {
      for await (const passed of watch.tail) {
        watch.position = { seq: passed.seq, cursor: { time_ns: passed.time_ns, event_id: passed.event_id } };
        offer(sitting, passed);
      }
    } catch (error) {
      log.warn({ err: error }, "the listeners' look at the stream broke off");
    }
    if ((await running) === watch) breakAll();
  };
  const begin = async (): Promise<Watch> => {
    const { seq, time_ns } = await endOfStream(events);
    const tail = await openTail(events, SUBJECTS, { after_seq: seq });
    const watch = { tail, position: { seq, cursor: { time_ns, event_id: null } } };
    void follow(watch);
    return watch;
  };

  return {
    join: async (account, wants, broken) => {
      const one: Sitting = { account, wants, broken, waiting: [], is_behind: false, wake: () => {} };
      sitting.add(one);
      shown.set(sitting.size);
      const leave = () => {
        sitting.delete(one);
        shown.set(sitting.size);
        if (sitting.size === 0) stop();
      };
      try {
        running ??= begin();
        return seatOf(one, await running, leave);
      } catch (error) {
        running = null;
        leave();
        throw error;
      }
    },
    close: () => {
      forget();
      breakAll();
    },
  };
}

type Watch = { readonly tail: Tail; position: Position };

function offer(sitting: ReadonlySet<Sitting>, passed: Passed): void {
  let heard: Heard | null | undefined;
  for (const one of sitting) {
    if (one.account !== passed.account) continue;
    // Read for the first who listens, and only where somebody does.
    heard ??= hear(passed);
    if (heard === null) return;
    if (!one.wants(heard.event.event)) continue;
    if (one.is_behind || one.waiting.length >= MAX_WAITING) one.is_behind = true;
    else one.waiting.push(heard);
    one.wake();
  }
}

function seatOf(one: Sitting, watch: Watch, leave: () => void): Seat {
  return {
    restart: () => {
      one.waiting = [];
      one.is_behind = false;
      return watch.position;
    },
    take: () => one.waiting.shift(),
    get is_behind() {
      return one.is_behind;
    },
    wait: async (ms) => {
      if (one.waiting.length > 0 || one.is_behind) return true;
      const woken = Promise.withResolvers<boolean>();
      const timer = setTimeout(() => woken.resolve(false), ms);
      one.wake = () => woken.resolve(true);
      return woken.promise.finally(() => clearTimeout(timer));
    },
    leave: () => {
      leave();
      one.wake();
    },
  };
}
