// Finding an operation by whatever names it: id, reference or the merchant's own client_ref.

import type { Mode } from "@cauri/money/mode";
import type { OperationRef } from "@cauri/money/reference";
import pg from "pg";
import type { Queryable } from "./pool.ts";

/**
 * The row of a list's table that a path names, tried in the order of its readings. With an owner, within that account and
 * mode: anyone else's is as if unknown. Without one (operators), by id or reference alone. Drafts are nobody's.
 */
export async function findNamed<Row extends pg.QueryResultRow>(
  db: Queryable,
  table: string,
  named: readonly OperationRef[],
  owner: { readonly account: string; readonly mode: Mode } | null,
): Promise<Row | null> {
  // Table and columns come from code, never from a request; quoted all the same.
  const from = `select * from ${pg.escapeIdentifier(table)} where n is not null`;
  for (const { by, value } of named) {
    if (owner === null && by === "client_ref") continue;
    const { rows } =
      owner === null
        ? await db.query<Row>(`${from} and ${pg.escapeIdentifier(by)} = $1`, [value])
        : await db.query<Row>(`${from} and ${pg.escapeIdentifier(by)} = $3 and account = $1 and mode = $2`, [
            owner.account,
            owner.mode,
            value,
          ]);
    if (rows[0] !== undefined) return rows[0];
  }
  return null;
}
