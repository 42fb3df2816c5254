// The simulated operator: an outside system in the same process. It keeps its own books, answers as its table of rows
// says, and calls back over HTTP. Connectors of real operators speak to something like this over the internet.

import { randomBytes } from "node:crypto";
import { formatMinor } from "@cauri/money/amount";
import { deriveUuid } from "@cauri/money/ids";
import { coalescePer } from "@cauri/store/coalescer";
import { type Pool, transact } from "@cauri/store/pool";
import { type AttemptKind, isOutgoing, type RailAnswer } from "../attempt.ts";
import type { Charge, Disbursement, Reversal } from "../connector.ts";
import { TOGETHER } from "../together.ts";
import {
  answerFor,
  type ChargeNews,
  type ChargeState,
  chargeMoves,
  type Decision,
  newsOfDecision,
  nextState,
  type Page,
  type Plan,
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
import { type Booking, type Letter, lockCharge, readByToken, readCharge, writeCharges, writeDecided } from "./store.ts";

const MINUTE_MS = 60_000;
const TOKEN_BYTES = 32;

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
  /** Tells now, once, what its writer has taken; what fails is repeated by the loop. */
  readonly deliverNow: (letter: Letter) => Promise<void>;
};

export function openOperator(options: OperatorOptions): Operator {
  const { pool } = options;
  /** A move that somebody decides now: it takes the place of what was scheduled, and its callback leaves at once. */
  const drive = async (reference: string, { news, failure_code, only_open }: Drive) => {
    const driven = await transact(pool, async (tx) => {
      const charge = await lockCharge(tx, reference);
      const state = charge === null ? null : nextState(charge.state, news);
      if (charge === null || state === null || (only_open && charge.state !== "pending"))
        return { charge, is_moved: false };
      const moved: SimCharge = { ...charge, state, failure_code };
      await writeDecided(tx, moved, news);
      return { charge: moved, is_moved: true };
    });
    const { charge, is_moved } = driven;
    if (is_moved && charge !== null) await options.deliverNow(letterOf(charge, news));
    return driven;
  };
  return {
    collect: (charge) => takeCharge(options, charge),
    payOut: (disbursement) => takePayout(options, disbursement),
    giveBack: (reversal) => takeRefund(options, reversal),
    async ask(reference) {
      const charge = await readCharge(pool, reference);
      return charge === null ? { outcome: "not_found" } : answerFor(charge);
    },
    async page(token) {
      const charge = await readByToken(pool, token);
      return charge === null ? null : pageOf(charge);
    },
    async decide(token, decision) {
      const shown = await readByToken(pool, token);
      if (shown === null) return null;
      const failure_code = decision === "decline" ? "payer_rejected" : null;
      // Only an open page decides: a payer can't undo what he said, nor pay what has run out.
      const driven = await drive(shown.reference, { news: newsOfDecision[decision], failure_code, only_open: true });
      return driven.charge === null ? null : pageOf(driven.charge);
    },
    async advance(reference, to, kind) {
      return (await drive(reference, { ...drivenBy(kind, to), only_open: false })).is_moved;
    },
  };
}

type Outcome = Pick<SimCharge, "failure_code"> & { readonly news: ChargeNews };
type Drive = Outcome & { readonly only_open: boolean };

type Driven = "success" | "failed" | "refunded";

/** What a driven outcome is in the operator's books. A payout has no payer who could have said no. */
function drivenBy(kind: AttemptKind, to: Driven): Outcome {
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
  const charge = await readCharge(options.pool, order.of_reference);
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
    await options.deliverNow(letterOf(taken.charge, "settle"));
    return answerFor(taken.charge);
  }
  return answerFor(taken.charge);
}

type Taken = { readonly charge: SimCharge; readonly is_new: boolean };

/** Books a charge by its row. A reference that is booked already is answered as it stands: the operator charges once. */
async function take(options: OperatorOptions, order: Asked, row: Row): Promise<Taken> {
  const { pool } = options;
  const fresh = chargeFor(options, order, firstState(row), row);
  const plan = planFor(options, fresh, row);
  if (await book(pool, { charge: fresh, plan: fresh.state === "turned_down" ? null : plan })) {
    return { charge: fresh, is_new: true };
  }
  const known = await readCharge(pool, order.reference);
  if (known === null) throw new Error("a charge of the simulator is gone: charges are never deleted");
  if (known.state !== "turned_down") return { charge: known, is_new: false };
  const accepted: SimCharge = { ...known, state: chargeMoves.turned_down.accept.to };
  // Of two at once the second finds it taken.
  return { charge: accepted, is_new: await book(pool, { charge: accepted, plan }) };
}

/** Charges of the same moment share a statement; whether each was new. */
const book = coalescePer<Pool, Booking, boolean>((pool) => ({
  run: (bookings) => bookAll(pool, bookings),
  ...TOGETHER,
}));

async function bookAll(pool: Pool, bookings: readonly Booking[]): Promise<boolean[]> {
  // Of two with one reference the first is the one that is written.
  const once = new Map(bookings.toReversed().map((booking) => [booking.charge.reference, booking]));
  const written = await writeCharges(pool, [...once.values()]);
  return bookings.map(({ charge }) => written.delete(charge.reference));
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
function planFor(options: OperatorOptions, charge: SimCharge, row: Row): Plan | null {
  if (row.answer === "callback_first") {
    return { news: "settle", becomes: "success", copies: 1, after_ms: 0, return_after_ms: null, is_taken: true };
  }
  const pauses_ms = { delay: options.delay_ms, two_delays: 2 * options.delay_ms, minute: MINUTE_MS };
  const { later, returns } = row;
  if (later === undefined) return null;
  return {
    news: "settle",
    becomes: nextState(charge.state === "turned_down" ? "pending" : charge.state, "settle"),
    copies: later.callbacks,
    after_ms: pauses_ms[later.after],
    return_after_ms: returns === undefined ? null : pauses_ms[returns.after],
    is_taken: false,
  };
}

function letterOf({ reference, amount_minor, currency, failure_code }: SimCharge, news: ChargeNews): Letter {
  return { reference, amount_minor, currency, failure_code, news, copies: 1, tries: 1, comes_back: false };
}

function chargeFor(options: OperatorOptions, order: Asked, state: ChargeState, row: Row): SimCharge {
  const { kind, rail } = order;
  const gives: readonly string[] = kind === "collection" && isSimulatedRail(rail) ? simulatedRails[rail].gives : [];
  const token = gives.includes("payment_url") ? randomBytes(TOKEN_BYTES).toString("base64url") : null;
  const payment_url = token === null ? null : `${options.pay_url.replace(/\/$/, "")}/simulator/${token}`;
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
    payment_url,
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
