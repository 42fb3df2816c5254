// Reference data in SQL: assets, corridors with their rails, fee lines. All of it is small and read whole.

import type { FeeLine } from "@cauri/money/fee";
import type { Queryable, Tx } from "@cauri/store/pool";
import type { Asset, Corridor, FeeOperation, PricedLine } from "./terms.ts";

const CORRIDOR = `
  select c.corridor_id, c.platform_id, p.name as platform_name, p.country, p.destination_types, c.asset_id, c.direction, c.is_open,
         c.min_amount_minor, c.max_amount_minor,
         coalesce((select json_agg(json_build_object('rail', r.rail, 'needs_phone', r.needs_phone) order by cr.priority)
                   from corridor_rails cr join rails r using (rail) where cr.corridor_id = c.corridor_id), '[]') as rails
  from corridors c join platforms p using (platform_id)`;

const LINE = `select operation, asset_id, account_id, platform_id, percent_bps, fixed_minor, min_minor, max_minor, updated_at
  from fee_lines`;

/** The assets that some corridor carries: those an account can use. */
export async function listUsableAssets(db: Queryable): Promise<Asset[]> {
  const { rows } = await db.query<Asset>(
    `select asset_id, code, name, scale from assets a
     where exists (select from corridors c where c.asset_id = a.asset_id) order by code`,
  );
  return rows;
}

export async function findAsset(db: Queryable, asset_id: string): Promise<Asset | null> {
  const { rows } = await db.query<Asset>("select asset_id, code, name, scale from assets where asset_id = $1", [
    asset_id,
  ]);
  return rows[0] ?? null;
}

/** The country of a platform; null: no such platform. */
export async function countryOfPlatform(db: Queryable, platform_id: string): Promise<string | null> {
  const { rows } = await db.query<{ country: string }>("select country from platforms where platform_id = $1", [
    platform_id,
  ]);
  return rows[0]?.country ?? null;
}

/** Where a platform is and what it can send money to; null: no such platform. */
export async function findPlatform(
  db: Queryable,
  platform_id: string,
): Promise<{ readonly country: string; readonly destination_types: readonly string[] } | null> {
  const { rows } = await db.query<{ country: string; destination_types: string[] }>(
    "select country, destination_types from platforms where platform_id = $1",
    [platform_id],
  );
  return rows[0] ?? null;
}

export async function isPlace(db: Queryable, platform_id: string, asset_id: string): Promise<boolean> {
  const { rows } = await db.query("select from places where platform_id = $1 and asset_id = $2", [
    platform_id,
    asset_id,
  ]);
  return rows.length > 0;
}

/** Every corridor, by platform, then asset, then direction. */
export async function listCorridors(db: Queryable): Promise<Corridor[]> {
  const { rows } = await db.query<Corridor>(`${CORRIDOR} order by c.platform_id, c.asset_id, c.direction`);
  return rows;
}

export async function findCorridor(
  db: Queryable,
  place: { platform_id: string; asset_id: string; direction: string },
): Promise<Corridor | null> {
  const { rows } = await db.query<Corridor>(
    `${CORRIDOR} where c.platform_id = $1 and c.asset_id = $2 and c.direction = $3`,
    [place.platform_id, place.asset_id, place.direction],
  );
  return rows[0] ?? null;
}

/** Opens or closes a corridor; null: no such corridor. */
export async function setCorridor(tx: Tx, corridor_id: string, is_open: boolean): Promise<Corridor | null> {
  const { rowCount } = await tx.query(
    "update corridors set is_open = $2, updated_at = clock_timestamp() where corridor_id = $1",
    [corridor_id, is_open],
  );
  if (rowCount === 0) return null;
  const { rows } = await tx.query<Corridor>(`${CORRIDOR} where c.corridor_id = $1`, [corridor_id]);
  return rows[0] ?? null;
}

/** The lines that can price something for this account: its own and everyone's. */
export async function linesFor(db: Queryable, account_id: string | null): Promise<PricedLine[]> {
  const { rows } = await db.query<PricedLine>(`${LINE} where account_id is null or account_id = $1`, [account_id]);
  return rows;
}

/** Every fee line, the general ones first. */
export async function listLines(db: Queryable): Promise<PricedLine[]> {
  const { rows } = await db.query<PricedLine>(
    `${LINE} order by operation, asset_id, account_id nulls first, platform_id nulls first`,
  );
  return rows;
}

/** Sets the line of this key; operations to come are priced by it, those that stand keep the fee they were given. */
export async function setLine(
  tx: Tx,
  key: { operation: FeeOperation; asset_id: string; account_id: string | null; platform_id: string | null },
  fee: FeeLine,
): Promise<PricedLine> {
  const { rows } = await tx.query<PricedLine>(
    `insert into fee_lines (operation, asset_id, account_id, platform_id, percent_bps, fixed_minor, min_minor, max_minor)
     values ($1, $2, $3, $4, $5, $6, $7, $8)
     on conflict (operation, asset_id, account_id, platform_id) do update
       set percent_bps = excluded.percent_bps, fixed_minor = excluded.fixed_minor, min_minor = excluded.min_minor,
           max_minor = excluded.max_minor, updated_at = clock_timestamp()
     returning operation, asset_id, account_id, platform_id, percent_bps, fixed_minor, min_minor, max_minor, updated_at`,
    [
      key.operation,
      key.asset_id,
      key.account_id,
      key.platform_id,
      fee.percent_bps,
      fee.fixed_minor,
      fee.min_minor,
      fee.max_minor,
    ],
  );
  const [row] = rows;
  if (row === undefined) throw new Error("an upsert answered no row");
  return row;
}
