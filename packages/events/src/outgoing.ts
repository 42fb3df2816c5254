// Operations that send money out, whatever their kind: carries out what was said of one. The ledger first, whose answer
// decides, then one transaction with the state, the history and the event. Everything here may be repeated after a crash
// at any point, and by two runners at once. How one is created is `outgoing-run.ts`.

import type { FailureCode } from "@cauri/money/failure";
import {
  followVerdict,
  isStaleFor,
  newsFor,
  type OutgoingArrow,
  type OutgoingMoves,
  type OutgoingNews,
  type OutgoingWord,
  ownWord,
} from "@cauri/money/outgoing";
import { Counter } from "@cauri/rpc/metrics";
import type { Sending, Sent } from "@cauri/rpc/sending";
import { finishClaims } from "@cauri/store/claims";
import { underClaim } from "@cauri/store/lease";
import type { Lease } from "@cauri/store/operation";
import { appendEvents } from "@cauri/store/outbox";
import type { OutgoingChange, OutgoingTable } from "@cauri/store/outgoing-table";
import { type Log, type Pool, type Tx, transact } from "@cauri/store/pool";
import { writeTogether } from "@cauri/store/together";
import { operationEvent, type Told } from "./operation-event.ts";
import type { Outgoer, OutgoingLedger } from "./outgoing-ledger.ts";

/** Each new look means that someone else moved the operation meanwhile; it has fewer states than this. */
const MAX_LOOKS = 6;

/** An operation as its room stores it: what is told, sent and booked of it. */
export type OutgoingOperation = Told &
  Sent &
  Outgoer & { readonly rail_version: bigint; readonly failure_code: FailureCode | null };

/** What a room says of its kind of operation. */
export type OutgoingKind<O> = {
  /** In subjects of events. */
  readonly room: string;
  /** In metrics and messages: `payout`. */
  readonly noun: string;
  readonly moves: OutgoingMoves;
  readonly table: OutgoingTable<O>;
};

export type OutgoingRooms = {
  readonly pool: Pool;
  readonly ledger: OutgoingLedger;
  readonly rails: Sending;
  readonly log: Log;
};

export type ApplyWord<O> = (rooms: OutgoingRooms, from: O, word: OutgoingWord, lease: Lease | null) => Promise<O>;

/** What was decided to be written: the word itself, or what the books say came before it. */
type Carried = { readonly word: OutgoingWord; readonly news: OutgoingNews; readonly arrow: OutgoingArrow };

const ALARMS = {
  post_late: "a rail reports a success after a failure; an operator must settle it",
  post_back: "a rail reports a failure after a success; an operator must settle it",
  post_suspense: "a rail reports a success with another amount; an operator must settle it",
} as const;

/**
 * Applies a word to an operation and answers its state afterwards. With a lease the runner's claim ends in the same
 * transaction; without one (news, an operator) the claim is left to its runner or to the sweeper.
 */
export function applyingWords<O extends OutgoingOperation>(kind: OutgoingKind<O>): ApplyWord<O> {
  const counters = countersOf(kind.noun);
  const write = writing(kind);
  return async function apply(rooms, from, word, lease): Promise<O> {
    // What came back had arrived before, though its news are lost, late or stood behind these: nothing else would book it.
    const came_back = word.says === "return" && mayArrive(kind, from) && !isStaleFor(from, word);
    let operation = came_back ? await apply(rooms, from, ownWord("books", "settle"), null) : from;
    for (let look = 0; look < MAX_LOOKS; look += 1) {
      const news = newsFor(operation, word);
      const arrow = isStaleFor(operation, word) ? null : arrowOf(kind, operation, news);
      if (arrow === null) return await keepAside(kind, rooms.pool, operation, word, news, lease);
      const first = await bookOrHeal(kind, rooms, operation, { word, news, arrow }, counters.mispaid);
      const carried = first ?? { word, news, arrow };
      // What heals leaves the lease for the word itself, which comes after it.
      const written = await write(rooms.pool, { operation, ...carried, lease: first === null ? lease : null });
      if (written !== null) {
        counters.moved.inc({ status: written.status, source: carried.word.source });
        if (first === null) return written;
      }
      operation = await reread(kind, rooms.pool, operation.id);
    }
    throw new Error(`${kind.noun} ${from.id} moved under us ${MAX_LOOKS} times`);
  };
}

export async function reread<O>({ noun, table }: OutgoingKind<O>, pool: Pool, id: string): Promise<O> {
  const operation = await table.find(pool, id);
  if (operation === null) throw new Error(`${noun} ${id} is gone`);
  return operation;
}

/**
 * The ledger's part of a move. Null: it stands, the state may follow. Else what is to be written first: the books were
 * ended the other way by someone who crashed before writing it, or who is about to write the same.
 */
async function bookOrHeal<O extends OutgoingOperation>(
  kind: OutgoingKind<O>,
  rooms: OutgoingRooms,
  operation: O,
  { word, news, arrow }: Carried,
  mispaid: Counter<"booked">,
): Promise<Carried | null> {
  const alarm = (booked: boolean, sentence: string) => {
    mispaid.inc({ booked: String(booked) });
    const { paid_minor, paid_currency } = word;
    const fields = { operation: operation.id, paid_minor: String(paid_minor), paid_currency, booked };
    rooms.log.error(fields, `alarm: ${sentence}`);
  };
  switch (arrow.ledger) {
    case "none":
      return null;
    case "capture":
    case "release": {
      const followed = followVerdict(news, await rooms.ledger.post(operation, arrow.ledger));
      if (followed === "write") return null;
      const says = followed === "settle_first" ? "settle" : "reject";
      const healing = ownWord("books", says, says === "reject" ? "unknown" : null);
      const drawn = arrowOf(kind, operation, says);
      if (drawn === null) throw new Error(`${kind.noun} ${operation.id}: no arrow for ${says}`);
      return { word: healing, news: says, arrow: drawn };
    }
    case "post_suspense": {
      const amount_minor = word.paid_minor ?? 0n;
      const asset_id = assetOf(operation, word.paid_currency);
      const odd = { amount_minor, asset_id };
      alarm(amount_minor > 0n && (await rooms.ledger.postSuspense(operation, odd)), ALARMS.post_suspense);
      return null;
    }
    default:
      await rooms.ledger.post(operation, arrow.ledger);
      if (arrow.ledger !== "post_return") alarm(true, ALARMS[arrow.ledger]);
      return null;
  }
}

type Write<O> = Carried & { readonly operation: O; readonly lease: Lease | null };

/** State, history, event and the end of the claim; null where the operation was not in that state any more. */
function writing<O extends OutgoingOperation>({ room, table }: OutgoingKind<O>) {
  return writeTogether<Write<O>, O>({
    idOf: ({ operation }) => operation.id,
    async write(tx, writes) {
      const rows = await table.move(
        tx,
        writes.map((one) => ({ operation: one.operation, change: changeOf(one) })),
      );
      const done = writes.flatMap((one, at) => {
        const row = rows[at] ?? null;
        return row === null ? [] : [{ ...one, row }];
      });
      const events = done.flatMap(({ arrow, row }) =>
        arrow.event === null ? [] : [operationEvent(room, arrow.event, row)],
      );
      const news = done.map(({ row, word, news: says }) => ({ operation_id: row.id, word, says, applied: true }));
      // Not awaited: they leave together with the commit, where an error of theirs would surface.
      for (const last of [table.record(tx, news), appendEvents(tx, events)]) void last.catch(ignore);
      return rows;
    },
    end: finishClaims,
  });
}

function changeOf<O extends OutgoingOperation>({ operation, word, arrow }: Write<O>): OutgoingChange {
  const { to, event } = arrow;
  const stays = to === operation.status;
  return {
    to,
    told: event !== null,
    failure_code: stays ? operation.failure_code : to === "failed" ? (word.failure_code ?? "unknown") : null,
    rail_version: word.version,
    rail: word.rail,
  };
}

/** Stale news, and news for which no arrow is drawn: kept in the history, they change nothing. */
async function keepAside<O extends OutgoingOperation>(
  kind: OutgoingKind<O>,
  pool: Pool,
  operation: O,
  word: OutgoingWord,
  says: OutgoingNews,
  lease: Lease | null,
): Promise<O> {
  const entry = { operation_id: operation.id, word, says, applied: false };
  await transact(pool, async (tx: Tx) => {
    void kind.table.record(tx, [entry]).catch(ignore);
    await underClaim(tx, lease, "finish");
  });
  return lease === null ? operation : await reread(kind, pool, operation.id);
}

/** Null: no arrow is drawn. A draft is at no rail: what is said of it is kept for its runner to find when it asks. */
function arrowOf<O extends OutgoingOperation>({ moves }: OutgoingKind<O>, { status }: O, news: OutgoingNews) {
  return Object.hasOwn(moves, status) ? (moves[status]?.[news] ?? null) : null;
}

/** Whether a success would be booked: it is open, or had been ended the other way. What is booked already stays once. */
function mayArrive<O extends OutgoingOperation>(kind: OutgoingKind<O>, operation: O): boolean {
  return arrowOf(kind, operation, "settle") !== null;
}

/** The asset in which a currency is kept: the operation's own, or the one named after the currency. */
function assetOf(operation: OutgoingOperation, currency: string | null): string {
  return currency === null || currency === operation.currency ? operation.asset_id : `ast_${currency.toLowerCase()}`;
}

function countersOf(noun: string) {
  const moved = new Counter({
    name: `cauri_${noun}s_moved_total`,
    help: `${noun}s that reached a state.`,
    labelNames: ["status", "source"],
  });
  const mispaid = new Counter({
    name: `cauri_${noun}s_mispaid_total`,
    help: `Money that left without being a ${noun}'s success, or came back after it. Alarm above 0.`,
    labelNames: ["booked"],
  });
  return { moved, mispaid };
}

/** Its error surfaces at the commit (see `Tx`). */
function ignore(): void {}
