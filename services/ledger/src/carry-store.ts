// Balances carried into the accounts' rows: a batch writes entries alone, and this loop takes over what each account's last
// one says. Whoever reads a balance looks at the entries since the mark first (views and functions of migration 0019).

import { type Log, type Pool, type Queryable, transact } from "@cauri/store/pool";
import { type Loop, startLoop } from "@cauri/store/sweeper";
import { eachSum } from "./past-store.ts";
import { lanesBehind, type Most, setMark, takeStretch } from "./stretch-store.ts";
import { preferIndexes, summarizePast } from "./verify-store.ts";

/** A pause between rounds: every round updates each account that moved, and what waits is read with every balance. */
const EVERY_MS = 2_000;
/** An account that moved often in a stretch is updated once: long ones cost least, and one is over in some 0.2 s. */
const STRETCH: Most = { transfers: 50_000, batches: 10_000 };

export function startCarry(pool: Pool, log: Pick<Log, "error">): Loop {
  return startLoop({ name: "carry", every_ms: EVERY_MS, work: () => carryBalances(pool), log });
}

/** Takes over one stretch of each lane; true when more is there now. Several replicas at once: one works, the others pass by. */
export async function carryBalances(pool: Pool, most = STRETCH): Promise<boolean> {
  const behind = await lanesBehind(pool, "balance_marks");
  if (behind.length > 0) await summarizePast(pool);
  let more = false;
  for (const lane_id of behind) {
    const full = await transact(pool, (tx) => carryStretch(tx, lane_id, most));
    more ||= full;
  }
  return more;
}

async function carryStretch(tx: Queryable, lane_id: number, most: Most): Promise<boolean> {
  await preferIndexes(tx);
  const stretch = await takeStretch(tx, "balance_marks", lane_id, most);
  if (stretch === null) return false;
  await tx.query(CARRY, [lane_id, stretch.after, stretch.upto]);
  await setMark(tx, "balance_marks", lane_id, stretch);
  return stretch.full;
}

// In the order of the accounts' key, so that those of one page are met together and its dead rows go at once.
const CARRY = `update accounts a set ${eachSum("% = last.%")}, updated_at = last.recorded_at
  from (select distinct on (e.account_id) e.account_id, e.recorded_at, ${eachSum("e.%")} from entries e
    where e.lane_id = $1 and e.recorded_at > $2::timestamptz and e.recorded_at <= $3::timestamptz
    order by e.account_id, e.recorded_at desc, e.position desc) last
  where a.account_id = last.account_id`;
