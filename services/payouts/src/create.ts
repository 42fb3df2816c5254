// A creation, step by step: key, terms, vault, draft, holds, visible, rail, state. It may be interrupted anywhere and goes
// on from what is written, by the merchant's retry or by the sweeper.

import type { TermsCache } from "@cauri/events/terms";
import { checkClientRef } from "@cauri/money/corridor";
import { acceptedBy, newsFor, type OutgoingAnswer } from "@cauri/money/outgoing";
import { newReference } from "@cauri/money/reference";
import { isRefusal, type Refusal, refuse, refuseField } from "@cauri/money/refusal";
import type { CreatePayoutRequest } from "@cauri/proto/ts/cauri/payouts/v1/payouts";
import type { Caller } from "@cauri/rpc/caller";
import { type ClaimRequest, type DueClaim, decideClaims, fingerprint } from "@cauri/store/claims";
import { LeaseLost, underClaim, whenOvertaken, withFreshReference } from "@cauri/store/lease";
import { beginTogether, type Lease, underLease } from "@cauri/store/operation";
import { transact } from "@cauri/store/pool";
import { writeTogether } from "@cauri/store/together";
import { applyWord, type Rooms, reread } from "./apply.ts";
import { CHECK_EVERY_MS } from "./follow-up.ts";
import { decidePayout, isResting, type Payout } from "./payout.ts";
import { eraseDraft, findPayout, insertDrafts, type NewPayout, showPayouts } from "./store.ts";

/** The route's deadline of 8 s and one second more (wire.md). */
export const LEASE_MS = 9_000;
const ROUTE = "POST /v1/payouts";
/** Retry-After of a rail that can't be reached. */
const UNAVAILABLE_RETRY_S = 5;

export type Creation = Rooms & { readonly terms: TermsCache; readonly fingerprint_key: string };
export type Created<T> = { readonly operation: T; readonly outcome: "created" | "replayed" };

export async function createPayout(
  rooms: Creation,
  request: CreatePayoutRequest,
  caller: Caller,
): Promise<Created<Payout> | Refusal> {
  const { operation } = caller;
  if (operation === null) throw new Error("a creation came without the operation id that the gateway mints");
  const claim = claimOf(rooms, request, caller, operation);
  const begun = await withFreshReference("payouts_reference", () =>
    begin(rooms.pool, claim, () => prepare(rooms, request, caller, operation)),
  );
  if (isRefusal(begun)) return begun;
  if ("replayed" in begun) {
    // The gateway's own repeat of a call that it believed lost: to the merchant it is the first answer.
    const outcome = begun.replayed === operation ? "created" : "replayed";
    return { operation: await reread(rooms.pool, begun.replayed), outcome };
  }
  const { lease } = begun;
  const result = await underLease(rooms.pool, lease, () =>
    begun.begun === "new"
      ? runDraft(rooms, begun.written, lease, caller.request_id)
      : resume(rooms, lease, caller.request_id, false),
  ).catch(whenOvertaken);
  // A retry that went on with an interrupted creation gets its first answer, not a replay of one.
  return isRefusal(result) ? result : { operation: result, outcome: "created" };
}

/** The sweeper's part: goes on where a crash interrupted, or ends what the merchant did not come back for. */
export async function sweepPayout(rooms: Creation, due: DueClaim): Promise<void> {
  const lease = { operation_id: due.operation_id, lease_no: due.lease_no };
  const request_id = `sweep-${due.operation_id}`;
  try {
    if (due.orphan && !due.decided) await abandon(rooms, lease);
    else await resume(rooms, lease, request_id, due.give_up);
  } catch (error) {
    if (!(error instanceof LeaseLost)) throw error;
  }
}

function claimOf(rooms: Creation, request: CreatePayoutRequest, caller: Caller, operation_id: string): ClaimRequest {
  return {
    operation_id,
    account: caller.account,
    mode: caller.mode,
    route: ROUTE,
    kind: "payout",
    key: caller.idempotency_key,
    client_ref: request.clientRef ?? null,
    fingerprint: fingerprint(rooms.fingerprint_key, ROUTE, request),
    lease_ms: LEASE_MS,
    takeover: true,
  };
}

const begin = beginTogether(insertDrafts);

/** Terms and vault: everything that can refuse a payout before anything of it exists. */
async function prepare(
  rooms: Creation,
  request: CreatePayoutRequest,
  caller: Caller,
  id: string,
): Promise<NewPayout | Refusal> {
  const { amountMinor: amount_minor, assetId: asset_id, platformId: platform_id, destination, rail } = request;
  // The edge has checked that they were sent; a caller inside the house that leaves one out is a bug.
  if (amount_minor === undefined || asset_id === undefined || platform_id === undefined || destination === undefined) {
    throw new Error("a creation came without its required fields");
  }
  const ref_refusal = checkClientRef(request.clientRef);
  if (ref_refusal !== null) return ref_refusal;
  const terms = await rooms.terms.get(caller, platform_id, asset_id);
  if (isRefusal(terms)) return terms;
  if (destination.type === "alias") return refuseField("destination.type", "aliases are not served yet");
  const wanted = { amount_minor, asset_id, platform_id, rail, destination_type: destination.type };
  const accepted = decidePayout(wanted, terms);
  if (isRefusal(accepted)) return accepted;
  const masked = await rooms.rails.keepDestination(caller, id, {
    destination,
    country: terms.country,
    field_path: "destination",
    lasting: false,
  });
  if (isRefusal(masked)) return masked;
  return {
    id,
    account: caller.account,
    mode: caller.mode,
    reference: newReference("PYT", caller.mode),
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
    metadata: request.metadata?.values ?? null,
    destination: masked,
  };
}

/** From the draft on: the funds, then the rail. */
async function runDraft(rooms: Creation, draft: Payout, lease: Lease, request_id: string): Promise<Payout | Refusal> {
  const reserved = await rooms.ledger.reserve(draft);
  if (reserved !== "stands") {
    await erase(rooms, lease);
    if (reserved === "insufficient_funds") {
      return refuse("insufficient_funds", "the available balance does not cover the amount and its fee");
    }
    // Nobody came back for it and its holds were released; only the gateway's own late repeat can stand here.
    return refuse("temporarily_unavailable", "the payout was given up; send it again", { retry_after_s: 1 });
  }
  const shown = await show(rooms.pool, { payout: draft, lease });
  if (shown === null) return await resume(rooms, lease, request_id, false);
  return await conclude(rooms, shown, await rooms.rails.send(shown, request_id), lease);
}

/** Draft -> initiated: from here GET finds it, and a second use of its client_ref is `already_exists`. */
const show = writeTogether<{ readonly payout: Payout; readonly lease: Lease }, Payout>({
  idOf: ({ payout }) => payout.id,
  write: (tx, shown) =>
    showPayouts(
      tx,
      shown.map(({ payout }) => payout),
      CHECK_EVERY_MS,
    ),
  end: decideClaims,
});

async function resume(rooms: Creation, lease: Lease, request_id: string, give_up: boolean): Promise<Payout | Refusal> {
  const payout = await findPayout(rooms.pool, lease.operation_id);
  if (payout === null) throw new Error(`a claim without its payout: ${lease.operation_id}`);
  if (payout.status === "draft") return await runDraft(rooms, payout, lease, request_id);
  if (isResting(payout) || payout.status === "pending") return await endRun(rooms, payout, lease);
  const answer = give_up
    ? await rooms.rails.withhold(payout, request_id, "operator_unavailable")
    : await rooms.rails.send(payout, request_id);
  return await conclude(rooms, payout, answer, lease);
}

async function conclude(
  rooms: Creation,
  payout: Payout,
  answer: OutgoingAnswer,
  lease: Lease,
): Promise<Payout | Refusal> {
  if ("word" in answer) {
    const { word } = answer;
    if (newsFor(payout, word) !== "mispay") return await applyWord(rooms, payout, word, lease);
    // The money is noted first; it ends no run, for the payout itself is still to be accepted.
    const noted = await applyWord(rooms, payout, word, null);
    return await applyWord(rooms, noted, acceptedBy(word), lease);
  }
  // Certainly nothing is at the rail: it stays `initiated` and waits for the merchant's retry, ten minutes at most.
  await transact(rooms.pool, (tx) => underClaim(tx, lease, "tell"));
  if (answer.kind === "refused") return refuse("upstream_error", "the operator refused the call; nothing was paid out");
  return refuse("temporarily_unavailable", "the operator cannot be reached; nothing was paid out", {
    retry_after_s: UNAVAILABLE_RETRY_S,
  });
}

/** News, or an operator, had moved the payout on before its runner came to it. */
async function endRun(rooms: Creation, payout: Payout, lease: Lease): Promise<Payout> {
  await transact(rooms.pool, (tx) => underClaim(tx, lease, "finish"));
  return payout;
}

/** A draft that nobody can ever ask for: its holds are posted, so that nothing is released unseen, released, and gone. */
async function abandon(rooms: Creation, lease: Lease): Promise<void> {
  const draft = await findPayout(rooms.pool, lease.operation_id);
  if (draft === null) throw new Error(`a claim without its payout: ${lease.operation_id}`);
  if ((await rooms.ledger.reserve(draft)) === "stands") await rooms.ledger.post(draft, "release");
  await erase(rooms, lease);
}

/** Draft, key and client_ref in one transaction: a retry is a new operation. */
async function erase(rooms: Creation, lease: Lease): Promise<void> {
  await transact(rooms.pool, async (tx) => {
    await underClaim(tx, lease, "erase");
    await eraseDraft(tx, lease.operation_id);
  });
}
