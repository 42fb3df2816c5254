// The settlement account: where a merchant's withdrawals go. Raw details go to the vault of rails at once; here there are
// masks and the id under which they are kept.

import { newId } from "@cauri/money/ids";
import { isRefusal, type Refusal, refuse, refuseField } from "@cauri/money/refusal";
import type { Account as AccountMessage, SetSettlementRequest } from "@cauri/proto/ts/cauri/accounts/v1/accounts";
import type { GetSettlementResponse } from "@cauri/proto/ts/cauri/accounts/v1/reference";
import { houseCaller } from "@cauri/rpc/caller";
import { transact } from "@cauri/store/pool";
import { isOpenForMoney } from "./account.ts";
import { noSuchAccount } from "./account-service.ts";
import { findAccount, lockAccount, setSettlement } from "./account-store.ts";
import type { House } from "./house.ts";
import { accountMessage } from "./messages.ts";
import { findPlatform } from "./terms-store.ts";

/**
 * The raw details are kept under an id of their own before the account names them: a process that dies in between leaves
 * sealed details that nothing names, and the operator says it again. They stay when another account is set: requests that
 * stand name them.
 */
export async function setSettlementAccount(
  house: House,
  request: SetSettlementRequest,
  request_id: string,
): Promise<AccountMessage | Refusal> {
  const { accountId: account_id, platformId: platform_id, destination } = request;
  if (destination === undefined) return refuseField("destination", "is required");
  const account = await findAccount(house.pool, account_id);
  if (account === null) return noSuchAccount();
  const platform = await findPlatform(house.pool, platform_id);
  if (platform === null) return refuseField("platform_id", "no such platform");
  if (!platform.destination_types.includes(destination.type)) {
    const served = platform.destination_types.join(", ");
    return refuseField("destination.type", `${platform_id} pays out to ${served}`);
  }
  const kept_as = newId("acct", house.clock());
  const masks = await house.rails.keepDestination(
    { operationId: kept_as, country: platform.country, destination, fieldPath: "destination", lasting: true },
    { caller: houseCaller(account_id, "live", request_id) },
  );
  if (isRefusal(masks)) return masks;
  const answer = await transact(house.pool, async (tx) => {
    const locked = await lockAccount(tx, account_id);
    if (locked === null) return noSuchAccount();
    if (locked.status === "closed") return refuse("precondition_failed", "the account is closed");
    return await setSettlement(tx, account_id, { platform_id, kept_as, destination: { ...masks } });
  });
  return isRefusal(answer) ? answer : accountMessage(answer);
}

export async function getSettlement(house: House, account_id: string): Promise<GetSettlementResponse | Refusal> {
  const account = await findAccount(house.pool, account_id);
  if (account === null) return noSuchAccount();
  const { settlement, is_live } = account;
  return {
    isActive: isOpenForMoney(account),
    isLive: is_live,
    platformId: settlement?.platform_id,
    keptAs: settlement?.kept_as,
    destination: settlement?.destination,
  };
}
