// Payouts in SQL: the first rows; all else is what every table of outgoing operations has.

import { nowBy } from "@cauri/store/clock";
import { type OutgoingTable, outgoingTable } from "@cauri/store/outgoing-table";
import type { Tx } from "@cauri/store/pool";
import type { Payout } from "./payout.ts";

/** What the merchant and the terms decide; the rest of a draft follows. */
export type NewPayout = Omit<
  Payout,
  "status" | "rail" | "failure_code" | "version" | "rail_version" | "created_at" | "updated_at" | "completed_at"
>;

type Row = Payout & { readonly n: bigint | null; readonly check_at: Date };

/** What the columns of a new row say by themselves. */
const FIRST = {
  status: "draft",
  rail: null,
  failure_code: null,
  version: 0,
  rail_version: 0n,
  completed_at: null,
} as const;

export const payouts: OutgoingTable<Payout> = outgoingTable("payout", (row) => payoutOf(row as unknown as Row));

/** Drafts are in no list and no read: they take no number yet. They come back in the order in which they were given. */
export async function insertDrafts(tx: Tx, drafts: readonly NewPayout[]): Promise<Payout[]> {
  const { rows } = await tx.query<Pick<Row, "id" | "created_at" | "updated_at">>(
    `insert into payouts (
       id, account, mode, reference, client_ref, status, amount_minor, fee_minor, asset_id, currency, scale, platform_id,
       rails, forced, merchant_name, description, metadata, destination, check_at, created_at, updated_at)
     select d.id, d.account, d.mode, d.reference, d.client_ref, 'draft', d.amount_minor, d.fee_minor, d.asset_id,
            d.currency, d.scale, d.platform_id, d.rails, d.forced, d.merchant_name, d.description, d.metadata,
            d.destination, ${nowBy("c")}, ${nowBy("c")}, ${nowBy("c")}
       from json_to_recordset($1::json) as d (
         id text, account text, mode text, reference text, client_ref text, amount_minor bigint, fee_minor bigint,
         asset_id text, currency text, scale smallint, platform_id text, rails text[], forced boolean,
         merchant_name text, description text, metadata json, destination json)
       left join clocks c on c.account = d.account and d.mode = 'test'
     returning id, created_at, updated_at`,
    [JSON.stringify(drafts.map(inJson))],
  );
  const inserted = new Map(rows.map((row) => [row.id, row]));
  return drafts.map((draft) => {
    const row = inserted.get(draft.id);
    if (row === undefined) throw new Error("an insert of payouts returned no row");
    return { ...draft, ...FIRST, ...row };
  });
}

/** A JSON number would not hold every amount of a bigint. */
function inJson({ amount_minor, fee_minor, ...payout }: NewPayout): object {
  return { ...payout, amount_minor: String(amount_minor), fee_minor: String(fee_minor) };
}

function payoutOf({ n: _n, check_at: _check_at, ...payout }: Row): Payout {
  return payout;
}
