// The queue of ledger accounts still to be opened. A row is the durable intent; it goes when the ledger has acknowledged.

import type { Queryable, Tx } from "@cauri/store/pool";
import { houseOpenings, merchantOpenings, type Opening, type Place } from "./opening.ts";

/**
 * Every place there is, for an account that is being signed up. The share lock keeps a new place from being spread
 * between this read and the commit: either the sign-up sees the place, or the spreading sees the account.
 */
export async function placesForSignUp(tx: Tx): Promise<Place[]> {
  await tx.query("lock table places in share mode");
  const { rows } = await tx.query<Place>("select platform_id, asset_id from places");
  return rows;
}

/** Notes openings; one that is noted already stays as it is. */
export async function noteOpenings(tx: Tx, openings: readonly Opening[]): Promise<void> {
  await tx.query(
    `insert into ledger_openings (code, asset_id, book, account_id, platform_id)
     select * from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[])
     on conflict do nothing`,
    [
      openings.map(({ code }) => code),
      openings.map(({ asset_id }) => asset_id),
      openings.map(({ book }) => book),
      openings.map(({ account_id }) => account_id),
      openings.map(({ platform_id }) => platform_id),
    ],
  );
}

/** Notes what new places need, for the house and for every account that is not closed; answers how many places were new. */
export async function spreadPlaces(tx: Tx): Promise<number> {
  const due = await tx.query<Place>("select platform_id, asset_id from places where spread_at is null");
  if (due.rows.length === 0) return 0;
  // Waits for every sign-up that has read the places; those that come later read the new ones themselves.
  await tx.query("lock table places in share row exclusive mode");
  const { rows: places } = await tx.query<Place>(
    "update places set spread_at = clock_timestamp() where spread_at is null returning platform_id, asset_id",
  );
  await noteOpenings(tx, houseOpenings(places));
  const { rows: accounts } = await tx.query<{ account_id: string }>(
    "select account_id from accounts where status <> 'closed'",
  );
  for (const { account_id } of accounts) await noteOpenings(tx, merchantOpenings(account_id, places));
  return places.length;
}

/** What is still to be opened, the oldest first; where an account is named only what it needs: its own and the house's. */
export async function dueOpenings(db: Queryable, limit: number, account_id: string | null): Promise<Opening[]> {
  const { rows } = await db.query<Opening>(
    `select code, asset_id, book, account_id, platform_id from ledger_openings
     where $2::text is null or account_id is null or account_id = $2 order by noted_at, code limit $1`,
    [limit, account_id],
  );
  return rows;
}

/** Strikes off what the ledger has acknowledged; what another process struck off meanwhile is no matter. */
export async function strikeOpenings(db: Queryable, openings: readonly Opening[]): Promise<void> {
  await db.query(
    `delete from ledger_openings o using unnest($1::text[], $2::text[], $3::text[]) as done (code, asset_id, book)
     where o.code = done.code and o.asset_id = done.asset_id and o.book = done.book`,
    [openings.map(({ code }) => code), openings.map(({ asset_id }) => asset_id), openings.map(({ book }) => book)],
  );
}

/** The places where this account, or the house itself, has not all of its ledger accounts yet, as `platform/asset`. */
export async function placesStillOpening(db: Queryable, account_id: string | null): Promise<Set<string>> {
  const { rows } = await db.query<{ place: string }>(
    `select platform_id || '/' || asset_id as place from places where spread_at is null
     union
     select p.platform_id || '/' || p.asset_id from ledger_openings o
       join places p on p.asset_id = o.asset_id and (o.platform_id is null or p.platform_id = o.platform_id)
     where o.account_id is null or o.account_id = $1`,
    [account_id],
  );
  return new Set(rows.map(({ place }) => place));
}

/** Whether an account still waits for a ledger account, its own or the house's. */
export async function isWaiting(db: Queryable, account_id: string): Promise<boolean> {
  const { rows } = await db.query("select from ledger_openings where account_id = $1 or account_id is null limit 1", [
    account_id,
  ]);
  return rows.length > 0;
}
