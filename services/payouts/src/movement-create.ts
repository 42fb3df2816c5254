// A transfer or rebalance, step by step: key, places, intent, one ledger group, visible. What was posted can't be taken
// back, so an interrupted one is always finished: by the merchant's retry or by the sweeper.

import { type Held, holdAnswers } from "@cauri/events/held";
import { type Created, OUTGOING_LEASE_MS } from "@cauri/events/outgoing-run";
import { checkClientRef } from "@cauri/money/corridor";
import { newReference } from "@cauri/money/reference";
import { isRefusal, type Refusal, refuse, refuseField } from "@cauri/money/refusal";
import type { ReferenceServiceService } from "@cauri/proto/ts/cauri/accounts/v1/reference";
import type { CreateRebalanceRequest, CreateTransferRequest } from "@cauri/proto/ts/cauri/payouts/v1/transfers";
import type { Caller } from "@cauri/rpc/caller";
import type { Promisified } from "@cauri/rpc/client";
import { Counter } from "@cauri/rpc/metrics";
import { type DueClaim, fingerprint, finishClaims } from "@cauri/store/claims";
import { LeaseLost, underClaim, whenOvertaken, withFreshReference } from "@cauri/store/lease";
import { beginTogether, type Lease, underLease } from "@cauri/store/operation";
import { type Pool, transact } from "@cauri/store/pool";
import { writeTogether } from "@cauri/store/together";
import type { Ledger } from "./ledger.ts";
import {
  checkPlaces,
  type Movement,
  type MovementKind,
  type Places,
  type Rebalance,
  type Transfer,
} from "./movement.ts";
import {
  eraseMovement,
  findMovement,
  findSeen,
  insertMovements,
  showRebalances,
  showTransfers,
} from "./movement-store.ts";

export type PlacesCache = Held<Places> & {
  ask(
    caller: Caller,
    asset_id: string,
    platform_ids: readonly string[],
    receiver: string | null,
  ): Promise<Places | Refusal>;
};

export type Moving = {
  readonly pool: Pool;
  readonly ledger: Ledger;
  readonly places: PlacesCache;
  readonly fingerprint_key: string;
};

type Seen = { readonly transfer: Transfer; readonly rebalance: Rebalance };
type Given = Omit<Movement, "id" | "account" | "mode" | "reference">;

const done = new Counter({
  name: "cauri_movements_done_total",
  help: "Transfers and rebalances that were done.",
  labelNames: ["kind"],
});

/** What accounts says of places and receivers, held for a moment; a receiver's change forgets everything. */
export function openPlaces(client: Promisified<ReferenceServiceService>): PlacesCache {
  const held = holdAnswers<Places>(({ asset_known, places }) => asset_known && places.every((one) => one.is_open));
  return {
    ...held,
    forget: () => held.forget(""),
    ask: (caller, asset_id, platform_ids, receiver) =>
      held.get([caller.account, caller.mode, asset_id, receiver ?? "", ...platform_ids], async () => {
        const request = { assetId: asset_id, platformIds: [...platform_ids], receiverAccountId: receiver ?? undefined };
        const answer = await client.getPlaces(request, { caller });
        if (isRefusal(answer)) return answer;
        const places = answer.places.map(({ platformKnown, holdsAsset, isOpen }) => ({
          platform_known: platformKnown,
          holds_asset: holdsAsset,
          is_open: isOpen,
        }));
        return { asset_known: answer.assetKnown, places, can_receive: answer.canReceive };
      }),
  };
}

export function createTransfer(rooms: Moving, request: CreateTransferRequest, caller: Caller) {
  const { amountMinor, assetId, platformId, destinationAccountId } = request;
  if (
    amountMinor === undefined ||
    assetId === undefined ||
    platformId === undefined ||
    destinationAccountId === undefined
  )
    throw new Error("a creation came without its required fields");
  return create(rooms, "transfer", request, caller, {
    kind: "transfer",
    client_ref: request.clientRef ?? null,
    amount_minor: amountMinor,
    asset_id: assetId,
    platform_id: platformId,
    receiver: destinationAccountId,
    to_platform_id: platformId,
    description: request.description ?? null,
    metadata: request.metadata?.values ?? null,
  });
}

export function createRebalance(rooms: Moving, request: CreateRebalanceRequest, caller: Caller) {
  const { amountMinor, assetId, fromPlatformId, toPlatformId } = request;
  if (amountMinor === undefined || assetId === undefined || fromPlatformId === undefined || toPlatformId === undefined)
    throw new Error("a creation came without its required fields");
  return create(rooms, "rebalance", request, caller, {
    kind: "rebalance",
    client_ref: request.clientRef ?? null,
    amount_minor: amountMinor,
    asset_id: assetId,
    platform_id: fromPlatformId,
    receiver: caller.account,
    to_platform_id: toPlatformId,
    description: null,
    metadata: request.metadata?.values ?? null,
  });
}

/** The sweeper's part. */
export async function sweepMovement(rooms: Moving, due: DueClaim): Promise<void> {
  const lease = { operation_id: due.operation_id, lease_no: due.lease_no };
  try {
    await goOn(rooms, due.kind as MovementKind, lease);
  } catch (error) {
    if (!(error instanceof LeaseLost)) throw error;
  }
}

async function create<K extends MovementKind>(
  rooms: Moving,
  kind: K,
  request: object & { readonly clientRef?: string | undefined },
  caller: Caller,
  given: Given,
): Promise<Created<Seen[K]> | Refusal> {
  const { operation, account, mode } = caller;
  if (operation === null) throw new Error("a creation came without the operation id that the gateway mints");
  const route = `POST /v1/${kind}s`;
  const claim = {
    operation_id: operation,
    account,
    mode,
    route,
    kind,
    key: caller.idempotency_key,
    client_ref: given.client_ref,
    fingerprint: fingerprint(rooms.fingerprint_key, route, request),
    lease_ms: OUTGOING_LEASE_MS,
    takeover: true,
  };
  const prepare = async (): Promise<Movement | Refusal> =>
    (await whyNot(rooms, caller, given)) ?? {
      ...given,
      id: operation,
      account,
      mode,
      reference: newReference(kind === "transfer" ? "TRF" : "RBL", mode),
    };
  const begun = await withFreshReference("movements_reference", () => begin(rooms.pool, claim, prepare));
  if (isRefusal(begun)) return begun;
  if ("replayed" in begun) {
    const outcome = begun.replayed === operation ? "created" : "replayed";
    return { operation: await seen(rooms.pool, kind, caller, begun.replayed), outcome };
  }
  const { lease } = begun;
  const refused = await underLease(rooms.pool, lease, () =>
    begun.begun === "new" ? run(rooms, begun.written, lease) : goOn(rooms, kind, lease),
  ).catch(whenOvertaken);
  if (refused !== null) return refused;
  return { operation: await seen(rooms.pool, kind, caller, lease.operation_id), outcome: "created" };
}

const begin = beginTogether(insertMovements);

async function whyNot(rooms: Moving, caller: Caller, given: Given): Promise<Refusal | null> {
  const { kind, asset_id, platform_id, to_platform_id, receiver } = given;
  const wrong_ref = checkClientRef(given.client_ref ?? undefined);
  if (wrong_ref !== null) return wrong_ref;
  const is_transfer = kind === "transfer";
  const platforms = is_transfer ? [platform_id] : [platform_id, to_platform_id];
  const places = await rooms.places.ask(caller, asset_id, platforms, is_transfer ? receiver : null);
  if (isRefusal(places)) return places;
  const refused = checkPlaces(kind, asset_id, places);
  if (refused !== null) return refused;
  if (is_transfer || platform_id !== to_platform_id) return null;
  return refuseField("to_platform_id", "must be another platform than from_platform_id");
}

async function goOn(rooms: Moving, kind: MovementKind, lease: Lease): Promise<Refusal | null> {
  const movement = await findMovement(rooms.pool, lease.operation_id);
  if (movement === null) throw new Error(`a claim without its ${kind}: ${lease.operation_id}`);
  return await run(rooms, movement, lease);
}

/** The ledger first; then it is visible to both sides, and its claim ends. Null: it is done. */
async function run(rooms: Moving, movement: Movement, lease: Lease): Promise<Refusal | null> {
  if ((await rooms.ledger.move(movement)) === "insufficient_funds") {
    await transact(rooms.pool, async (tx) => {
      await underClaim(tx, lease, "erase");
      await eraseMovement(tx, movement.id);
    });
    return refuse("insufficient_funds", "the available balance does not cover the amount");
  }
  await show(rooms.pool, { movement, lease });
  done.inc({ kind: movement.kind });
  return null;
}

const show = writeTogether<{ readonly movement: Movement; readonly lease: Lease }, Movement>({
  idOf: ({ movement }) => movement.id,
  async write(tx, shown) {
    const of = (kind: MovementKind) => shown.flatMap(({ movement }) => (movement.kind === kind ? [movement.id] : []));
    const [transfers, rebalances] = [of("transfer"), of("rebalance")];
    if (transfers.length > 0) await showTransfers(tx, transfers);
    if (rebalances.length > 0) await showRebalances(tx, rebalances);
    return shown.map(({ movement }) => movement);
  },
  end: finishClaims,
});

async function seen<K extends MovementKind>(pool: Pool, kind: K, caller: Caller, id: string): Promise<Seen[K]> {
  const row = await findSeen(pool, kind, [{ by: "id", value: id }], caller);
  if (row === null) throw new Error(`${kind} ${id} is gone`);
  return row;
}
