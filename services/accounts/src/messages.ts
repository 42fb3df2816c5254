// The room's values in the form of its messages. Nothing is decided here.

import type { FeeLine } from "@cauri/money/fee";
import {
  Account as AccountMessage,
  AccountStatus,
  type Key as KeyMessage,
  type ResolvedKey,
} from "@cauri/proto/ts/cauri/accounts/v1/accounts";
import {
  type Corridor as CorridorMessage,
  Direction,
  type FeeLine as FeeLineMessage,
  FeeOperation,
  type FeeTerms,
} from "@cauri/proto/ts/cauri/accounts/v1/reference";
import { type Account, type AccountStatus as Status, statusShown } from "./account.ts";
import type { Key } from "./key.ts";
import type { Resolved } from "./key-store.ts";
import type { Corridor, FeeOperation as Operation, PricedLine } from "./terms.ts";

const STATUSES = {
  pending: AccountStatus.PENDING,
  approved: AccountStatus.APPROVED,
  suspended: AccountStatus.SUSPENDED,
  closed: AccountStatus.CLOSED,
} as const satisfies { readonly [status in Status]: AccountStatus };

const OPERATIONS = {
  collection: FeeOperation.COLLECTION,
  payout: FeeOperation.PAYOUT,
  withdrawal: FeeOperation.WITHDRAWAL,
} as const satisfies { readonly [operation in Operation]: FeeOperation };

const DIRECTIONS = { collection: Direction.COLLECTION, payout: Direction.PAYOUT } as const;

const FREE: FeeLine = { percent_bps: 0, fixed_minor: 0n, min_minor: null, max_minor: null };

export function accountMessage(account: Account): AccountMessage {
  const { settlement } = account;
  return AccountMessage.fromPartial({
    accountId: account.account_id,
    name: account.name,
    country: account.country,
    email: account.email,
    status: STATUSES[statusShown(account)],
    isLive: account.is_live,
    products: [...account.products],
    options: [...account.options],
    createdAt: account.created_at,
    ...(settlement === null
      ? {}
      : { settlement: { platformId: settlement.platform_id, destination: settlement.destination } }),
  });
}

/** A key as it is listed; its secret is added by the one call that shows it. */
export function keyMessage(key: Key, secret?: string): KeyMessage {
  return {
    keyId: key.key_id,
    accountId: key.account_id,
    mode: key.mode,
    scopes: [...key.scopes],
    name: key.name,
    secret,
    createdAt: key.created_at,
    revokedAt: key.revoked_at ?? undefined,
    expiresAt: key.expires_at ?? undefined,
  };
}

export function resolvedMessage(resolved: Resolved): ResolvedKey {
  return {
    known: true,
    keyId: resolved.key_id,
    accountId: resolved.account_id,
    mode: resolved.mode,
    scopes: resolved.scopes,
    accountStatus: STATUSES[statusShown(resolved)],
    isLive: resolved.is_live,
    products: resolved.products,
    options: resolved.options,
    expiresAt: resolved.expires_at ?? undefined,
  };
}

/** A corridor with the price that one account, or everyone, pays in it. */
export function corridorMessage(corridor: Corridor, is_open: boolean, fee: FeeLine | null): CorridorMessage {
  return {
    corridorId: corridor.corridor_id,
    platformId: corridor.platform_id,
    platformName: corridor.platform_name,
    country: corridor.country,
    assetId: corridor.asset_id,
    direction: DIRECTIONS[corridor.direction],
    rails: corridor.rails.map(({ rail }) => rail),
    isOpen: is_open,
    minAmountMinor: corridor.min_amount_minor,
    maxAmountMinor: corridor.max_amount_minor,
    fee: feeTerms(fee ?? FREE),
  };
}

export function feeTerms(fee: FeeLine): FeeTerms {
  return {
    percentBps: fee.percent_bps,
    fixedMinor: fee.fixed_minor,
    minMinor: fee.min_minor ?? undefined,
    maxMinor: fee.max_minor ?? undefined,
  };
}

export function lineMessage(line: PricedLine): FeeLineMessage {
  return {
    operation: OPERATIONS[line.operation],
    assetId: line.asset_id,
    accountId: line.account_id ?? undefined,
    platformId: line.platform_id ?? undefined,
    ...feeTerms(line),
    updatedAt: line.updated_at,
  };
}

/** The operation that an enum value names; null: not said. */
export function operationOf(value: FeeOperation): Operation | null {
  for (const operation of Object.keys(OPERATIONS) as Operation[]) {
    if (OPERATIONS[operation] === value) return operation;
  }
  return null;
}
