// A creation, step by step: key, terms, vault, first row, rail, ledger, state. It may be interrupted anywhere and goes on
// from what is written, by the merchant's retry or by the sweeper.

import type { TermsCache } from "@cauri/events/terms";
import { checkClientRef } from "@cauri/money/corridor";
import { newReference } from "@cauri/money/reference";
import { isRefusal, type Refusal, refuse } from "@cauri/money/refusal";
import type { CreatePaymentRequest } from "@cauri/proto/ts/cauri/collections/v1/payments";
import type { Caller } from "@cauri/rpc/caller";
import { type ClaimRequest, type DueClaim, fingerprint } from "@cauri/store/claims";
import type { Clocks } from "@cauri/store/clock";
import { LeaseLost, underClaim, whenOvertaken, withFreshReference } from "@cauri/store/lease";
import { beginTogether, type Lease, underLease } from "@cauri/store/operation";
import { appendEvents } from "@cauri/store/outbox";
import { type Tx, transact } from "@cauri/store/pool";
import { applyWord, type Rooms, reread } from "./apply.ts";
import { decideCreation } from "./creation.ts";
import { type Answer, acceptedBy, mayGoOn, newsOf, ownWord, type Payment, RESTING } from "./payment.ts";
import { checkWithin, findPayment, insertPayments, type NewPayment } from "./store.ts";
import { eventOf } from "./view.ts";

/** The route's deadline of 8 s and one second more (wire.md). */
export const LEASE_MS = 9_000;
const ROUTE = "POST /v1/payments";
const KIND = "payment";
const DEFAULT_EXPIRY_S = 3_600;
/** How soon a payment is looked after whose call may not have reached its rail; rails itself asks as soon. */
const CHECK_UNKNOWN_MS = 1_000;
/** Retry-After of a rail that can't be reached. */
const UNAVAILABLE_RETRY_S = 5;

export type Creation = Rooms & {
  readonly terms: TermsCache;
  readonly clocks: Clocks;
  readonly fingerprint_key: string;
};

export type Created = { readonly payment: Payment; readonly outcome: "created" | "replayed" };

export async function createPayment(
  rooms: Creation,
  request: CreatePaymentRequest,
  caller: Caller,
): Promise<Created | Refusal> {
  if (caller.operation === null) throw new Error("a creation came without the operation id that the gateway mints");
  const claim = claimOf(rooms, request, caller, caller.operation);
  const begun = await beginWithReference(rooms, claim, request, caller);
  if (isRefusal(begun)) return begun;
  if ("replayed" in begun) {
    const payment = await reread(rooms.pool, begun.replayed);
    // The gateway's own repeat of a call that it believed lost: to the merchant it is the first answer.
    return { payment, outcome: begun.replayed === caller.operation ? "created" : "replayed" };
  }
  const { lease } = begun;
  const request_id = caller.request_id;
  const result = await underLease(rooms.pool, lease, () =>
    begun.begun === "new"
      ? runPayment(rooms, begun.written, lease, request_id)
      : resumePayment(rooms, lease, request_id, "retry"),
  ).catch(whenOvertaken);
  if (isRefusal(result)) return result;
  // A retry that went on with an interrupted creation gets its first answer, not a replay of one.
  return { payment: result, outcome: "created" };
}

/** The sweeper's part: goes on where a crash interrupted, or ends what the merchant did not come back for. */
export async function sweepPayment(rooms: Creation, due: DueClaim): Promise<void> {
  const lease = { operation_id: due.operation_id, lease_no: due.lease_no };
  const request_id = `sweep-${due.operation_id}`;
  try {
    await resumePayment(rooms, lease, request_id, due.give_up ? "give_up" : "sweep");
  } catch (error) {
    if (!(error instanceof LeaseLost)) throw error;
  }
}

function claimOf(rooms: Creation, request: CreatePaymentRequest, caller: Caller, operation_id: string): ClaimRequest {
  return {
    operation_id,
    account: caller.account,
    mode: caller.mode,
    route: ROUTE,
    kind: KIND,
    key: caller.idempotency_key,
    client_ref: request.clientRef ?? null,
    fingerprint: fingerprint(rooms.fingerprint_key, ROUTE, request),
    lease_ms: LEASE_MS,
    takeover: true,
    // The list shows a payment from its first transaction: there is no draft that could still be erased.
    decided: true,
  };
}

function beginWithReference(rooms: Creation, claim: ClaimRequest, request: CreatePaymentRequest, caller: Caller) {
  return withFreshReference("payments_reference", () =>
    begin(rooms.pool, claim, () => prepare(rooms, request, caller, claim.operation_id)),
  );
}

/** Terms and vault: everything that can refuse a payment before anything of it exists. */
async function prepare(
  rooms: Creation,
  request: CreatePaymentRequest,
  caller: Caller,
  id: string,
): Promise<NewPayment | Refusal> {
  const { amountMinor: amount_minor, assetId: asset_id, platformId: platform_id, payer } = request;
  // The edge has checked that they were sent; a caller inside the house that leaves one out is a bug.
  if (amount_minor === undefined || asset_id === undefined || platform_id === undefined) {
    throw new Error("a creation came without its required fields");
  }
  const ref_refusal = checkClientRef(request.clientRef);
  if (ref_refusal !== null) return ref_refusal;
  const terms = await rooms.terms.get(caller, platform_id, asset_id);
  if (isRefusal(terms)) return terms;
  const has_phone = payer?.phone !== undefined && payer.phone !== "";
  const accepted = decideCreation({ amount_minor, asset_id, platform_id, rail: request.rail, has_phone }, terms);
  if (isRefusal(accepted)) return accepted;
  const given = payer !== undefined && [payer.phone, payer.name, payer.email].some((detail) => detail !== undefined);
  const masked = given ? await rooms.rails.keepPayer(caller, id, terms.country, payer) : null;
  if (isRefusal(masked)) return masked;
  return {
    id,
    account: caller.account,
    mode: caller.mode,
    reference: newReference("PAY", caller.mode),
    client_ref: request.clientRef ?? null,
    amount_minor,
    fee_minor: accepted.fee_minor,
    asset_id,
    currency: terms.currency,
    scale: terms.scale,
    platform_id,
    rails: accepted.rails,
    forced: accepted.forced,
    merchant_name: terms.merchant_name,
    description: request.description ?? null,
    return_url: request.returnUrl ?? null,
    cancel_url: request.cancelUrl ?? null,
    metadata: request.metadata?.values ?? null,
    payer: masked,
    expires_in_s: request.expiresInS ?? DEFAULT_EXPIRY_S,
  };
}

/** The first rows of creations of the same moment. */
const begin = beginTogether(async (tx: Tx, drafts: readonly NewPayment[]): Promise<Payment[]> => {
  const payments = await insertPayments(tx, drafts);
  const events = payments.map((payment) => eventOf(payment, "payment.initiated"));
  // Not awaited: it leaves together with the commit, where its error would surface.
  void appendEvents(tx, events).catch(() => {});
  return payments;
});

/** From `initiated` on: the rail, and what its answer means. */
async function runPayment(rooms: Creation, payment: Payment, lease: Lease, request_id: string) {
  return await conclude(rooms, payment, await rooms.rails.collect(payment, request_id), lease, "retry");
}

type Resumed = "retry" | "sweep" | "give_up";

async function resumePayment(
  rooms: Creation,
  lease: Lease,
  request_id: string,
  why: Resumed,
): Promise<Payment | Refusal> {
  const payment = await findPayment(rooms.pool, lease.operation_id);
  if (payment === null) throw new Error(`a claim without its payment: ${lease.operation_id}`);
  if (RESTING.includes(payment.status)) return await endRun(rooms, payment, lease);
  if (why === "give_up" && payment.status === "initiated") {
    return await applyWord(rooms, payment, ownWord("give_up", "operator_unavailable"), lease);
  }
  // A pending one is collected "again" as well: the rail's answer alone holds what the payer pays with.
  if (!isTooLate(rooms, payment, why)) {
    return await conclude(rooms, payment, await rooms.rails.collect(payment, request_id), lease, why);
  }
  const answer = await rooms.rails.ask(payment, request_id);
  if (answer.kind === "word" || answer.kind === "unknown" || payment.status !== "initiated") {
    return await conclude(rooms, payment, answer, lease, why);
  }
  const expired = rooms.clocks.now(payment.account, payment.mode) >= payment.expires_at;
  return await applyWord(rooms, payment, ownWord("expiry", expired ? "expired" : "operator_unavailable"), lease);
}

/** Past its expiry a payment is only asked for, never sent; by the sweeper no later than a merchant would retry. */
function isTooLate({ clocks }: Creation, payment: Payment, why: Resumed): boolean {
  const now = clocks.now(payment.account, payment.mode);
  return now >= payment.expires_at || (why === "sweep" && !mayGoOn(payment, now));
}

async function conclude(
  rooms: Creation,
  payment: Payment,
  answer: Answer,
  lease: Lease,
  why: Resumed,
): Promise<Payment | Refusal> {
  switch (answer.kind) {
    case "word":
    case "unknown": {
      const { word } = answer;
      if (answer.kind === "unknown") await checkWithin(rooms.pool, payment.id, CHECK_UNKNOWN_MS);
      if (newsOf(payment, word) !== "mispay") return await applyWord(rooms, payment, word, lease);
      // The money is noted first; it ends no run, for the payment itself is still to be accepted.
      const noted = await applyWord(rooms, payment, word, null);
      return await applyWord(rooms, noted, acceptedBy(word), lease);
    }
    case "refused":
    case "unavailable":
    case "not_found":
      if (payment.status !== "initiated") return await endRun(rooms, payment, lease);
      return await tell(rooms, lease, answer.kind, why);
  }
}

/** Certainly nothing is at the rail: the payment stays `initiated` and waits for the merchant's retry, ten minutes at most. */
async function tell(
  rooms: Creation,
  lease: Lease,
  kind: "refused" | "unavailable" | "not_found",
  why: Resumed,
): Promise<Refusal> {
  await transact(rooms.pool, (tx) => underClaim(tx, lease, "tell"));
  if (why === "sweep")
    rooms.log.info({ operation: lease.operation_id, kind }, "the rail has nothing; a retry is awaited");
  if (kind === "refused") return refuse("upstream_error", "the operator refused the call; nothing was collected");
  return refuse("temporarily_unavailable", "the operator cannot be reached; nothing was collected", {
    retry_after_s: UNAVAILABLE_RETRY_S,
  });
}

/** News had brought the payment to rest before its runner came to it. */
async function endRun(rooms: Creation, payment: Payment, lease: Lease): Promise<Payment> {
  await transact(rooms.pool, (tx) => underClaim(tx, lease, "finish"));
  return payment;
}
