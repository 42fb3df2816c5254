// The table of the sandbox, pure: the last two digits of the phone choose what becomes of a collection, its refund or a
// payout; of a payout to a bank, those of the account.
// One row of this file is one row of the public table; how a row is acted out is `operator.ts`.

import type { FailureCode } from "@cauri/money/failure";
import type { Mode } from "@cauri/money/mode";
import type { Destination } from "../destination.ts";

/** What the simulated operator answers to the call itself. */
export type FirstAnswer =
  /** Accepted; the payer is asked. */
  | "accepted"
  /** Done before the answer. */
  | "success"
  | "failed"
  /** The first call is turned down, the second one accepted: nothing happened in between. */
  | "refused_once"
  /** Accepted, and then the answer is an HTTP 500. */
  | "error_after_accepting"
  /** Accepted and paid; the callback is out and answered before the call's own answer leaves. */
  | "callback_first"
  /** Nobody is there. */
  | "unavailable";

/** The success that comes later, on the account's clock. */
export type Later = {
  readonly after: "delay" | "minute";
  /** How many times the callback is sent; 0: the operator stays silent and must be asked. */
  readonly callbacks: 0 | 1 | 2;
};

export type Row = {
  readonly answer: FirstAnswer;
  readonly failure_code?: FailureCode;
  readonly later?: Later;
  /** After that success the money comes back. */
  readonly returns?: { readonly after: "two_delays" };
};

const SOON: Later = { after: "delay", callbacks: 1 };
const USUAL: Row = { answer: "accepted", later: SOON };

/** Row 09's dispute belongs to an operation that follows the collection. */
export const collectionRows: { readonly [digits: string]: Row } = {
  "00": USUAL,
  "01": { answer: "success" },
  "02": { answer: "failed", failure_code: "insufficient_funds" },
  "03": { answer: "failed", failure_code: "payer_rejected" },
  "04": { answer: "accepted" },
  "05": { answer: "refused_once", later: SOON },
  "06": { answer: "error_after_accepting", later: { after: "delay", callbacks: 0 } },
  "07": { answer: "accepted", later: { after: "delay", callbacks: 2 } },
  "08": { answer: "accepted", later: { after: "minute", callbacks: 1 } },
  "09": USUAL,
  "10": { answer: "failed", failure_code: "payer_rejected", later: SOON },
  "11": { answer: "callback_first" },
  "12": { answer: "unavailable" },
  "13": { answer: "success" },
  "14": { answer: "success" },
};

export const payoutRows: { readonly [digits: string]: Row } = {
  ...collectionRows,
  "02": { answer: "failed", failure_code: "limit_exceeded" },
  "03": { answer: "failed", failure_code: "payee_not_found" },
  "09": { answer: "accepted", later: SOON, returns: { after: "two_delays" } },
  "10": { answer: "failed", failure_code: "unknown" },
};

/** Of a refund, by the phone of the payment's payer. A payment that is given back has succeeded, whatever its row said. */
export const refundRows: { readonly [digits: string]: Row } = {
  ...collectionRows,
  "02": USUAL,
  "03": USUAL,
  "04": USUAL,
  "10": USUAL,
  "13": { answer: "failed", failure_code: "account_blocked" },
  "14": { answer: "accepted" },
};

/** Without a phone nothing chooses: a person decides on the payment page. */
const PERSON: Row = { answer: "accepted" };

/** Row of a collection. Live mode on a machine of one's own always behaves as `00`, with and without a phone. */
export function rowOf(mode: Mode, phone: string | undefined): Row {
  if (mode === "live") return USUAL;
  if (phone === undefined) return PERSON;
  return collectionRows[phone.slice(-2)] ?? USUAL;
}

/** Row of a payout: by the wallet's phone, or by the number of the bank account. */
export function payoutRowOf(mode: Mode, destination: Destination): Row {
  if (mode === "live") return USUAL;
  const { phone, iban, account_number } = { phone: "", iban: "", account_number: "", ...destination };
  return payoutRows[(phone || iban || account_number).slice(-2)] ?? USUAL;
}

/** Row of a refund: by the phone of who had paid. */
export function refundRowOf(mode: Mode, phone: string | undefined): Row {
  if (mode === "live" || phone === undefined) return USUAL;
  return refundRows[phone.slice(-2)] ?? USUAL;
}

/** The rails by which the simulated operators pay out. */
export const simulatedPayoutRails: readonly string[] = [
  "orange_disburse",
  "mtn_momo",
  "wave",
  "instant",
  "bank_transfer",
];

/** What each simulated rail gives the payer, and whether it needs the phone to reach him. */
export const simulatedRails = {
  orange_webpay: { gives: ["payment_url"], needs_phone: false },
  mtn_momo: { gives: [], needs_phone: true },
  wave: { gives: ["deep_link", "payment_url"], needs_phone: false },
  instant: { gives: ["qr"], needs_phone: false },
} as const satisfies { readonly [rail: string]: { readonly gives: readonly string[]; readonly needs_phone: boolean } };

export function isSimulatedRail(rail: string): rail is keyof typeof simulatedRails {
  return Object.hasOwn(simulatedRails, rail);
}
