// Carries out what was said of a payment: the ledger first, whose answer decides, then one transaction with the state,
// the history and the event. Everything here may be repeated after a crash at any point, and by two runners at once.

import { move } from "@cauri/money/moves";
import { Counter } from "@cauri/rpc/metrics";
import { finishClaims } from "@cauri/store/claims";
import { underClaim } from "@cauri/store/lease";
import type { Lease } from "@cauri/store/operation";
import { appendEvents } from "@cauri/store/outbox";
import { type Log, type Pool, transact } from "@cauri/store/pool";
import { writeTogether } from "@cauri/store/together";
import type { Ledger } from "./ledger.ts";
import {
  assetOf,
  follow,
  isStale,
  newsOf,
  ownWord,
  type Payment,
  type PaymentNews,
  type PaymentStatus,
  paymentMoves,
  type RailWord,
} from "./payment.ts";
import type { Rails } from "./rails.ts";
import { type Change, findPayment, movePayments, recordNews, recordOffer } from "./store.ts";
import { eventOf, type PaymentEvent } from "./view.ts";

/** Each new look means that someone else moved the payment meanwhile; it has fewer states than this. */
const MAX_LOOKS = 5;
export type Rooms = { readonly pool: Pool; readonly ledger: Ledger; readonly rails: Rails; readonly log: Log };

/** A move as the ledger allowed it. */
type Carried = {
  readonly word: RailWord;
  readonly news: PaymentNews;
  readonly to: PaymentStatus;
  readonly event: string | null;
};

const moved = new Counter({
  name: "cauri_payments_moved_total",
  help: "Payments that reached a state.",
  labelNames: ["status", "source"],
});
const mispaid = new Counter({
  name: "cauri_payments_mispaid_total",
  help: "Successes with another amount or currency than their payment's: an operator must settle them. Alarm above 0.",
  labelNames: ["booked"],
});

/**
 * Applies a word to a payment and answers its state afterwards. With a lease the runner's claim ends in the same
 * transaction; without one (news, expiry) the claim is left to its runner or to the sweeper.
 */
export async function applyWord(rooms: Rooms, from: Payment, word: RailWord, lease: Lease | null): Promise<Payment> {
  let payment = from;
  for (let look = 0; look < MAX_LOOKS; look += 1) {
    const news = newsOf(payment, word);
    const drawn = isStale(payment, word) ? null : move(paymentMoves, payment.status, news);
    if (drawn === null) return await keepAside(rooms, payment, word, news, lease);
    const carried = await carryOut(rooms, payment, word, news);
    const written = await write(rooms.pool, { payment, carried, lease });
    if (written !== null) {
      moved.inc({ status: written.status, source: carried.word.source });
      return written;
    }
    payment = await reread(rooms.pool, payment.id);
  }
  throw new Error(`payment ${from.id} moved under us ${MAX_LOOKS} times`);
}

export async function reread(pool: Pool, id: string): Promise<Payment> {
  const payment = await findPayment(pool, id);
  if (payment === null) throw new Error(`payment ${id} is gone`);
  return payment;
}

/** The ledger's part of a move. It is the judge: what is written follows its verdict, not the message that asked. */
async function carryOut(rooms: Rooms, payment: Payment, word: RailWord, news: PaymentNews): Promise<Carried> {
  const arrow = arrowOf(payment, news);
  if (arrow.ledger === "post_suspense" || arrow.ledger === "none") {
    if (arrow.ledger === "post_suspense") await bookMispaid(rooms, payment, word);
    return { word, news, to: arrow.to, event: arrow.event };
  }
  const verdict = await rooms.ledger.post(payment, arrow.ledger);
  switch (follow(news, verdict)) {
    case "write":
      return { word, news, to: arrow.to, event: arrow.event };
    case "post_late":
      await rooms.ledger.post(payment, "post_late");
      return { word, news, to: arrow.to, event: arrow.event };
    case "settle":
      // The money is captured, with its fee: who did it crashed before writing, or is about to write the same.
      return { word, news: "settle", ...settled(payment) };
    case "ask":
      return await askWhy(rooms, payment);
  }
}

/**
 * The hold was given back and it is not written why. News that are about to be written: the rail knows them too. A
 * decision of ours whose process died before writing it: it stands in the books, so it is written now.
 */
async function askWhy(rooms: Rooms, payment: Payment): Promise<Carried> {
  const answer = await rooms.rails.ask(payment, payment.id);
  if (answer.kind === "word" && answer.word.says !== "accept") {
    const news = newsOf(payment, answer.word);
    if (news !== "mispay") return await carryOut(rooms, payment, answer.word, news);
  }
  return await carryOut(rooms, payment, ownWord("give_up", "operator_unavailable"), "reject");
}

async function bookMispaid({ ledger, log }: Rooms, payment: Payment, word: RailWord): Promise<void> {
  const amount_minor = word.paid_minor ?? 0n;
  const asset_id = assetOf(payment, word.paid_currency);
  const booked = amount_minor > 0n && (await ledger.postSuspense(payment, { amount_minor, asset_id }));
  mispaid.inc({ booked: String(booked) });
  log.error(
    { operation: payment.id, amount_minor: String(amount_minor), asset_id, booked },
    "alarm: a rail reports a success with another amount or currency; an operator must settle it",
  );
}

type Move = { readonly payment: Payment; readonly carried: Carried; readonly lease: Lease | null };

/** State, history, event and the end of the claim; null where the payment was not in that state any more. */
const write = writeTogether<Move, Payment>({
  idOf: ({ payment }) => payment.id,
  async write(tx, moves) {
    const rows = await movePayments(
      tx,
      moves.map(({ payment, carried }) => ({ payment, change: changeOf(payment, carried) })),
    );
    const done = moves.flatMap(({ carried }, at) => {
      const row = rows[at] ?? null;
      return row === null ? [] : [{ carried, row }];
    });
    const events = done.flatMap(({ carried: { event }, row }) =>
      event === null ? [] : [eventOf(row, event as PaymentEvent)],
    );
    const news = done.map(({ carried: { word, news: says }, row }) => ({
      payment_id: row.id,
      word,
      says,
      applied: true,
    }));
    // Not awaited: they leave together with the commit, where an error of theirs would surface.
    for (const last of [recordNews(tx, news), appendEvents(tx, events)]) void last.catch(ignore);
    return rows;
  },
  end: finishClaims,
});

function changeOf(payment: Payment, { word, to, event }: Carried): Change {
  const stays = to === payment.status;
  return {
    to,
    told: event !== null,
    failure_code: stays ? payment.failure_code : to === "failed" ? (word.failure_code ?? "unknown") : null,
    rail_version: word.version,
    offer: word.offer,
  };
}

/** Stale news, and news for which no arrow is drawn: kept in the history, they change nothing. */
async function keepAside(
  { pool }: Rooms,
  payment: Payment,
  word: RailWord,
  news: PaymentNews,
  lease: Lease | null,
): Promise<Payment> {
  const entry = { payment_id: payment.id, word, says: news, applied: false };
  if (lease === null) {
    await recordNews(pool, [entry]);
    return payment;
  }
  return await transact(pool, async (tx) => {
    void recordNews(tx, [entry]).catch(ignore);
    // News may have overtaken the answer, which alone holds the payment URL, deep link or QR.
    const [, row] = await Promise.all([underClaim(tx, lease, "finish"), recordOffer(tx, payment.id, word.offer)]);
    return row ?? payment;
  });
}

function arrowOf(payment: Payment, news: PaymentNews) {
  const arrow = move(paymentMoves, payment.status, news);
  if (arrow === null) throw new Error(`payment ${payment.id}: no arrow for ${news} from ${payment.status}`);
  return arrow;
}

function settled(payment: Payment): { readonly to: PaymentStatus; readonly event: string | null } {
  const { to, event } = arrowOf(payment, "settle");
  return { to, event };
}

/** Its error surfaces at the commit (see `Tx`). */
function ignore(): void {}
