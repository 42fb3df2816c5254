// The terms of corridors, held in memory: every creation needs them and they change a few times a day. An event of
// accounts forgets them at once, five seconds do so without one.

import type { Events } from "@cauri/events/events";
import { isRefusal, type Refusal } from "@cauri/money/refusal";
import {
  FeeOperation,
  type ReferenceServiceService,
  type Terms as Wire,
} from "@cauri/proto/ts/cauri/accounts/v1/reference";
import { TermsChanged } from "@cauri/proto/ts/cauri/events/v1/events";
import type { Caller } from "@cauri/rpc/caller";
import type { Promisified } from "@cauri/rpc/client";
import type { Terms } from "./creation.ts";

/** The longest that a change may stay unknown where its event was lost (wire.md). */
const MAX_AGE_MS = 5_000;
/** Merchants x platforms in use within five seconds; beyond it, all are asked anew. */
const MAX_ENTRIES = 20_000;

type Held = { readonly since: number; readonly terms: Promise<Terms | Refusal> };

export type TermsCache = {
  get(caller: Caller, platform_id: string, asset_id: string): Promise<Terms | Refusal>;
  /** Forgets one account's terms, or everyone's where none is named. */
  forget(account: string): void;
};

export function openTerms(client: Promisified<ReferenceServiceService>): TermsCache {
  const held = new Map<string, Held>();
  return {
    get(caller, platform_id, asset_id) {
      const key = JSON.stringify([caller.account, caller.mode, platform_id, asset_id]);
      const known = held.get(key);
      if (known !== undefined && performance.now() - known.since < MAX_AGE_MS) return known.terms;
      // The promise itself is held, so that callers at the same moment share one question; whoever forgets it while it
      // is under way makes the next caller ask again.
      const terms = fetchTerms(client, caller, platform_id, asset_id);
      if (held.size >= MAX_ENTRIES) held.clear();
      const mine: Held = { since: performance.now(), terms };
      held.set(key, mine);
      const drop = () => {
        if (held.get(key) === mine) held.delete(key);
      };
      // Neither a fault nor a refusal is an answer to remember, and a guessed platform must not fill the memory.
      terms.then((answer) => {
        if (isRefusal(answer) || !answer.corridor_known) drop();
      }, drop);
      return terms;
    },
    forget(account) {
      if (account === "") held.clear();
      const prefix = JSON.stringify([account]).slice(0, -1);
      for (const key of held.keys()) if (key.startsWith(prefix)) held.delete(key);
    },
  };
}

/** Forgets what accounts says has changed, and everything after a gap in the news; returns the way to stop. */
export function followTerms(events: Events, cache: TermsCache): () => void {
  return events.onChange(["cauri.accounts.terms.changed", "cauri.accounts.account.changed"], (change) => {
    if (change === null) cache.forget("");
    // The two messages have the account in the same place.
    else cache.forget(TermsChanged.decode(change.payload).account);
  });
}

async function fetchTerms(
  client: Promisified<ReferenceServiceService>,
  caller: Caller,
  platform_id: string,
  asset_id: string,
): Promise<Terms | Refusal> {
  const request = { operation: FeeOperation.COLLECTION, platformId: platform_id, assetId: asset_id };
  const answer = await client.getTerms(request, { caller });
  return isRefusal(answer) ? answer : termsOf(answer);
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
  };
}
