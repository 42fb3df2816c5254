// One session of `cauri listen` over as many streams as it takes: each begins where the one before it was left, so that
// nothing is lost or told twice when a gateway restarts, a stream reaches its age or a network fails.

import { setTimeout as sleep } from "node:timers/promises";
import type { ListenNotice, ListenResponse } from "@cauri/proto/es/cauri/webhooks/v1/listen_pb";
import { ConnectError } from "@connectrpc/connect";
import { refusedBy } from "./door.ts";

/** The house says something every fifteen seconds; a line that is silent for three times as long is dead. */
const SILENCE_MS = 45_000;
/** Between streams: at first as short as a restart of one gateway behind a balancer, then patient. */
const PAUSE_MS = { first: 250, most: 5_000 } as const;

/**
 * Event ids that are remembered: a NATS that lost its store is given its events again, up to 48 hours of them, and they come
 * at a new place. More than a developer makes in that time; about a megabyte.
 */
const MEMORY = 10_000;

/** What is asked for, over all streams. */
export type Wanted = {
  readonly secret: string | undefined;
  readonly events: readonly string[];
  readonly standard_headers: boolean;
};

/** What a stream is opened with. */
export type Opening = {
  readonly events: string[];
  readonly standardHeaders: boolean;
  readonly after?: string;
  readonly secret?: string;
};

export type OpenStream = (opening: Opening, signal: AbortSignal) => AsyncIterable<ListenResponse>;

export type Heard =
  | { readonly kind: "opened"; readonly secret: string }
  | { readonly kind: "notice"; readonly notice: ListenNotice }
  /** What happened between the last notice and an hour ago is not told. */
  | { readonly kind: "skipped" }
  /** Told once for each time that the line is lost; `opened` follows when it stands again. */
  | { readonly kind: "lost"; readonly why: string };

export type Waits = { readonly silence_ms: number; readonly first_ms: number; readonly most_ms: number };

const WAITS: Waits = { silence_ms: SILENCE_MS, first_ms: PAUSE_MS.first, most_ms: PAUSE_MS.most };

/** Codes that pass by themselves; every other refusal is final, such as a key that was revoked. */
const PASSING: readonly string[] = ["temporarily_unavailable", "rate_limited", "internal_error"];

/** Tells what is heard until `signal` ends it; throws where connecting again is of no use, or never worked at all. */
export async function* followListener(
  open: OpenStream,
  wanted: Wanted,
  signal: AbortSignal,
  waits: Waits = WAITS,
): AsyncGenerator<Heard> {
  let { secret } = wanted;
  let after: string | undefined;
  let stands = false;
  let failures = 0;
  const isNew = createMemory(MEMORY);
  while (!signal.aborted) {
    const opening: Opening = {
      events: [...wanted.events],
      standardHeaders: wanted.standard_headers,
      ...(after === undefined ? {} : { after }),
      ...(secret === undefined ? {} : { secret }),
    };
    let pause_ms = waits.first_ms;
    try {
      for await (const { message } of unlessSilent(open, opening, signal, waits.silence_ms)) {
        if (message.case === "opened") {
          const is_news = !stands;
          ({ secret, cursor: after } = message.value);
          stands = true;
          failures = 0;
          if (is_news) yield { kind: "opened", secret };
        } else if (message.case === "notice") {
          after = message.value.cursor;
          if (isNew(message.value.eventId)) yield { kind: "notice", notice: message.value };
        } else if (message.case === "skipped") {
          yield { kind: "skipped" };
        }
      }
    } catch (error) {
      if (signal.aborted) return;
      const refused = refusedBy(error);
      if (after === undefined || !PASSING.includes(refused.code)) throw error;
      pause_ms = Math.max(retryAfterMs(error), Math.min(waits.first_ms * 2 ** failures, waits.most_ms));
      failures += 1;
      if (stands) yield { kind: "lost", why: refused.message };
      stands = false;
    }
    await sleep(pause_ms, undefined, { signal }).catch(() => {});
  }
}

/** The messages of one stream; it is broken off when the line stays silent while somebody waits for it. */
async function* unlessSilent(
  open: OpenStream,
  opening: Opening,
  signal: AbortSignal,
  silence_ms: number,
): AsyncGenerator<ListenResponse> {
  const silent = new AbortController();
  const messages = open(opening, AbortSignal.any([signal, silent.signal]))[Symbol.asyncIterator]();
  try {
    for (;;) {
      const timer = setTimeout(() => silent.abort(), silence_ms);
      const next = await messages.next().finally(() => clearTimeout(timer));
      if (next.done) return;
      yield next.value;
    }
  } finally {
    silent.abort();
  }
}

/** Tells what it was not asked before; the oldest is forgotten first. */
function createMemory(most: number): (id: string) => boolean {
  const known = new Set<string>();
  return (id) => {
    if (known.has(id)) return false;
    known.add(id);
    const [oldest] = known.size > most ? known : [];
    if (oldest !== undefined) known.delete(oldest);
    return true;
  };
}

/** How long the house asks to be left alone. */
function retryAfterMs(error: unknown): number {
  const seconds = error instanceof ConnectError ? Number(error.metadata.get("retry-after")) : 0;
  return Number.isFinite(seconds) ? seconds * 1_000 : 0;
}
