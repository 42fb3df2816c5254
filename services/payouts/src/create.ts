// A payout as it is created: what can refuse it, its first row, and what is the same for all that goes out.

import type { OutgoingRooms } from "@cauri/events/outgoing";
import { type Created, type CreatedKind, type Running, running } from "@cauri/events/outgoing-run";
import type { TermsCache } from "@cauri/events/terms";
import { checkClientRef } from "@cauri/money/corridor";
import { newReference } from "@cauri/money/reference";
import { isRefusal, type Refusal, refuseField } from "@cauri/money/refusal";
import type { CreatePayoutRequest } from "@cauri/proto/ts/cauri/payouts/v1/payouts";
import type { Caller } from "@cauri/rpc/caller";
import { fingerprint } from "@cauri/store/fingerprint";
import type { Ledger } from "./ledger.ts";
import { decidePayout, type Payout, payoutMoves } from "./payout.ts";
import { insertDrafts, type NewPayout, payouts } from "./store.ts";

const ROUTE = "POST /v1/payouts";

export type Creation = OutgoingRooms & {
  readonly ledger: Ledger;
  readonly terms: TermsCache;
  readonly fingerprint_key: string;
};

const kind: CreatedKind<Payout, NewPayout> = {
  room: "payouts",
  noun: "payout",
  moves: payoutMoves,
  table: payouts,
  route: ROUTE,
  insert: insertDrafts,
  nothing: "nothing was paid out",
  too_little: "the available balance does not cover the amount and its fee",
};

/** Payouts, by the road of everything that goes out. */
export const payoutKind: CreatedKind<Payout, NewPayout> & Running<Payout, NewPayout> = { ...kind, ...running(kind) };

export async function createPayout(
  rooms: Creation,
  request: CreatePayoutRequest,
  caller: Caller,
): Promise<Created<Payout> | Refusal> {
  const asked = {
    caller,
    client_ref: request.clientRef ?? null,
    fingerprint: fingerprint(rooms.fingerprint_key, ROUTE, request),
  };
  return await payoutKind.create(rooms, asked, (id) => prepare(rooms, request, caller, id));
}

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
