// What a room that sends money out asks of rails: keep the destination, send, withhold, ask, drive the simulator; and
// what an attempt's state means for the operation.

import { failureCode } from "@cauri/money/failure";
import type { Mode } from "@cauri/money/mode";
import type { OutgoingAnswer, OutgoingWord } from "@cauri/money/outgoing";
import { isRefusal, type Refusal } from "@cauri/money/refusal";
import {
  AttemptOutcome,
  type CollectResponse,
  type KeepDestinationResponse,
  type RailsServiceService,
  type RawDestination,
  SendKind,
} from "@cauri/proto/ts/cauri/rails/v1/rails";
import { type Caller, houseCaller } from "./caller.ts";
import type { Promisified } from "./client.ts";

/** Rails gives a rail 5 s; with the ledger's 2.5 s around it a run stays below its lease of 9 s. */
const SEND_TIMEOUT_MS = 6_000;

/** An operation as it is sent. */
export type Sent = {
  readonly id: string;
  readonly account: string;
  readonly mode: Mode;
  readonly reference: string;
  readonly amount_minor: bigint;
  readonly asset_id: string;
  readonly currency: string;
  readonly scale: number;
  readonly platform_id: string;
  readonly rails: readonly string[];
  readonly forced: boolean;
  readonly description: string | null;
  readonly merchant_name: string;
  /** Of a refund: the collection that is given back. Without it a payout is sent. */
  readonly gives_back?: { readonly operation_id: string; readonly reference: string };
};

export type Kept = {
  readonly destination: RawDestination;
  readonly country: string;
  /** Path of the destination in the merchant's request. */
  readonly field_path: string;
  readonly lasting: boolean;
};

export type Sending = {
  /** Hands the raw destination to the vault; the masks, or the refusal that names the wrong field. */
  keepDestination(caller: Caller, operation_id: string, kept: Kept): Promise<KeepDestinationResponse | Refusal>;
  /** Copies a kept destination of the same account to the operation that is about to be sent there; the masks. */
  copyDestination(caller: Caller, kept_as: string, operation_id: string): Promise<KeepDestinationResponse | Refusal>;
  /** Sends, or tells what is known of the attempt that stands. */
  send(operation: Sent, request_id: string): Promise<OutgoingAnswer>;
  /** Keeps it from being sent; a `withheld` word where that was still certain. */
  withhold(operation: Sent, request_id: string, failure_code?: string): Promise<OutgoingAnswer>;
  /** Asks the rail by our reference. */
  ask(operation: Sent, request_id: string): Promise<OutgoingAnswer>;
  /** Drives the sandbox; false where that arrow doesn't stand there. */
  advance(operation: Sent, to: string, request_id: string): Promise<boolean | Refusal>;
};

export function openSending(client: Promisified<RailsServiceService>): Sending {
  const options = ({ account, mode, id }: Sent, request_id: string) => ({
    caller: houseCaller(account, mode, request_id, id),
    timeout_ms: SEND_TIMEOUT_MS,
  });
  return {
    keepDestination: (caller, operation_id, { destination, country, field_path, lasting }) =>
      client.keepDestination(
        { operationId: operation_id, country, destination, fieldPath: field_path, lasting },
        { caller, operation: operation_id },
      ),
    copyDestination: (caller, kept_as, operation_id) =>
      client.copyDestination({ keptAs: kept_as, operationId: operation_id }, { caller, operation: operation_id }),
    async send(operation, request_id) {
      return answerOf(await client.send(orderOf(operation), options(operation, request_id)), "answer");
    },
    async withhold(operation, request_id, failure_code) {
      const request = { order: orderOf(operation), failureCode: failure_code };
      return answerOf(await client.withhold(request, options(operation, request_id)), "asked");
    },
    async ask(operation, request_id) {
      return answerOf(await client.ask({ operationId: operation.id }, options(operation, request_id)), "asked");
    },
    async advance(operation, to, request_id) {
      const request = { operationId: operation.id, to };
      const response = await client.advanceSimulator(request, options(operation, request_id));
      return isRefusal(response) ? response : response.moved;
    },
  };
}

function orderOf(operation: Sent) {
  return {
    kind: operation.gives_back === undefined ? SendKind.PAYOUT : SendKind.REFUND,
    ofOperationId: operation.gives_back?.operation_id,
    ofReference: operation.gives_back?.reference,
    operationId: operation.id,
    reference: operation.reference,
    amountMinor: operation.amount_minor,
    assetId: operation.asset_id,
    currency: operation.currency,
    scale: operation.scale,
    platformId: operation.platform_id,
    rails: [...operation.rails],
    forced: operation.forced,
    description: operation.description ?? undefined,
    merchantName: operation.merchant_name,
  };
}

/** The meaning of an attempt's state. An unknown one is taken for accepted: the money may have left. */
export function answerOf(response: CollectResponse | Refusal, source: "answer" | "asked"): OutgoingAnswer {
  if (isRefusal(response)) return answerOfRefusal(response);
  const word = (says: OutgoingWord["says"]): OutgoingWord => ({
    source,
    says,
    failure_code: says === "reject" ? failureCode(response.failureCode) : null,
    paid_minor: says === "settle" ? (response.railAmountMinor ?? null) : null,
    paid_currency: says === "settle" ? (response.railCurrency ?? null) : null,
    version: response.version,
    rail: response.rail === "" ? null : response.rail,
  });
  switch (response.outcome) {
    case AttemptOutcome.PENDING:
      return { kind: "word", word: word("accept") };
    case AttemptOutcome.SUCCESS:
      return { kind: "word", word: word("settle") };
    case AttemptOutcome.FAILED:
      return { kind: "word", word: word("reject") };
    case AttemptOutcome.RETURNED:
      return { kind: "word", word: word("return") };
    case AttemptOutcome.WITHHELD:
      return { kind: "word", word: { ...withheld(response), source: "withheld" } };
    case AttemptOutcome.REFUSED:
      return { kind: "refused" };
    case AttemptOutcome.UNAVAILABLE:
      return { kind: "unavailable" };
    case AttemptOutcome.NOT_FOUND:
      return { kind: "not_found" };
    default:
      return { kind: "unknown", word: word("accept") };
  }
  function withheld({ failureCode: code }: CollectResponse): OutgoingWord {
    const failed = code === undefined ? null : failureCode(code);
    return { ...word(failed === null ? "cancel" : "reject"), failure_code: failed, version: 0n };
  }
}

/** Rails refuses only what it certainly did not send. */
export function answerOfRefusal(refusal: Refusal): { readonly kind: "not_found" | "refused" | "unavailable" } {
  if (refusal.refused === "not_found") return { kind: "not_found" };
  if (refusal.refused === "upstream_error") return { kind: "refused" };
  if (refusal.refused === "temporarily_unavailable") return { kind: "unavailable" };
  throw new Error(`rails refused a call of ours: ${refusal.refused}`);
}
