// Accounts: opening and reading. Reads tell the balances as they are now: what a hold set aside until a moment that has
// passed is free, whether or not the sweeper has booked it yet.

import { pgBoolArray, pgTextArray } from "@cauri/store/arrays";
import { type Pool, type Queryable, transact } from "@cauri/store/pool";
import type { Balances, Book } from "./books.ts";
import { chartOf, type NormalSide } from "./chart.ts";

export type AccountName = { readonly code: string; readonly asset_id: string; readonly book: Book };

export type ReadAccount = AccountName &
  Balances & {
    readonly platform_id: string | null;
    readonly normal_side: NormalSide;
    readonly no_overdraft: boolean;
    readonly updated_at: Date;
  };

const COLUMNS = `a.code, l.asset_id, l.book, a.platform_id, a.normal_side, a.no_overdraft, a.debits_posted, a.credits_posted,
  a.debits_pending - coalesce((select sum(amount) from expiring_holds e
    where e.debit_id = a.account_id and e.expires_at <= clock_timestamp()), 0)::bigint as debits_pending,
  a.credits_pending - coalesce((select sum(amount) from expiring_holds e
    where e.credit_id = a.account_id and e.expires_at <= clock_timestamp()), 0)::bigint as credits_pending,
  a.updated_at`;

/**
 * Opens what isn't open yet and returns how many were new. Two callers may open the same account at once: both succeed.
 * Lanes and accounts are taken in the order of their names, so that two callers never wait for each other in a circle.
 */
export async function openAccounts(pool: Pool, names: readonly AccountName[]): Promise<number> {
  const sorted = [...new Map(names.map((name) => [keyOf(name), name])).entries()]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([, name]) => name);
  const charts = sorted.map(({ code }) => {
    const chart = chartOf(code);
    if (chart === null) throw new Error(`bug: ${code} is no code of the chart of accounts`);
    return chart;
  });
  const assets = pgTextArray(sorted.map((name) => name.asset_id));
  const books = pgTextArray(sorted.map((name) => name.book));
  return await transact(pool, async (tx) => {
    await tx.query(
      `insert into lanes (asset_id, book)
       select distinct on (asset_id, book) asset_id, book from unnest($1::text[], $2::book[]) as n (asset_id, book)
       where not exists (select from lanes l where l.asset_id = n.asset_id and l.book = n.book)
       order by asset_id, book
       on conflict do nothing`,
      [assets, books],
    );
    const { rowCount } = await tx.query(
      `insert into accounts (lane_id, code, owner, platform_id, normal_side, no_overdraft)
       select l.lane_id, n.code, n.owner, n.platform_id, n.normal_side, n.no_overdraft
       from unnest($1::text[], $2::book[], $3::text[], $4::text[], $5::text[], $6::normal_side[], $7::boolean[])
         with ordinality as n (asset_id, book, code, owner, platform_id, normal_side, no_overdraft, place)
       join lanes l on l.asset_id = n.asset_id and l.book = n.book
       where not exists (select from accounts a where a.lane_id = l.lane_id and a.code = n.code)
       order by n.place
       on conflict do nothing`,
      [
        assets,
        books,
        pgTextArray(sorted.map((name) => name.code)),
        pgTextArray(charts.map((chart) => chart.owner)),
        pgTextArray(charts.map((chart) => chart.platform_id)),
        pgTextArray(charts.map((chart) => chart.normal_side)),
        pgBoolArray(charts.map((chart) => chart.no_overdraft)),
      ],
    );
    return rowCount ?? 0;
  });
}

/** The accounts that are open, in the order asked. */
export async function readAccounts(pool: Queryable, names: readonly AccountName[]): Promise<ReadAccount[]> {
  const { rows } = await pool.query<ReadAccount>(
    `select ${COLUMNS}
     from unnest($1::text[], $2::book[], $3::text[]) with ordinality as n (asset_id, book, code, place)
     join lanes l on l.asset_id = n.asset_id and l.book = n.book
     join balances a on a.lane_id = l.lane_id and a.code = n.code
     order by n.place`,
    [
      pgTextArray(names.map((name) => name.asset_id)),
      pgTextArray(names.map((name) => name.book)),
      pgTextArray(names.map((name) => name.code)),
    ],
  );
  return rows;
}

/** A merchant's own accounts in one book, by asset and platform; receivables are the house's view, not its. */
export async function readMerchantAccounts(pool: Queryable, owner: string, book: Book): Promise<ReadAccount[]> {
  const { rows } = await pool.query<ReadAccount>(
    `select ${COLUMNS} from balances a join lanes l using (lane_id)
     where a.owner = $1 and l.book = $2::book and starts_with(a.code, 'merchant:')
     order by l.asset_id collate "C", a.platform_id`,
    [owner, book],
  );
  return rows;
}

/**
 * Absolute sums over a merchant's own accounts and its receivables: for a comparison with zero, so over all assets.
 * A sum beyond bigint is told as the largest bigint.
 */
export async function readMerchantTotals(
  pool: Queryable,
  owner: string,
  book: Book,
): Promise<{ posted: bigint; pending: bigint }> {
  const total = (sum: string) => `least(coalesce(sum(${sum}), 0), 9223372036854775807)::bigint`;
  const { rows } = await pool.query<{ posted: bigint; pending: bigint }>(
    `select ${total("abs(credits_posted - debits_posted)")} as posted,
       ${total("debits_pending::numeric + credits_pending")} as pending
     from (select ${COLUMNS} from balances a join lanes l using (lane_id) where a.owner = $1 and l.book = $2::book) own`,
    [owner, book],
  );
  return rows[0] ?? { posted: 0n, pending: 0n };
}

function keyOf({ asset_id, book, code }: AccountName): string {
  return `${asset_id}\0${book}\0${code}`;
}
