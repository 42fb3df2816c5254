// The simulated operator: an outside system in the same process. It keeps its own books, answers as its table of rows
// says, and calls back over HTTP. Connectors of real operators speak to something like this over the internet.

import { randomBytes } from "node:crypto";
import { formatMinor } from "@cauri/money/amount";
import type { Clock } from "@cauri/money/clock";
import { deriveUuid, newId } from "@cauri/money/ids";
import { coalescePer } from "@cauri/store/coalescer";
import { type Pool, type Tx, transact } from "@cauri/store/pool";
import { type AttemptKind, isOutgoing, type RailAnswer } from "../attempt.ts";
import type { Charge, Disbursement, Reversal } from "../connector.ts";
import {
  answerFor,
  type ChargeState,
  type Decision,
  newsOfDecision,
  nextState,
  type Page,
  pageOf,
  type SimCharge,
} from "./charge.ts";
import {
  isSimulatedRail,
  payoutRowOf,
  type Row,
  refundRowOf,
  rowOf,
  simulatedPayoutRails,
  simulatedRails,
} from "./outcome.ts";
import { paymentQr } from "./qr.ts";
import {
  acceptCharge,
  dropScheduled,
  insertCharges,
  lockByToken,
  lockCharge,
  type Scheduled,
  type SimEvent,
  scheduleEvents,
} from "./store.ts";

const MINUTE_MS = 60_000;
const TOKEN_BYTES = 32;
/** Charges booked in one transaction, and how many may wait for the next one. */
const MAX_BATCH = 100;
const MAX_WAITING = 2_000;

/** What the operator's side of the wire does instead of answering: an HTTP status, or no connection at all. */
export class OperatorFault extends Error {
  override readonly name = "OperatorFault";
  /** Null: nobody answered the connection. */
  readonly status: number | null;

  constructor(status: number | null) {
    super(status === null ? "the operator cannot be reached" : `the operator answered ${status}`);
    this.status = status;
  }
}

export type Operator = {
  readonly collect: (charge: Charge) => Promise<RailAnswer>;
  readonly payOut: (disbursement: Disbursement) => Promise<RailAnswer>;
  readonly giveBack: (reversal: Reversal) => Promise<RailAnswer>;
  readonly ask: (reference: string) => Promise<RailAnswer>;
  readonly page: (token: string) => Promise<Page | null>;
  readonly decide: (token: string, decision: Decision) => Promise<Page | null>;
  /** Drives a charge as its payer would, or a payout as its operator would; false where no arrow is drawn. */
  readonly advance: (reference: string, to: Driven, kind: AttemptKind) => Promise<boolean>;
};

export type OperatorOptions = {
  readonly pool: Pool;
  /** Where hosted pages live. */
  readonly pay_url: string;
  readonly delay_ms: number;
  /** For the time inside new ids alone. */
  readonly clock: Clock;
  /** Tells now, once, what is due of this charge; what fails is repeated by the loop. */
  readonly deliverNow: (reference: string) => Promise<void>;
};

export function openOperator(options: OperatorOptions): Operator {
  const { pool } = options;
  /** A move that somebody decides now: it takes the place of what was scheduled, and its callback leaves at once. */
  const drive = async (find: (tx: Tx) => Promise<SimCharge | null>, event: Pick<SimEvent, "news" | "failure_code">) => {
    const driven = await transact(pool, async (tx) => {
      const charge = await find(tx);
      if (charge === null || nextState(charge.state, event.news) === null) return { charge, is_moved: false };
      await dropScheduled(tx, charge.reference);
      await scheduleEvents(tx, [{ event: eventFor(options, charge, event.news, event.failure_code, 1), after_ms: 0 }]);
      // Locked once more, it lets happen what is due: this.
      return { charge: await lockCharge(tx, charge.reference), is_moved: true };
    });
    if (driven.is_moved && driven.charge !== null) await options.deliverNow(driven.charge.reference);
    return driven;
  };
  return {
    collect: (charge) => takeCharge(options, charge),
    payOut: (disbursement) => takePayout(options, disbursement),
    giveBack: (reversal) => takeRefund(options, reversal),
    async ask(reference) {
      const charge = await transact(pool, (tx) => lockCharge(tx, reference));
      return charge === null ? { outcome: "not_found" } : answerFor(charge);
    },
    async page(token) {
      const charge = await transact(pool, (tx) => lockByToken(tx, token));
      return charge === null ? null : pageOf(charge);
    },
    async decide(token, decision) {
      const news = newsOfDecision[decision];
      const failure_code = decision === "decline" ? "payer_rejected" : null;
      // Only an open page decides: a payer can't undo what he said, nor pay what has run out.
      const open = async (tx: Tx) => {
        const charge = await lockByToken(tx, token);
        return charge?.state === "pending" ? charge : null;
      };
      const driven = await drive(open, { news, failure_code });
      if (driven.charge !== null) return pageOf(driven.charge);
      const decided = await transact(pool, (tx) => lockByToken(tx, token));
      return decided === null ? null : pageOf(decided);
    },
    async advance(reference, to, kind) {
      return (await drive((tx) => lockCharge(tx, reference), drivenBy(kind, to))).is_moved;
    },
  };
}

type Driven = "success" | "failed" | "refunded";

/** What a driven outcome is in the operator's books. A payout has no payer who could have said no. */
function drivenBy(kind: AttemptKind, to: Driven): Pick<SimEvent, "news" | "failure_code"> {
  if (to === "success") return { news: "settle", failure_code: null };
  if (to === "refunded") return { news: "return", failure_code: null };
  return { news: "reject", failure_code: isOutgoing(kind) ? "unknown" : "payer_rejected" };
}

async function takeCharge(options: OperatorOptions, order: Charge): Promise<RailAnswer> {
  const { rail } = order;
  // Real operators answer 400 to what they don't serve; routing and the corridor's data keep it from happening.
  if (!isSimulatedRail(rail)) throw new OperatorFault(400);
  if (simulatedRails[rail].needs_phone && order.payer.phone === undefined) throw new OperatorFault(400);
  return await act(options, { ...order, kind: "collection" }, rowOf(order.mode, order.payer.phone));
}

async function takePayout(options: OperatorOptions, order: Disbursement): Promise<RailAnswer> {
  if (!simulatedPayoutRails.includes(order.rail)) throw new OperatorFault(400);
  const asked = { ...order, kind: "payout", return_url: null, cancel_url: null, expires_at: null } as const;
  return await act(options, asked, payoutRowOf(order.mode, order.destination));
}

/** An operator gives back what it has collected, and no more than that. */
async function takeRefund(options: OperatorOptions, order: Reversal): Promise<RailAnswer> {
  if (!isSimulatedRail(order.rail)) throw new OperatorFault(400);
  const charge = await transact(options.pool, (tx) => lockCharge(tx, order.of_reference));
  if (charge?.state !== "success" || charge.amount_minor < order.amount_minor) throw new OperatorFault(422);
  const asked = { ...order, kind: "refund", return_url: null, cancel_url: null, expires_at: null } as const;
  return await act(options, asked, refundRowOf(order.mode, order.payer.phone));
}

/** What the operator is asked for: of whom or to whom its table has already looked at. */
type Asked = Omit<Disbursement, "destination"> & Pick<SimCharge, "kind" | "return_url" | "cancel_url" | "expires_at">;

/** Acts a row of the table out. */
async function act(options: OperatorOptions, order: Asked, row: Row): Promise<RailAnswer> {
  if (row.answer === "unavailable") throw new OperatorFault(null);
  const taken = await take(options, order, row);
  if (taken.charge.state === "turned_down") throw new OperatorFault(422);
  if (!taken.is_new) return answerFor(taken.charge);
  if (row.answer === "error_after_accepting") throw new OperatorFault(500);
  if (row.answer === "callback_first") {
    await options.deliverNow(taken.charge.reference);
    return answerFor({ ...taken.charge, state: "pending" });
  }
  return answerFor(taken.charge);
}

type Taken = { readonly charge: SimCharge; readonly is_new: boolean };

/** Books a charge by its row. A reference that is booked already is answered as it stands: the operator charges once. */
async function take(options: OperatorOptions, order: Asked, row: Row): Promise<Taken> {
  const fresh = chargeFor(options, order, firstState(row), row);
  const later = fresh.state === "turned_down" ? [] : scheduledFor(options, fresh, row);
  if (await book(options.pool, { charge: fresh, later })) return { charge: fresh, is_new: true };
  return await transact(options.pool, async (tx) => {
    const known = await lockCharge(tx, order.reference);
    if (known === null) throw new Error("a charge of the simulator is gone: charges are never deleted");
    if (known.state !== "turned_down") return { charge: known, is_new: false };
    const accepted = await acceptCharge(tx, known);
    await scheduleEvents(tx, scheduledFor(options, accepted, row));
    return { charge: accepted, is_new: true };
  });
}

type Booking = { readonly charge: SimCharge; readonly later: readonly Scheduled[] };

/** Charges of the same moment share a transaction; whether each was new. */
const book = coalescePer<Pool, Booking, boolean>((pool) => ({
  run: (bookings) => transact(pool, (tx) => bookAll(tx, bookings)),
  max_batch: MAX_BATCH,
  max_waiting: MAX_WAITING,
  retry_alone: true,
}));

async function bookAll(tx: Tx, bookings: readonly Booking[]): Promise<boolean[]> {
  const inserted = await insertCharges(
    tx,
    bookings.map(({ charge }) => charge),
  );
  // Of two with one reference the first is the one that was inserted.
  const are_new = bookings.map(({ charge }) => inserted.delete(charge.reference));
  const later = bookings.flatMap((booking, at) => (are_new[at] ? booking.later : []));
  // Not awaited: it leaves together with the commit, where its error would surface.
  void scheduleEvents(tx, later).catch(() => {});
  return are_new;
}

function firstState(row: Row): ChargeState {
  switch (row.answer) {
    case "success":
      return "success";
    case "failed":
      return "failed";
    case "refused_once":
      return "turned_down";
    default:
      return "pending";
  }
}

/** What happens to a charge later, by its row. */
function scheduledFor(options: OperatorOptions, charge: SimCharge, row: Row): Scheduled[] {
  if (row.answer === "callback_first") return [{ event: eventFor(options, charge, "settle", null, 1), after_ms: 0 }];
  const pauses_ms = { delay: options.delay_ms, two_delays: 2 * options.delay_ms, minute: MINUTE_MS };
  return (row.later ?? []).map(({ after, news, callbacks }) => ({
    event: eventFor(options, charge, news, null, callbacks),
    after_ms: pauses_ms[after],
  }));
}

function eventFor(
  options: OperatorOptions,
  charge: SimCharge,
  news: SimEvent["news"],
  failure_code: SimEvent["failure_code"],
  copies: 0 | 1 | 2,
): SimEvent {
  const { reference, account, mode } = charge;
  return { event_id: newId("evt", options.clock()), reference, account, mode, news, failure_code, copies };
}

function chargeFor(options: OperatorOptions, order: Asked, state: ChargeState, row: Row): SimCharge {
  const token = randomBytes(TOKEN_BYTES).toString("base64url");
  const { kind, rail } = order;
  const gives: readonly string[] = kind === "collection" && isSimulatedRail(rail) ? simulatedRails[rail].gives : [];
  const payment_url = `${options.pay_url.replace(/\/$/, "")}/simulator/${token}`;
  return {
    kind,
    reference: order.reference,
    account: order.account,
    mode: order.mode,
    rail,
    amount_minor: order.amount_minor,
    currency: order.currency,
    scale: order.scale,
    state,
    failure_code: row.failure_code ?? null,
    token,
    payment_url: gives.includes("payment_url") ? payment_url : null,
    deep_link: gives.includes("deep_link") ? `wave://capture/${payment_url}` : null,
    qr: gives.includes("qr") ? qrOf(order) : null,
    merchant_name: order.merchant_name,
    description: order.description,
    return_url: order.return_url,
    cancel_url: order.cancel_url,
    expires_at: order.expires_at,
  };
}

function qrOf(order: Asked): string {
  return paymentQr({
    // An invented alias of the merchant's, always the same for one account.
    alias: deriveUuid(order.account, "simulator alias"),
    currency: order.currency,
    amount: formatMinor(order.amount_minor, order.scale),
    // The simulated operators name their platforms `plt_<operator>_<country>`.
    country: order.platform_id.slice(-2).toUpperCase(),
    reference: order.reference,
  });
}
