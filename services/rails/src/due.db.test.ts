// After an outage of a rail, and after years, much is due or was never matched: whoever looks for work reads a little of it.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { openPool, type Pool, rolledBack, type Tx } from "@cauri/store/pool";
import { lockMatchable } from "./callback-store.ts";
import { lockDuePolls } from "./poll-store.ts";
import { openRails, type TestRails } from "./testing.ts";

const MANY = 5_000;

let rails: TestRails;
/** As the room opens its own, but an owner's: statistics are nobody else's to make. */
let admin: Pool;
before(async () => {
  rails = await openRails();
  admin = openPool({ url: rails.admin_url, name: "due", max: 1, by_index: true });
});
after(async () => {
  await admin.end();
  await rails.close();
});

/** Rows of a table that this transaction has fetched so far, by whichever way. */
async function fetched(tx: Tx, table: string): Promise<number> {
  const { rows } = await tx.query<{ n: number }>(
    `select (coalesce(idx_tup_fetch, 0) + seq_tup_read)::integer as n from pg_stat_xact_user_tables where relname = $1`,
    [table],
  );
  return rows[0]?.n ?? 0;
}

/** Attempts that are due, the first ones the longest; `leased` are being sent by another process. */
async function makeDue(tx: Tx, name: string, many: number, leased: boolean, mode = "live"): Promise<void> {
  await tx.query(
    `insert into attempts (operation_id, account, mode, reference, amount_minor, asset_id, currency, scale, platform_id,
       expires_at, state, rail, connector, lease_until, next_poll_at, created_at)
     select $1 || n, 'acct_' || $4, $4, $1 || n, 100, 'ast_xof', 'XOF', 0, 'plt_wave_ci', now(), 'sending', 'wave', 'simulator',
       case when $3 then now() + interval '1 hour' end, now() - interval '1 day' + n * interval '1 second', now()
     from generate_series(1, $2::integer) n`,
    [name, many, leased, mode],
  );
}

test("poller: of thousands that are due it reads some, the longest due first, and those under way keep none back", async () => {
  await rolledBack(rails.pool, async (tx) => {
    await makeDue(tx, "under_way_", 100, true);
    await makeDue(tx, "free_", MANY, false);
    await makeDue(tx, "mine_", 5, false, "test");
    const before_it = await fetched(tx, "attempts");
    const mine = await lockDuePolls(tx, "acct_test", 3);
    assert.deepEqual(
      mine.map(({ operation_id }) => operation_id),
      ["mine_1", "mine_2", "mine_3"],
    );
    assert.ok((await fetched(tx, "attempts")) - before_it < 50, "of one account's its own are read");
    // The oldest two are due since the same second.
    const found = (await lockDuePolls(tx, null, 2)).map(({ operation_id }) => operation_id).sort();
    assert.deepEqual(found, ["free_1", "mine_1"]);
    const read = (await fetched(tx, "attempts")) - before_it;
    assert.ok(read < 500, `${read} rows were read`);
  });
});

test("callbacks: those that came too long ago to be matched are not read again", async () => {
  await rolledBack(admin, async (tx) => {
    await tx.query("set local search_path = rails");
    await tx.query(
      `insert into callbacks (connector, callback_id, reference, key_id, sealed, received_at)
       select 'simulator', 'old_' || n, 'nobody_' || n, 'k', '\\x00', now() - interval '3 days' from generate_series(1, $1::integer) n`,
      [MANY],
    );
    await makeDue(tx, "known_", MANY, false);
    await tx.query("analyze callbacks, attempts");
    const before_it = await fetched(tx, "callbacks");
    assert.deepEqual(await lockMatchable(tx, rails.open().house.cipher, 10), []);
    const read = (await fetched(tx, "callbacks")) - before_it;
    assert.ok(read < 500, `${read} rows were read`);
  });
});
