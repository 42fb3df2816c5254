// The terms of corridors as a room holds them in memory: asked of accounts, forgotten when accounts says that they changed.

import type { Terms } from "@cauri/money/corridor";
import { isRefusal, type Refusal } from "@cauri/money/refusal";
import type { FeeOperation, ReferenceServiceService, Terms as Wire } from "@cauri/proto/ts/cauri/accounts/v1/reference";
import { TermsChanged } from "@cauri/proto/ts/cauri/events/v1/events";
import type { Caller } from "@cauri/rpc/caller";
import type { Promisified } from "@cauri/rpc/client";
import type { Events } from "./events.ts";
import { type Held, holdAnswers } from "./held.ts";

export type TermsCache = {
  get(caller: Caller, platform_id: string, asset_id: string): Promise<Terms | Refusal>;
  /** Forgets one account's terms, or everyone's where none is named. */
  forget(account: string): void;
};

/** The terms of one operation: collections, payouts or withdrawals. */
export function openTerms(client: Promisified<ReferenceServiceService>, operation: FeeOperation): TermsCache {
  const held = holdAnswers<Terms>((terms) => terms.corridor_known);
  return {
    get: (caller, platform_id, asset_id) =>
      held.get([caller.account, caller.mode, platform_id, asset_id], async () => {
        const answer = await client.getTerms({ operation, platformId: platform_id, assetId: asset_id }, { caller });
        return isRefusal(answer) ? answer : termsOf(answer);
      }),
    forget: held.forget,
  };
}

/** Forgets what accounts says has changed, and everything after a gap in the news; returns the way to stop. */
export function followTerms(events: Events, ...caches: readonly Pick<Held<unknown>, "forget">[]): () => void {
  return events.onChange(["cauri.accounts.terms.changed", "cauri.accounts.account.changed"], (change) => {
    // The two messages have the account in the same place.
    const account = change === null ? "" : TermsChanged.decode(change.payload).account;
    for (const cache of caches) cache.forget(account);
  });
}

function termsOf(wire: Wire): Terms {
  const { fee } = wire;
  return {
    asset_known: wire.assetKnown,
    platform_known: wire.platformKnown,
    corridor_known: wire.corridorKnown,
    is_open: wire.isOpen,
    min_amount_minor: wire.minAmountMinor,
    max_amount_minor: wire.maxAmountMinor,
    rails: wire.rails.map(({ rail, needsPhone }) => ({ rail, needs_phone: needsPhone })),
    fee:
      fee === undefined
        ? null
        : {
            percent_bps: fee.percentBps,
            fixed_minor: fee.fixedMinor,
            min_minor: fee.minMinor ?? null,
            max_minor: fee.maxMinor ?? null,
          },
    country: wire.country,
    currency: wire.currency,
    scale: wire.scale,
    merchant_name: wire.merchantName,
    destination_types: wire.destinationTypes,
  };
}
