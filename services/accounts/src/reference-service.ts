// The RPCs of reference data: what a merchant may use, what a room must know before it accepts, what an operator sets.

import { MAX_MINOR } from "@cauri/money/amount";
import type { Mode } from "@cauri/money/mode";
import { isRefusal, type Refusal, refuse, refuseField } from "@cauri/money/refusal";
import {
  type Corridor as CorridorMessage,
  type FeeLine as FeeLineMessage,
  type GetTermsRequest,
  type ListAssetsRequest,
  type ListAssetsResponse,
  type ListCorridorsRequest,
  type ListCorridorsResponse,
  type ListFeesResponse,
  type SetCorridorRequest,
  type SetFeeRequest,
  Terms,
} from "@cauri/proto/ts/cauri/accounts/v1/reference";
import { snapshot, type Tx, transact } from "@cauri/store/pool";
import { findAccount } from "./account-store.ts";
import { tellTerms } from "./events.ts";
import type { House } from "./house.ts";
import { corridorMessage, feeTerms, lineMessage, operationOf } from "./messages.ts";
import { placesStillOpening } from "./opening-store.ts";
import { checkFee, checkPage, directionOf, type FeeOperation, isOpenFor, pageOf, pickLine } from "./terms.ts";
import {
  countryOfPlatform,
  findAsset,
  findCorridor,
  isPlace,
  linesFor,
  listCorridors,
  listLines,
  listUsableAssets,
  setCorridor,
  setLine,
} from "./terms-store.ts";

/** Whose terms are asked for: from the caller's metadata. */
export type Asker = { readonly account: string; readonly mode: Mode };

export async function listAssets(house: House, request: ListAssetsRequest): Promise<ListAssetsResponse | Refusal> {
  const asked = checkPage(request.page, request.perPage);
  if (isRefusal(asked)) return asked;
  const assets = (await listUsableAssets(house.pool)).map(({ asset_id, ...rest }) => ({ assetId: asset_id, ...rest }));
  const { data, page, per_page, has_more, total } = pageOf(assets, asked);
  return { data: [...data], page: BigInt(page), perPage: per_page, hasMore: has_more, total };
}

export async function listCorridorsFor(
  house: House,
  request: ListCorridorsRequest,
  { account, mode }: Asker,
): Promise<ListCorridorsResponse | Refusal> {
  const asked = checkPage(request.page, request.perPage);
  if (isRefusal(asked)) return asked;
  const corridors = await snapshot(house.pool, async (tx) => {
    const [all, lines, opening] = await Promise.all([
      listCorridors(tx),
      linesFor(tx, account),
      placesStillOpening(tx, account),
    ]);
    return all.map((corridor) => {
      const place = { asset_id: corridor.asset_id, platform_id: corridor.platform_id };
      const line = pickLine(lines, { operation: corridor.direction, account_id: account, ...place });
      return corridorMessage(corridor, isOpenFor(corridor, mode, house.live, opening), line);
    });
  });
  const { data, page, per_page, has_more, total } = pageOf(corridors, asked);
  return { data: [...data], page: BigInt(page), perPage: per_page, hasMore: has_more, total };
}

/** Everything a creation is judged by, from one moment; the asking room keeps it until an event says otherwise. */
export async function getTerms(house: House, request: GetTermsRequest, asker: Asker): Promise<Terms | Refusal> {
  const operation = operationOf(request.operation);
  if (operation === null) return refuseField("operation", "must be said");
  const place = { platform_id: request.platformId, asset_id: request.assetId };
  return snapshot(house.pool, async (tx) => {
    const [account, asset, country, corridor, lines, opening] = await Promise.all([
      findAccount(tx, asker.account),
      findAsset(tx, place.asset_id),
      countryOfPlatform(tx, place.platform_id),
      findCorridor(tx, { ...place, direction: directionOf(operation) }),
      linesFor(tx, asker.account),
      placesStillOpening(tx, asker.account),
    ]);
    if (account === null) return refuse("not_found", "no such account");
    const line = pickLine(lines, { operation, account_id: asker.account, ...place });
    return Terms.fromPartial({
      assetKnown: asset !== null,
      platformKnown: country !== null,
      corridorKnown: corridor !== null,
      isOpen: corridor !== null && isOpenFor(corridor, asker.mode, house.live, opening),
      minAmountMinor: corridor?.min_amount_minor ?? 0n,
      maxAmountMinor: corridor?.max_amount_minor ?? 0n,
      rails: corridor?.rails.map(({ rail, needs_phone }) => ({ rail, needsPhone: needs_phone })) ?? [],
      ...(line === null ? {} : { fee: feeTerms(line) }),
      country: country ?? "",
      currency: asset?.code ?? "",
      scale: asset?.scale ?? 0,
      merchantName: account.name,
      destinationTypes: [...(corridor?.destination_types ?? [])],
    });
  });
}

/** Every corridor as it is set, with everyone's price: what an operator edits. */
export async function listAllCorridors(house: House): Promise<ListCorridorsResponse> {
  const data = await snapshot(house.pool, async (tx) => {
    const [corridors, lines] = await Promise.all([listCorridors(tx), linesFor(tx, null)]);
    return corridors.map((corridor) => {
      const place = { asset_id: corridor.asset_id, platform_id: corridor.platform_id };
      const line = pickLine(lines, { operation: corridor.direction, account_id: null, ...place });
      return corridorMessage(corridor, corridor.is_open, line);
    });
  });
  return { data, page: 1n, perPage: data.length, total: BigInt(data.length), hasMore: false };
}

export async function openOrCloseCorridor(
  house: House,
  request: SetCorridorRequest,
): Promise<CorridorMessage | Refusal> {
  return transact(house.pool, async (tx) => {
    const corridor = await setCorridor(tx, request.corridorId, request.isOpen);
    if (corridor === null) return refuse("not_found", "no such corridor");
    await tellTerms(tx, null);
    const { asset_id, platform_id, direction } = corridor;
    const lines = await linesFor(tx, null);
    const line = pickLine(lines, { operation: direction, account_id: null, asset_id, platform_id });
    return corridorMessage(corridor, corridor.is_open, line);
  });
}

export async function setFee(house: House, request: SetFeeRequest): Promise<FeeLineMessage | Refusal> {
  const operation = operationOf(request.operation);
  if (operation === null) return refuseField("operation", "must be collection, payout or withdrawal");
  const fee = {
    percent_bps: request.percentBps,
    fixed_minor: request.fixedMinor,
    min_minor: request.minMinor ?? null,
    max_minor: request.maxMinor ?? null,
  };
  const key: FeeKey = {
    operation,
    asset_id: request.assetId,
    account_id: request.accountId ?? null,
    platform_id: request.platformId ?? null,
  };
  const wrong = checkFee(fee, MAX_MINOR);
  if (wrong !== null) return wrong;
  const line = await transact(house.pool, async (tx) => {
    const refused = await checkFeeKey(tx, key);
    if (refused !== null) return refused;
    await tellTerms(tx, key.account_id);
    return setLine(tx, key, fee);
  });
  return isRefusal(line) ? line : lineMessage(line);
}

export async function listFees(house: House): Promise<ListFeesResponse> {
  return { data: (await listLines(house.pool)).map(lineMessage) };
}

type FeeKey = {
  readonly operation: FeeOperation;
  readonly asset_id: string;
  readonly account_id: string | null;
  readonly platform_id: string | null;
};

/** A line for something that doesn't exist would price nothing and look as if it did. */
async function checkFeeKey(tx: Tx, key: FeeKey): Promise<Refusal | null> {
  const { asset_id, account_id, platform_id } = key;
  if ((await findAsset(tx, asset_id)) === null) return refuseField("asset_id", "no such asset");
  if (account_id !== null && (await findAccount(tx, account_id)) === null) {
    return refuseField("account_id", "no such account");
  }
  if (platform_id === null) return null;
  if ((await countryOfPlatform(tx, platform_id)) === null) return refuseField("platform_id", "no such platform");
  return (await isPlace(tx, platform_id, asset_id)) ? null : refuseField("platform_id", "does not hold this asset");
}
