// What reaches operations that send money out from outside: rails' news, each batch read with one query and applied, one
// operation beside the other, the news of one in their order; and the follow-up of those that stay pending.

import type { OutgoingAnswer, OutgoingWord } from "@cauri/money/outgoing";
import { OperationNews } from "@cauri/proto/ts/cauri/events/v1/events";
import { TOLD_WAIT_MS } from "@cauri/store/claims";
import { type Due, openDue } from "@cauri/store/due";
import { type Consumer, consume, type Delivered } from "./consume.ts";
import type { Events } from "./events.ts";
import type { ApplyWord, OutgoingKind, OutgoingOperation, OutgoingRooms } from "./outgoing.ts";
import { CHECK_EVERY_MS } from "./outgoing-run.ts";
import { eachOf, outgoingWordOf } from "./rail-news.ts";

const LOOK_EVERY_MS = 1_000;
/** The pause after a look that brought nothing to light; longer than the 6 s of a call. */
const LOOK_AGAIN_MS = 7_000;

type Applied<O> = OutgoingKind<O> & { readonly applyWord: ApplyWord<O> };
type Batch = readonly { readonly payload: Uint8Array }[];

/** Consumes `cauri.rails.<noun>.>` under the durable name `<room>-rails-<noun>` unless another is given. */
export function consumeOutgoingNews<O extends OutgoingOperation>(
  kind: Applied<O>,
  events: Events,
  rooms: OutgoingRooms,
  durable: string,
): Consumer {
  const handle = (batch: Delivered[]) => applyOutgoingNews(kind, rooms, batch);
  return consume({ events, durable, subjects: [`cauri.rails.${kind.noun}.>`], handle, log: events.log });
}

type Heard<O> = { readonly operation: O; readonly words: OutgoingWord[] };

/** Applies a batch; when it throws, the whole batch is delivered again, and what was applied is stale then. */
export async function applyOutgoingNews<O extends OutgoingOperation>(
  { table, noun, applyWord }: Applied<O>,
  rooms: OutgoingRooms,
  batch: Batch,
): Promise<void> {
  const news = batch.map(({ payload }) => OperationNews.decode(payload));
  const operations = await table.findAll(rooms.pool, [...new Set(news.map(({ id }) => id))]);
  const heard = new Map<string, Heard<O>>();
  for (const item of news) {
    const operation = operations.get(item.id);
    const word = outgoingWordOf(item);
    if (operation === undefined || word === null) {
      // Rails speaks of an operation only after it was sent: this is a restored database or a foreign message.
      rooms.log.warn({ operation: item.id, event: item.event }, `news of an unknown ${noun} or kind were dropped`);
      continue;
    }
    const known = heard.get(item.id) ?? { operation, words: [] };
    known.words.push(word);
    heard.set(item.id, known);
  }
  await eachOf([...heard.values()], async ({ operation, words }) => {
    let current = operation;
    for (const word of words.sort((a, b) => (a.version < b.version ? -1 : 1))) {
      current = await applyWord(rooms, current, word, null);
    }
  });
}

/**
 * Looks after operations that stay pending. Their end comes by rails' news; should it not, or should a call have been lost
 * before it reached its operator, sending again under the same reference asks first and pays at most once.
 */
export function openFollowUp<O extends OutgoingOperation>(kind: Applied<O>, rooms: OutgoingRooms): Due {
  return openDue<O>({
    name: `follow-up of ${kind.noun}s`,
    every_ms: LOOK_EVERY_MS,
    log: rooms.log,
    take: (options) => kind.table.takeDue(rooms.pool, { ...options, again_ms: CHECK_EVERY_MS }),
    look: (operation) => lookAfter(kind, rooms, operation),
  });
}

async function lookAfter<O extends OutgoingOperation>(
  kind: Applied<O>,
  rooms: OutgoingRooms,
  operation: O,
): Promise<void> {
  const again = () => kind.table.checkWithin(rooms.pool, operation.id, LOOK_AGAIN_MS);
  const answer = await sendAgain(kind, rooms, operation, `follow-up-${operation.id}`).catch(async (error: unknown) => {
    await again();
    throw error;
  });
  if (answer.kind === "unknown") await again();
  if (answer.kind === "word" && answer.word.says !== "accept")
    await kind.applyWord(rooms, operation, answer.word, null);
}

/**
 * Sends an operation again under its reference. One that certainly is nowhere and that no rail takes would wait for ever with
 * its funds reserved, for nobody retries what is pending: after as long as an operation that was told a 5xx waits, it is kept
 * from ever being sent, and has failed.
 */
export async function sendAgain<O extends OutgoingOperation>(
  { table }: OutgoingKind<O>,
  { pool, rails }: OutgoingRooms,
  operation: O,
  request_id: string,
): Promise<OutgoingAnswer> {
  const answer = await rails.send(operation, request_id);
  const is_nowhere = answer.kind === "refused" || answer.kind === "unavailable";
  if (!is_nowhere || !(await table.isUnchangedFor(pool, operation.id, TOLD_WAIT_MS))) return answer;
  return await rails.withhold(operation, request_id, "operator_unavailable");
}
