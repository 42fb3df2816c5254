// The monitor's SQL: sums over the accounts of each lane, how far the checks are behind, who does the full one.

import { type Pool, type Queryable, transact } from "@cauri/store/pool";
import type { Book } from "./books.ts";
import type { Problem } from "./verify-batch.ts";

/** Any number that no other advisory lock of the room uses. */
const VERIFICATION_LOCK = 404_600_001;

export type LaneLag = {
  readonly lane: string;
  readonly checked: bigint;
  readonly behind: bigint;
  /** Age of the oldest batch that was not checked yet. */
  readonly behind_s: number;
  /** Age of the oldest batch that is not in the accounts' rows yet. */
  readonly uncarried_s: number;
};

/** What can be said of all accounts by sums alone, whether or not anything new was recorded. */
export async function readBrokenSums(tx: Queryable): Promise<Problem[]> {
  const { rows } = await tx.query<{
    lane: string;
    posted: string;
    pending: string;
    interplatform: string;
    below: string;
  }>(
    `select l.asset_id || '/' || l.book as lane,
       sum(debits_posted - credits_posted)::text as posted, sum(debits_pending - credits_pending)::text as pending,
       coalesce(sum(credits_posted - debits_posted) filter (where a.code like 'interplatform:%'), 0)::text as interplatform,
       coalesce(string_agg(a.code, ', ') filter (where a.no_overdraft and case a.normal_side
         when 'credit' then credits_posted - debits_posted - debits_pending
         else debits_posted - credits_posted - credits_pending end < 0), '') as below
     from lanes l cross join lateral balances_of(l.lane_id) a group by l.lane_id order by l.lane_id`,
  );
  return rows.flatMap(({ lane, posted, pending, interplatform, below }) => {
    const problems: Problem[] = [];
    const say = (invariant: Problem["invariant"], what: string) =>
      problems.push({ invariant, sentence: `lane ${lane}: ${what}` });
    if (posted !== "0") say("debits_equal_credits", `posted debits exceed credits by ${posted}`);
    if (pending !== "0") say("debits_equal_credits", `pending debits exceed credits by ${pending}`);
    if (interplatform !== "0") {
      say("interplatform_zero", `the interplatform accounts add up to ${interplatform}, not zero`);
    }
    if (below !== "") say("no_overdraft", `below zero: ${below}`);
    return problems;
  });
}

/** A float that holds less than the house owes to the merchants of its platform: to be looked after, and no broken invariant. */
export type ShortFloat = {
  readonly asset_id: string;
  readonly book: Book;
  readonly platform_id: string;
  readonly held: bigint;
  readonly owed: bigint;
};

/** What is set aside is owed still: it counts until it was moved. */
export async function readShortFloats(tx: Queryable): Promise<ShortFloat[]> {
  const { rows } = await tx.query<ShortFloat>(
    `select asset_id, book, platform_id, held::bigint, owed::bigint from (
       select l.asset_id, l.book, a.platform_id,
         coalesce(sum(a.debits_posted - a.credits_posted) filter (where a.code like 'float:%'), 0) as held,
         coalesce(sum(a.credits_posted - a.debits_posted) filter (where a.code like 'merchant:%'), 0) as owed
       from lanes l cross join lateral balances_of(l.lane_id) a where a.platform_id is not null
       group by l.lane_id, a.platform_id) floats
     where held < owed order by asset_id collate "C", book, platform_id`,
  );
  return rows;
}

export async function readLags(tx: Queryable): Promise<LaneLag[]> {
  const { rows } = await tx.query<{
    lane: string;
    book: Book;
    checked: bigint;
    sequence: bigint;
    behind_s: number | null;
    uncarried_s: number | null;
  }>(
    `select l.asset_id || '/' || l.book as lane, coalesce(m.sequence, 0) as checked, l.sequence,
       extract(epoch from clock_timestamp() - b.recorded_at)::float8 as behind_s,
       extract(epoch from clock_timestamp() - u.recorded_at)::float8 as uncarried_s
     from lanes l left join verify_marks m on m.lane_id = l.lane_id and m.reader = 'monitor'
     left join batches b on b.lane_id = l.lane_id and b.sequence = coalesce(m.sequence, 0) + 1
     left join balance_marks c on c.lane_id = l.lane_id
     left join batches u on u.lane_id = l.lane_id and u.sequence = coalesce(c.sequence, 0) + 1
     order by l.lane_id`,
  );
  return rows.map(({ lane, checked, sequence, behind_s, uncarried_s }) => ({
    ...{ lane, checked, behind: sequence - checked },
    behind_s: Math.max(behind_s ?? 0, 0),
    uncarried_s: Math.max(uncarried_s ?? 0, 0),
  }));
}

/** When the last full verification began that found nothing; null before the first. */
export async function readLastSound(tx: Queryable): Promise<Date | null> {
  const text = "select max(began_at) as began_at from verifications where problems = 0";
  const { rows } = await tx.query<{ began_at: Date | null }>(text);
  return rows[0]?.began_at ?? null;
}

/** Null where one began within a day and ended, or still sets marks; one that was cut off is gone on with. */
export async function beginVerification(pool: Pool): Promise<{ verification_id: bigint; resume: boolean } | null> {
  return await transact(pool, async (tx) => {
    await tx.query("select pg_advisory_xact_lock($1)", [VERIFICATION_LOCK]);
    const { rows } = await tx.query<{ ended: boolean; fresh: boolean }>(
      `select ended_at is not null as ended, case
         when ended_at is not null then began_at > clock_timestamp() - interval '24 hours'
         else greatest(began_at, (select max(verified_at) from verify_marks where reader = 'full'))
           > clock_timestamp() - interval '10 minutes' end as fresh
       from verifications order by verification_id desc limit 1`,
    );
    const last = rows[0];
    if (last?.fresh === true) return null;
    const made = await tx.query<{ verification_id: bigint }>(
      "insert into verifications default values returning verification_id",
    );
    const verification_id = made.rows[0]?.verification_id;
    if (verification_id === undefined) throw new Error("bug: an insert without its row");
    return { verification_id, resume: last?.ended === false };
  });
}

export async function endVerification(pool: Pool, id: bigint, transfers: bigint, problems: number): Promise<void> {
  await pool.query(
    "update verifications set ended_at = clock_timestamp(), transfers = $2, problems = $3 where verification_id = $1",
    [id, transfers, problems],
  );
}
