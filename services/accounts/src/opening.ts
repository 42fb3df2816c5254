// Which ledger accounts the house and a merchant need, by the chart of accounts. Pure.

import type { Mode } from "@cauri/money/mode";

export type Place = { readonly platform_id: string; readonly asset_id: string };

/** A ledger account that is to be opened; `account_id` null: the house's own. */
export type Opening = {
  readonly code: string;
  readonly asset_id: string;
  readonly book: Mode;
  readonly account_id: string | null;
  readonly platform_id: string | null;
};

const BOOKS = ["test", "live"] as const;

/** What the house keeps on every platform; `fees` stands once per asset, whatever the platform. */
const HOUSE_CODES = ["float", "suspense", "costs", "interplatform"] as const;

/** A merchant's accounts: one per place, in both books, so that approval never waits for a mode. */
export function merchantOpenings(account_id: string, places: readonly Place[]): Opening[] {
  return places.flatMap(({ platform_id, asset_id }) =>
    BOOKS.map((book) => ({ code: merchantCode(account_id, platform_id), asset_id, book, account_id, platform_id })),
  );
}

/** The house's accounts in these places. `fees` is repeated where places share an asset: opening is repeatable. */
export function houseOpenings(places: readonly Place[]): Opening[] {
  const openings = new Map<string, Opening>();
  for (const { platform_id, asset_id } of places) {
    for (const book of BOOKS) {
      const house = { asset_id, book, account_id: null };
      openings.set(`fees/${asset_id}/${book}`, { ...house, code: "fees", platform_id: null });
      for (const kind of HOUSE_CODES) {
        const code = `${kind}:${platform_id}`;
        openings.set(`${code}/${asset_id}/${book}`, { ...house, code, platform_id });
      }
    }
  }
  return [...openings.values()];
}

export function merchantCode(account_id: string, platform_id: string): string {
  return `merchant:${account_id}:${platform_id}`;
}

export function floatCode(platform_id: string): string {
  return `float:${platform_id}`;
}
