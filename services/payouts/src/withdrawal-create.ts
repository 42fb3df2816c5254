// A withdrawal request is recorded: key, terms, settlement account, price, an indicative look at the balance, one row. It
// reserves nothing, so nothing of it can be left half done.

import type { OutgoingRooms } from "@cauri/events/outgoing";
import { type Created, OUTGOING_LEASE_MS } from "@cauri/events/outgoing-run";
import type { TermsCache } from "@cauri/events/terms";
import { checkClientRef } from "@cauri/money/corridor";
import { newReference } from "@cauri/money/reference";
import { isRefusal, type Refusal, refuse } from "@cauri/money/refusal";
import type { ReferenceServiceService } from "@cauri/proto/ts/cauri/accounts/v1/reference";
import type { CreateWithdrawalRequest } from "@cauri/proto/ts/cauri/payouts/v1/withdrawals";
import type { Caller } from "@cauri/rpc/caller";
import type { Promisified } from "@cauri/rpc/client";
import { type ClaimRequest, fingerprint, finishClaim } from "@cauri/store/claims";
import { withFreshReference } from "@cauri/store/lease";
import { beginOperation } from "@cauri/store/operation";
import { checkHeld } from "./movement.ts";
import type { PlacesCache } from "./movement-create.ts";
import { checkNet, priceWithdrawal, type Settlement, type Withdrawal } from "./withdrawal.ts";
import type { WithdrawalLedger } from "./withdrawal-ledger.ts";
import { insertWithdrawal, type NewWithdrawal, withdrawals } from "./withdrawal-store.ts";

const ROUTE = "POST /v1/payout-requests";

export type Withdrawing = OutgoingRooms & {
  readonly withdrawal_ledger: WithdrawalLedger;
  readonly withdrawal_terms: TermsCache;
  readonly places: PlacesCache;
  readonly settlements: Settlements;
  readonly fingerprint_key: string;
};

export type Settlements = { of(caller: Caller): Promise<Settlement | Refusal> };

/** Asked each time: a settlement account that was just changed is never missed. */
export function openSettlements(client: Promisified<ReferenceServiceService>): Settlements {
  return {
    async of(caller) {
      const answer = await client.getSettlement({}, { caller });
      if (isRefusal(answer)) return answer;
      const { isActive, isLive, platformId: platform_id, keptAs: kept_as, destination } = answer;
      const is_set = platform_id !== undefined && kept_as !== undefined && destination !== undefined;
      return { is_active: isActive, is_live: isLive, to: is_set ? { platform_id, kept_as, destination } : null };
    },
  };
}

export async function createWithdrawal(
  rooms: Withdrawing,
  request: CreateWithdrawalRequest,
  caller: Caller,
): Promise<Created<Withdrawal> | Refusal> {
  const { operation } = caller;
  if (operation === null) throw new Error("a creation came without the operation id that the gateway mints");
  const begun = await withFreshReference("withdrawals_reference", () =>
    beginOperation(rooms.pool, claimOf(rooms, request, caller, operation), {
      prepare: () => prepare(rooms, request, caller, operation),
      async write(tx, asked: NewWithdrawal, lease) {
        await finishClaim(tx, lease.operation_id, lease.lease_no);
        return await insertWithdrawal(tx, asked);
      },
    }),
  );
  if (isRefusal(begun)) return begun;
  if ("replayed" in begun) {
    const stands = await withdrawals.find(rooms.pool, begun.replayed);
    if (stands === null) throw new Error(`withdrawal ${begun.replayed} is gone`);
    return { operation: stands, outcome: begun.replayed === operation ? "created" : "replayed" };
  }
  // The claim ends in the transaction that began it, so nobody can find one to go on with.
  if (begun.begun === "resumed") throw new Error(`a withdrawal request was left half done: ${operation}`);
  return { operation: begun.written, outcome: "created" };
}

function claimOf(rooms: Withdrawing, request: CreateWithdrawalRequest, caller: Caller, id: string): ClaimRequest {
  return {
    operation_id: id,
    account: caller.account,
    mode: caller.mode,
    route: ROUTE,
    kind: "withdrawal",
    key: caller.idempotency_key,
    client_ref: request.clientRef ?? null,
    fingerprint: fingerprint(rooms.fingerprint_key, ROUTE, request),
    lease_ms: OUTGOING_LEASE_MS,
    takeover: true,
    decided: true,
  };
}

/** The contract's order: fee line, settlement account, amount against fee, balance. */
async function prepare(
  rooms: Withdrawing,
  request: CreateWithdrawalRequest,
  caller: Caller,
  id: string,
): Promise<NewWithdrawal | Refusal> {
  const { amountMinor: requested_minor, assetId: asset_id, platformId: from_platform_id } = request;
  // The edge has checked that they were sent; a caller inside the house that leaves one out is a bug.
  if (requested_minor === undefined || asset_id === undefined || from_platform_id === undefined) {
    throw new Error("a creation came without its required fields");
  }
  const wrong_ref = checkClientRef(request.clientRef);
  if (wrong_ref !== null) return wrong_ref;
  const places = await rooms.places.ask(caller, asset_id, [from_platform_id], null);
  if (isRefusal(places)) return places;
  const not_held = checkHeld(["platform_id"], asset_id, places);
  if (not_held !== null) return not_held;
  const terms = await rooms.withdrawal_terms.get(caller, from_platform_id, asset_id);
  if (isRefusal(terms)) return terms;
  const fee_minor = priceWithdrawal(requested_minor, asset_id, terms);
  if (isRefusal(fee_minor)) return fee_minor;
  const settlement = await rooms.settlements.of(caller);
  if (isRefusal(settlement)) return settlement;
  const { to } = settlement;
  if (to === null) return refuse("precondition_failed", "the account has no settlement account");
  const reached = await rooms.withdrawal_terms.get(caller, to.platform_id, asset_id);
  if (isRefusal(reached)) return reached;
  if (!reached.corridor_known) {
    return refuse("precondition_failed", `the account's settlement account cannot receive ${asset_id}`);
  }
  const wrong_amount = checkNet(requested_minor, fee_minor, reached);
  if (wrong_amount !== null) return wrong_amount;
  const asked = { account: caller.account, mode: caller.mode, platform_id: from_platform_id, asset_id };
  if ((await rooms.withdrawal_ledger.available(asked)) < requested_minor) {
    return refuse("insufficient_funds", "the available balance does not cover the amount");
  }
  return {
    id,
    account: caller.account,
    mode: caller.mode,
    reference: newReference("WDR", caller.mode),
    client_ref: request.clientRef ?? null,
    requested_minor,
    fee_minor,
    asset_id,
    currency: terms.currency,
    scale: terms.scale,
    from_platform_id,
    platform_id: to.platform_id,
    merchant_name: terms.merchant_name,
    note: request.note ?? null,
    metadata: request.metadata?.values ?? null,
    destination: to.destination,
    kept_as: to.kept_as,
  };
}
