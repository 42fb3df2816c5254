// Lists: pages and exact totals without counting or skipping a table, however large it is.
// A room's table has account text, mode text, n bigint null, status text, client_ref text null, created_at timestamptz;
// its migration calls `select install_list('payments', 'payment')`, which makes the three indexes and the triggers.
// Lock order in a transaction: heads (nextNumbers), then rows by id, counts last (the triggers).

import type { Mode } from "@cauri/money/mode";
import pg from "pg";
import { pgTextArray } from "./arrays.ts";
import type { Queryable, Tx } from "./pool.ts";

// A row becomes visible when it gets a number `n`, gapless per account, mode and kind, together with its created_at, so
// that number order is time order. Triggers keep counts per status and block of 4096 numbers (migrations/0004_lists.sql).
// No filter: the total is the head, a page a range of numbers. A time range: each end is found among the numbers by halving.
// A status: the total is a sum of counts, a running sum finds the block of a page, and at most one block is skipped.

/** `n >> 12`: at most 4096 index entries are ever skipped, and a million rows have 245 counters per status. */
const BLOCK_BITS = 12n;
/** As a limit of a lateral subquery it bounds nothing that is not bounded, but the planner can no longer scan it all. */
const BLOCK_SIZE = 1n << BLOCK_BITS;

export type Owner = { readonly account: string; readonly mode: Mode };
export type Numbered = { readonly n: bigint; readonly created_at: Date };

export type ListQuery = Owner & {
  readonly table: string;
  readonly kind: string;
  readonly page: number;
  readonly per_page: number;
  readonly status?: string | undefined;
  /** Several at once, for a public status that stands for more than one of ours. */
  readonly statuses?: readonly string[] | undefined;
  readonly client_ref?: string | undefined;
  /** Inclusive. */
  readonly created_from?: Date | undefined;
  /** Exclusive. */
  readonly created_to?: Date | undefined;
};

export type ListPage<Row> = {
  readonly rows: Row[];
  readonly total: number;
  readonly page: number;
  readonly per_page: number;
  readonly has_more: boolean;
};

/** The numbers that a query can mean: lowest to highest, both included; empty where highest < lowest. */
type Bounds = { readonly lowest: bigint; readonly highest: bigint };

/**
 * Takes a number and a created_at for each owner, in their order. For a statement over arrays that should take them
 * itself, `number_rows(kind, accounts, modes)` is the same as a table (ord, n, created_at) with ord from 1.
 */
export async function nextNumbers(tx: Tx, kind: string, owners: readonly Owner[]): Promise<Numbered[]> {
  if (owners.length === 0) return [];
  const { rows } = await tx.query<{ n: bigint; created_at: Date }>(
    "select n, created_at from number_rows($1, $2::text[], $3::text[]) order by ord",
    [kind, pgTextArray(owners.map((owner) => owner.account)), pgTextArray(owners.map((owner) => owner.mode))],
  );
  return rows;
}

/**
 * One page, newest first, with the exact total. Call it inside `snapshot(pool, ...)`: it asks more than once, and the
 * total and the page must tell of the same moment. A page past the end is empty.
 */
export async function listPage<Row extends pg.QueryResultRow>(tx: Queryable, query: ListQuery): Promise<ListPage<Row>> {
  const { page, per_page } = query;
  const skip = BigInt(page - 1) * BigInt(per_page);
  const { rows, total } = await findRows<Row>(tx, query, skip);
  return { rows, total: Number(total), page, per_page, has_more: skip + BigInt(per_page) < total };
}

type Found<Row> = { rows: Row[]; total: bigint };

async function findRows<Row extends pg.QueryResultRow>(
  tx: Queryable,
  query: ListQuery,
  skip: bigint,
): Promise<Found<Row>> {
  const statuses = wantedStatuses(query);
  if (query.client_ref !== undefined) return await findByClientRef<Row>(tx, query, query.client_ref, statuses, skip);
  const bounds = await readBounds(tx, query);
  if (bounds.highest < bounds.lowest) return { rows: [], total: 0n };
  if (statuses !== null) return await findByStatus<Row>(tx, query, statuses, bounds, skip);
  const total = bounds.highest - bounds.lowest + 1n;
  if (skip >= total) return { rows: [], total };
  const upper = bounds.highest - skip;
  const lower = maximum(bounds.lowest, upper - BigInt(query.per_page) + 1n);
  const { rows } = await tx.query<Row>(
    `select * from ${table(query)} where account = $1 and mode = $2 and n between $3 and $4 order by n desc`,
    [query.account, query.mode, lower, upper],
  );
  return { rows, total };
}

function wantedStatuses(query: ListQuery): readonly string[] | null {
  if (query.status === undefined) return query.statuses === undefined ? null : [...new Set(query.statuses)];
  const excluded = query.statuses !== undefined && !query.statuses.includes(query.status);
  return excluded ? [] : [query.status];
}

/** A client_ref names at most one row, so the other filters only say whether it counts. */
async function findByClientRef<Row extends pg.QueryResultRow>(
  tx: Queryable,
  query: ListQuery,
  client_ref: string,
  statuses: readonly string[] | null,
  skip: bigint,
): Promise<Found<Row>> {
  const { rows } = await tx.query<Row>(
    `select * from ${table(query)}
      where account = $1 and mode = $2 and client_ref = $3 and n is not null
        and ($4::text[] is null or status = any($4::text[]))
        and ($5::timestamptz is null or created_at >= $5) and ($6::timestamptz is null or created_at < $6)`,
    [
      query.account,
      query.mode,
      client_ref,
      statuses === null ? null : pgTextArray(statuses),
      query.created_from ?? null,
      query.created_to ?? null,
    ],
  );
  return { rows: skip === 0n ? rows : [], total: BigInt(rows.length) };
}

/** Because number order is time order, a time range is a range of numbers. */
async function readBounds(tx: Queryable, query: ListQuery): Promise<Bounds> {
  const { rows } = await tx.query<{ n: bigint }>(
    "select n from list_heads where account = $1 and mode = $2 and kind = $3",
    [query.account, query.mode, query.kind],
  );
  const head = rows[0]?.n ?? 0n;
  const before = (instant: Date) => countBefore(tx, query, head, instant);
  return {
    lowest: query.created_from === undefined ? 1n : (await before(query.created_from)) + 1n,
    highest: query.created_to === undefined ? head : await before(query.created_to),
  };
}

/**
 * How many of the first `head` rows were created before an instant: by halving, twenty looks at single rows of a million.
 * An index by time would tell it in one, and be written with every version of every row.
 */
async function countBefore(tx: Queryable, query: ListQuery, head: bigint, instant: Date): Promise<bigint> {
  const { rows } = await tx.query<{ n: bigint }>(
    `with recursive search (low, high) as (
       select 0::bigint, $3::bigint
       union all
       select case when t.created_at < $4::timestamptz then s.middle else s.low end,
              case when t.created_at < $4::timestamptz then s.high else s.middle - 1 end
         from (select low, high, (low + high + 1) / 2 as middle from search where low < high) s
        cross join lateral (
          select l.created_at from ${table(query)} l
           where l.account = $1 and l.mode = $2 and l.n = s.middle limit 1) t)
     select low as n from search where low = high`,
    [query.account, query.mode, head, instant],
  );
  const [found] = rows;
  if (found === undefined) throw new Error(`the numbers of ${query.table} have a gap`);
  return found.n;
}

async function findByStatus<Row extends pg.QueryResultRow>(
  tx: Queryable,
  query: ListQuery,
  statuses: readonly string[],
  bounds: Bounds,
  skip: bigint,
): Promise<Found<Row>> {
  const blocks = await countBlocks(tx, query, statuses, bounds);
  const total = blocks.reduce((sum, block) => sum + block.rows, 0n);
  let passed = 0n;
  // Newest block first: the one in which the rows to skip end is where the page begins.
  const start = blocks.find((block) => {
    if (passed + block.rows > skip) return true;
    passed += block.rows;
    return false;
  });
  if (start === undefined) return { rows: [], total };
  const upper = minimum(bounds.highest, ((start.block + 1n) << BLOCK_BITS) - 1n);
  const within = skip - passed;
  // Each status is its own range of the index and gives at most the entries of one block and a page; the numbers alone
  // are merged, and only the rows of the page are fetched.
  const { rows } = await tx.query<Row>(
    `select t.* from (
       select found.n
         from unnest($3::text[]) as wanted (status)
        cross join lateral (
          select l.n from ${table(query)} l
           where l.account = $1 and l.mode = $2 and l.status = wanted.status and l.n between $4 and $5
           order by l.n desc limit $6::bigint + $7::bigint) found
        order by found.n desc offset $6 limit $7) here
       join ${table(query)} t on t.account = $1 and t.mode = $2 and t.n = here.n
      order by t.n desc`,
    [query.account, query.mode, pgTextArray(statuses), bounds.lowest, upper, within, query.per_page],
  );
  return { rows, total };
}

/**
 * Rows per block within the bounds, newest first: whole blocks from the counts, the blocks that a bound cuts by their
 * index entries, at most 4096 of each.
 */
async function countBlocks(
  tx: Queryable,
  query: ListQuery,
  statuses: readonly string[],
  { lowest, highest }: Bounds,
): Promise<{ block: bigint; rows: bigint }[]> {
  const [first, last] = [lowest >> BLOCK_BITS, highest >> BLOCK_BITS];
  const cut: { from: bigint; to: bigint }[] = [];
  if (query.created_from !== undefined || query.created_to !== undefined) {
    cut.push({ from: maximum(lowest, last << BLOCK_BITS), to: highest });
    if (first !== last) cut.push({ from: lowest, to: ((first + 1n) << BLOCK_BITS) - 1n });
  }
  const whole = cut.length === 0 ? { first, last } : { first: first + 1n, last: last - 1n };
  const { rows } = await tx.query<{ block: bigint; rows: bigint }>(
    `select block, sum(rows)::bigint as rows from (
       select block, rows from list_counts
        where account = $1 and mode = $2 and kind = $3 and status = any($4::text[]) and block between $5 and $6
       union all
       select edge.n >> ${BLOCK_BITS}, 1
         from unnest($7::bigint[], $8::bigint[]) as cut (lowest, highest)
        cross join lateral (
          select l.n from ${table(query)} l
           where l.account = $1 and l.mode = $2 and l.status = any($4::text[]) and l.n between cut.lowest and cut.highest
           limit ${BLOCK_SIZE}) edge
     ) counted (block, rows)
     group by block having sum(rows) > 0 order by block desc`,
    [
      query.account,
      query.mode,
      query.kind,
      pgTextArray(statuses),
      whole.first,
      whole.last,
      `{${cut.map((edge) => edge.from).join(",")}}`,
      `{${cut.map((edge) => edge.to).join(",")}}`,
    ],
  );
  return rows;
}

/** The table's name comes from code, never from a request; quoted all the same. */
function table(query: ListQuery): string {
  return pg.escapeIdentifier(query.table);
}

function minimum(a: bigint, b: bigint): bigint {
  return a < b ? a : b;
}

function maximum(a: bigint, b: bigint): bigint {
  return a > b ? a : b;
}
