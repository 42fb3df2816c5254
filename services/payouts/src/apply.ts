// Carries out what was said of a payout: the ledger first, whose answer decides, then one transaction with the state, the
// history and the event. Everything here may be repeated after a crash at any point, and by two runners at once.

import { operationEvent } from "@cauri/events/operation-event";
import { move } from "@cauri/money/moves";
import { isStaleFor, newsFor, type OutgoingWord, ownWord } from "@cauri/money/outgoing";
import { Counter } from "@cauri/rpc/metrics";
import type { Sending } from "@cauri/rpc/sending";
import { finishClaims } from "@cauri/store/claims";
import { underClaim } from "@cauri/store/lease";
import type { Lease } from "@cauri/store/operation";
import { appendEvents } from "@cauri/store/outbox";
import { type Log, type Pool, type Tx, transact } from "@cauri/store/pool";
import { writeTogether } from "@cauri/store/together";
import type { Ledger } from "./ledger.ts";
import { follow, isPayoutStatus, type Payout, type PayoutNews, type PayoutStatus, payoutMoves } from "./payout.ts";
import { type Change, findPayout, movePayouts, recordNews } from "./store.ts";

/** Each new look means that someone else moved the payout meanwhile; it has fewer states than this. */
const MAX_LOOKS = 6;

export type Rooms = { readonly pool: Pool; readonly ledger: Ledger; readonly rails: Sending; readonly log: Log };

type Arrow = { readonly to: PayoutStatus; readonly ledger: string; readonly event: string | null };

const moved = new Counter({
  name: "cauri_payouts_moved_total",
  help: "Payouts that reached a state.",
  labelNames: ["status", "source"],
});
const mispaid = new Counter({
  name: "cauri_payouts_mispaid_total",
  help: "Money that left without being a payout's success: another amount, or after a failure. Alarm above 0.",
  labelNames: ["booked"],
});

/**
 * Applies a word to a payout and answers its state afterwards. With a lease the runner's claim ends in the same
 * transaction; without one (news, an operator) the claim is left to its runner or to the sweeper.
 */
export async function applyWord(rooms: Rooms, from: Payout, word: OutgoingWord, lease: Lease | null): Promise<Payout> {
  let payout = from;
  for (let look = 0; look < MAX_LOOKS; look += 1) {
    const news = newsFor(payout, word);
    const arrow = isStaleFor(payout, word) ? null : arrowOf(payout, news);
    if (arrow === null) return await keepAside(rooms.pool, payout, word, news, lease);
    const first = await bookOrHeal(rooms, payout, word, news, arrow);
    const carried = first ?? { word, news, arrow };
    // What heals leaves the lease for the word itself, which comes after it.
    const written = await write(rooms.pool, { payout, ...carried, lease: first === null ? lease : null });
    if (written !== null) {
      moved.inc({ status: written.status, source: carried.word.source });
      if (first === null) return written;
    }
    payout = await reread(rooms.pool, payout.id);
  }
  throw new Error(`payout ${from.id} moved under us ${MAX_LOOKS} times`);
}

export async function reread(pool: Pool, id: string): Promise<Payout> {
  const payout = await findPayout(pool, id);
  if (payout === null) throw new Error(`payout ${id} is gone`);
  return payout;
}

type Carried = { readonly word: OutgoingWord; readonly news: PayoutNews; readonly arrow: Arrow };

/**
 * The ledger's part of a move. Null: it stands, the state may follow. Else what is to be written first: the books were
 * ended the other way by someone who crashed before writing it, or who is about to write the same.
 */
async function bookOrHeal(
  rooms: Rooms,
  payout: Payout,
  word: OutgoingWord,
  news: PayoutNews,
  arrow: Arrow,
): Promise<Carried | null> {
  switch (arrow.ledger) {
    case "capture":
    case "release": {
      const followed = follow(news, await rooms.ledger.post(payout, arrow.ledger));
      if (followed === "write") return null;
      const says = followed === "settle_first" ? "settle" : "reject";
      const healing = ownWord("books", says, says === "reject" ? "unknown" : null);
      const drawn = arrowOf(payout, says);
      if (drawn === null) throw new Error(`payout ${payout.id}: no arrow for ${says} from ${payout.status}`);
      return { word: healing, news: says, arrow: drawn };
    }
    case "post_return":
      await rooms.ledger.post(payout, "post_return");
      return null;
    case "post_late":
      await rooms.ledger.post(payout, "post_late");
      tellAlarm(rooms, payout, word, true, "a rail reports a success after a failure; an operator must settle it");
      return null;
    case "post_suspense": {
      const amount_minor = word.paid_minor ?? 0n;
      const asset_id = assetOf(payout, word.paid_currency);
      const booked = amount_minor > 0n && (await rooms.ledger.postSuspense(payout, { amount_minor, asset_id }));
      tellAlarm(
        rooms,
        payout,
        word,
        booked,
        "a rail reports a success with another amount; an operator must settle it",
      );
      return null;
    }
    default:
      return null;
  }
}

function tellAlarm({ log }: Rooms, payout: Payout, word: OutgoingWord, booked: boolean, sentence: string): void {
  mispaid.inc({ booked: String(booked) });
  const { paid_minor, paid_currency } = word;
  log.error({ operation: payout.id, paid_minor: String(paid_minor), paid_currency, booked }, `alarm: ${sentence}`);
}

type Move = Carried & { readonly payout: Payout; readonly lease: Lease | null };

/** State, history, event and the end of the claim; null where the payout was not in that state any more. */
const write = writeTogether<Move, Payout>({
  idOf: ({ payout }) => payout.id,
  async write(tx, moves) {
    const rows = await movePayouts(
      tx,
      moves.map((one) => ({ payout: one.payout, change: changeOf(one) })),
    );
    const done = moves.flatMap((one, at) => {
      const row = rows[at] ?? null;
      return row === null ? [] : [{ ...one, row }];
    });
    const events = done.flatMap(({ arrow, row }) =>
      arrow.event === null ? [] : [operationEvent("payouts", arrow.event, row)],
    );
    const news = done.map(({ row, word, news: says }) => ({ payout_id: row.id, word, says, applied: true }));
    // Not awaited: they leave together with the commit, where an error of theirs would surface.
    for (const last of [recordNews(tx, news), appendEvents(tx, events)]) void last.catch(ignore);
    return rows;
  },
  end: finishClaims,
});

function changeOf({ payout, word, arrow }: Move): Change {
  const { to, event } = arrow;
  const stays = to === payout.status;
  return {
    to,
    told: event !== null,
    failure_code: stays ? payout.failure_code : to === "failed" ? (word.failure_code ?? "unknown") : null,
    rail_version: word.version,
    rail: word.rail,
  };
}

/** Stale news, and news for which no arrow is drawn: kept in the history, they change nothing. */
async function keepAside(
  pool: Pool,
  payout: Payout,
  word: OutgoingWord,
  says: PayoutNews,
  lease: Lease | null,
): Promise<Payout> {
  const keep = (tx: Tx) => recordNews(tx, [{ payout_id: payout.id, word, says, applied: false }]);
  await transact(pool, async (tx) => {
    void keep(tx).catch(ignore);
    await underClaim(tx, lease, "finish");
  });
  return lease === null ? payout : await reread(pool, payout.id);
}

function arrowOf(payout: Payout, news: PayoutNews): Arrow | null {
  const { status } = payout;
  // A draft is at no rail: what is said of it is kept for its runner to find when it asks.
  return isPayoutStatus(status) ? move(payoutMoves, status, news) : null;
}

/** The asset in which a currency is kept: the payout's own, or the one named after the currency. */
function assetOf(payout: Payout, currency: string | null): string {
  return currency === null || currency === payout.currency ? payout.asset_id : `ast_${currency.toLowerCase()}`;
}

/** Its error surfaces at the commit (see `Tx`). */
function ignore(): void {}
