// Balances carried into the accounts' rows: a batch writes entries alone, and this loop takes over what each account's last
// one says. Whoever reads a balance looks at the entries since the mark first (views and functions of migration 0019).

import type { Log, Pool, Queryable } from "@cauri/store/pool";
import { type Loop, startLoop } from "@cauri/store/sweeper";
import { eachSum } from "./past-store.ts";
import { type Most, type Stretch, takeOver } from "./stretch-store.ts";
import { preferIndexes } from "./verify-store.ts";

/** A pause between rounds: every round updates each account that moved, and what waits is read with every balance. */
const EVERY_MS = 2_000;
/** An account that moved often in a stretch is updated once: long ones cost least, and one is over in some 0.2 s. */
const STRETCH: Most = { transfers: 50_000, batches: 10_000 };

export function startCarry(pool: Pool, log: Pick<Log, "error">): Loop {
  return startLoop({ name: "carry", every_ms: EVERY_MS, work: () => carryBalances(pool), log });
}

/** Takes over one stretch of each lane; true when more is there now. Several replicas at once: one works, the others pass by. */
export async function carryBalances(pool: Pool, most = STRETCH): Promise<boolean> {
  return await takeOver(pool, "balance_marks", most, carryStretch);
}

async function carryStretch(tx: Queryable, lane_id: number, { after, upto }: Stretch): Promise<void> {
  await preferIndexes(tx);
  const { rows } = await tx.query<{ moved: bigint; carried: bigint }>(CARRY, [lane_id, after, upto]);
  const [done] = rows;
  if (done?.carried !== done?.moved) {
    throw new Error(
      `of ${done?.moved} accounts that moved in lane ${lane_id} up to ${upto}, ${done?.carried} have a row`,
    );
  }
}

// Who moved is found by the key of the lane's transfers, so that other lanes cost nothing. In the order of the accounts' key,
// so that those of one page are met together and its dead rows go at once. The limit keeps each look-up whole: as a join it
// may be planned by the account alone, and then reads all that an account has ever moved in the month.
export const CARRY = `with moved as materialized (
    select distinct on (side.account_id) side.account_id, t.recorded_at, t.position
    from transfers t cross join lateral (values (t.debit_id), (t.credit_id)) as side (account_id)
    where t.lane_id = $1 and t.recorded_at > $2::timestamptz and t.recorded_at <= $3::timestamptz
    order by side.account_id, t.recorded_at desc, t.position desc),
  carried as (
    update accounts a set ${eachSum("% = e.%")}, updated_at = e.recorded_at
    from moved m cross join lateral (select * from entries e where e.account_id = m.account_id
      and e.recorded_at = m.recorded_at and e.position = m.position limit 1) e
    where a.account_id = m.account_id returning a.account_id)
  select (select count(account_id) from moved) as moved, (select count(account_id) from carried) as carried`;
