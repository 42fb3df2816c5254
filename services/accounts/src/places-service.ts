// Money that moves inside the house goes through no corridor: what matters is who may hold the asset where.

import type { GetPlacesRequest, GetPlacesResponse } from "@cauri/proto/ts/cauri/accounts/v1/reference";
import { type Queryable, snapshot } from "@cauri/store/pool";
import { isOpenForMoney } from "./account.ts";
import { findAccount } from "./account-store.ts";
import type { House } from "./house.ts";
import { placesStillOpening } from "./opening-store.ts";
import { placeOf } from "./terms.ts";
import { countryOfPlatform, findAsset, isPlace } from "./terms-store.ts";

/** Everything a transfer or rebalance is judged by, from one moment. */
export function getPlaces(house: House, request: GetPlacesRequest, account: string): Promise<GetPlacesResponse> {
  const { assetId: asset_id, platformIds, receiverAccountId: receiver } = request;
  return snapshot(house.pool, async (tx) => {
    const asset = await findAsset(tx, asset_id);
    const opening = await placesStillOpening(tx, account);
    const places = [];
    for (const platform_id of platformIds) {
      places.push({
        platformKnown: (await countryOfPlatform(tx, platform_id)) !== null,
        holdsAsset: await isPlace(tx, platform_id, asset_id),
        isOpen: !opening.has(placeOf({ platform_id, asset_id })),
      });
    }
    const place = placeOf({ platform_id: platformIds[0] ?? "", asset_id });
    return {
      assetKnown: asset !== null,
      currency: asset?.code ?? "",
      scale: asset?.scale ?? 0,
      places,
      canReceive: receiver !== undefined && receiver !== account && (await canReceive(tx, receiver, place)),
    };
  });
}

/** Approved and not about to be closed, with its ledger accounts there in both books. */
async function canReceive(db: Queryable, account_id: string, place: string): Promise<boolean> {
  const account = await findAccount(db, account_id);
  if (account === null || !isOpenForMoney(account)) return false;
  return !(await placesStillOpening(db, account_id)).has(place);
}
