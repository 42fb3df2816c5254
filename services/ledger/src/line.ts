// A connection for statements that follow each other without waiting: taken from the pool by the first, given back by the
// last. Each statement is a transaction of its own, answered when it is committed.

import type { Pool, Prepared } from "@cauri/store/pool";
import type { PoolClient, QueryResultRow } from "pg";

export type Line = <T extends QueryResultRow>(
  statement: Prepared,
  values: readonly unknown[],
) => Promise<{ readonly rows: T[] }>;

export function openLine(pool: Pool): Line {
  let client: Promise<PoolClient> | null = null;
  let under_way = 0;

  async function take(): Promise<PoolClient> {
    const taken = await pool.connect();
    // A lost connection fails the statements under way and is also an event, which without a listener ends the process.
    taken.on("error", ignore);
    return taken;
  }

  async function giveBack(from: Promise<PoolClient>): Promise<void> {
    const taken = await from.catch(() => null);
    taken?.off("error", ignore);
    // The pool itself drops a connection that broke.
    taken?.release();
  }

  return async (statement, values) => {
    under_way += 1;
    client ??= take();
    const current = client;
    try {
      // The same promise for all, so that statements leave in the order of the calls.
      const taken = await current;
      return await taken.query({ ...statement, values: values as unknown[] });
    } finally {
      under_way -= 1;
      if (under_way === 0) {
        client = null;
        await giveBack(current);
      }
    }
  };
}

function ignore(): void {}
