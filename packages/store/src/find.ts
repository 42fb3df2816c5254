// Finding an operation by whatever names it: id, reference or the merchant's own client_ref.

import type { Mode } from "@cauri/money/mode";
import type { OperationRef } from "@cauri/money/reference";
import pg from "pg";
import { pgTextArray } from "./arrays.ts";
import { coalescePer } from "./coalescer.ts";
import type { Queryable } from "./pool.ts";

/** Ids of one statement, how many may wait for the next one, and how many statements are under way at once. */
const MAX_BATCH = 100;
const MAX_WAITING = 2_000;
const LANES = 2;

type Owner = { readonly account: string; readonly mode: Mode };
type Wanted = { readonly table: string; readonly id: string; readonly owner: Owner | null };
type Owned = { readonly id: string } & Owner;

/**
 * The row of a list's table that a path names, tried in the order of its readings. With an owner, within that account and
 * mode: anyone else's is as if unknown. Without one (operators), by id or reference alone. Drafts are nobody's.
 */
export async function findNamed<Row extends pg.QueryResultRow>(
  db: Queryable,
  table: string,
  named: readonly OperationRef[],
  owner: Owner | null,
): Promise<Row | null> {
  for (const { by, value } of named) {
    if (owner === null && by === "client_ref") continue;
    const found =
      by === "id"
        ? ((await findById(db, { table, id: value, owner })) as Row | null)
        : await findOne<Row>(db, table, by, value, owner);
    if (found !== null) return found;
  }
  return null;
}

/** What is asked for by its id is asked for most: those of the same moment share a statement. */
const findById = coalescePer((db: Queryable) => ({
  run: (wanted: Wanted[]) => findByIds(db, wanted),
  max_batch: MAX_BATCH,
  max_waiting: MAX_WAITING,
  retry_alone: true,
  lanes: LANES,
}));

async function findByIds(db: Queryable, wanted: readonly Wanted[]): Promise<(Owned | null)[]> {
  const tables = [...new Set(wanted.map(({ table }) => table))];
  const read = await Promise.all(
    tables.map(async (table) => {
      const ids = new Set(wanted.flatMap((one) => (one.table === table ? [one.id] : [])));
      const { rows } = await db.query<Owned>(`${visibleOf(table)} and id = any($1::text[])`, [pgTextArray([...ids])]);
      return [table, Map.groupBy(rows, ({ id }) => id)] as const;
    }),
  );
  const found = new Map(read);
  // Of what two accounts see each has a row of its own under the same id.
  return wanted.map(
    ({ table, id, owner }) =>
      found
        .get(table)
        ?.get(id)
        ?.find((row) => isOwn(row, owner)) ?? null,
  );
}

function isOwn(row: Owner, owner: Owner | null): boolean {
  return owner === null || (row.account === owner.account && row.mode === owner.mode);
}

async function findOne<Row extends pg.QueryResultRow>(
  db: Queryable,
  table: string,
  by: "reference" | "client_ref",
  value: string,
  owner: Owner | null,
): Promise<Row | null> {
  const column = pg.escapeIdentifier(by);
  const { rows } =
    owner === null
      ? await db.query<Row>(`${visibleOf(table)} and ${column} = $1`, [value])
      : await db.query<Row>(`${visibleOf(table)} and ${column} = $3 and account = $1 and mode = $2`, [
          owner.account,
          owner.mode,
          value,
        ]);
  return rows[0] ?? null;
}

/** Table and columns come from code, never from a request; quoted all the same. */
function visibleOf(table: string): string {
  return `select * from ${pg.escapeIdentifier(table)} where n is not null`;
}
