// What collections asks of rails: keep the payer, collect, ask again, drive the simulator; and what an attempt's answer
// means for a payment.

import { failureCode } from "@cauri/money/failure";
import { isRefusal, type Refusal } from "@cauri/money/refusal";
import type { PayerInput } from "@cauri/proto/ts/cauri/collections/v1/payments";
import { AttemptOutcome, type CollectResponse, type RailsServiceService } from "@cauri/proto/ts/cauri/rails/v1/rails";
import { type Caller, houseCaller } from "@cauri/rpc/caller";
import type { Promisified } from "@cauri/rpc/client";
import { answerOfRefusal } from "@cauri/rpc/sending";
import type { Answer, MaskedPayer, Offer, Payment, RailWord } from "./payment.ts";

/** Rails gives a rail 5 s; with the ledger's 2.5 s afterwards a run stays below its lease of 9 s. */
const COLLECT_TIMEOUT_MS = 6_000;

export type Rails = {
  /** Hands the raw payer to the vault; the masks, or the refusal that names the wrong field. */
  keepPayer(caller: Caller, operation_id: string, country: string, payer: PayerInput): Promise<MaskedPayer | Refusal>;
  /** Starts the collection, or tells what is known of the one that stands. */
  collect(payment: Payment, request_id: string): Promise<Answer>;
  /** Asks the rail by our reference. A rails room that can't be reached is thrown as a fault. */
  ask(payment: Payment, request_id: string): Promise<Answer>;
  /** Drives the sandbox; false where that arrow doesn't stand there. */
  advance(payment: Payment, to: string, request_id: string): Promise<boolean | Refusal>;
};

export function openRails(client: Promisified<RailsServiceService>): Rails {
  const optionsFor = (payment: Payment, request_id: string) => ({
    caller: houseCaller(payment.account, payment.mode, request_id, payment.id),
    timeout_ms: COLLECT_TIMEOUT_MS,
  });
  return {
    async keepPayer(caller, operation_id, country, payer) {
      const kept = await client.keepPayer(
        { operationId: operation_id, country, payer, fieldPath: "payer" },
        { caller, operation: operation_id },
      );
      if (isRefusal(kept)) return kept;
      return { phone: kept.phone ?? null, name: kept.name ?? null, email: kept.email ?? null };
    },
    async collect(payment, request_id) {
      const response = await client.collect(
        {
          operationId: payment.id,
          reference: payment.reference,
          amountMinor: payment.amount_minor,
          assetId: payment.asset_id,
          currency: payment.currency,
          scale: payment.scale,
          platformId: payment.platform_id,
          rails: [...payment.rails],
          forced: payment.forced,
          description: payment.description ?? undefined,
          returnUrl: payment.return_url ?? undefined,
          cancelUrl: payment.cancel_url ?? undefined,
          expiresAt: payment.expires_at,
          merchantName: payment.merchant_name,
        },
        optionsFor(payment, request_id),
      );
      return isRefusal(response) ? answerOfRefusal(response) : answerOf(response, "answer");
    },
    async ask(payment, request_id) {
      const response = await client.ask({ operationId: payment.id }, optionsFor(payment, request_id));
      return isRefusal(response) ? answerOfRefusal(response) : answerOf(response, "asked");
    },
    async advance(payment, to, request_id) {
      const response = await client.advanceSimulator({ operationId: payment.id, to }, optionsFor(payment, request_id));
      return isRefusal(response) ? response : response.moved;
    },
  };
}

/** The meaning of an attempt's state. An unknown one is taken for accepted: the payer may have been charged. */
export function answerOf(response: CollectResponse, source: "answer" | "asked"): Answer {
  const word = (says: RailWord["says"]): RailWord => ({
    source,
    says,
    // Who leaves by the page's cancel button has not failed: `cancelled` says it all.
    failure_code: says === "reject" ? failureCode(response.failureCode) : null,
    paid_minor: says === "settle" ? (response.railAmountMinor ?? null) : null,
    paid_currency: says === "settle" ? (response.railCurrency ?? null) : null,
    version: response.version,
    offer: offerOf(response),
  });
  switch (response.outcome) {
    case AttemptOutcome.PENDING:
      return { kind: "word", word: word("accept") };
    case AttemptOutcome.SUCCESS:
      return { kind: "word", word: word("settle") };
    case AttemptOutcome.FAILED:
      return { kind: "word", word: word("reject") };
    case AttemptOutcome.CANCELLED:
      return { kind: "word", word: word("cancel") };
    case AttemptOutcome.REFUSED:
      return { kind: "refused" };
    case AttemptOutcome.UNAVAILABLE:
      return { kind: "unavailable" };
    case AttemptOutcome.NOT_FOUND:
      return { kind: "not_found" };
    default:
      return { kind: "unknown", word: word("accept") };
  }
}

function offerOf(response: CollectResponse): Offer {
  return {
    rail: response.rail === "" ? null : response.rail,
    payment_url: response.paymentUrl ?? null,
    deep_link: response.deepLink ?? null,
    qr: response.qr ?? null,
  };
}
