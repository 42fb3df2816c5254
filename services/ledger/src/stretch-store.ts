// How far a loop has read each lane, and its next stretch of batches: what is made out of the entries afterwards, by
// whichever replica comes first, is made together with its mark or not at all.

import { type Pool, type Queryable, transact } from "@cauri/store/pool";

/** Tables of the same shape, a row for each lane: `lane_id`, `sequence`, `recorded_at` of the last batch taken over. */
export type Marks = "day_marks" | "balance_marks";

/** A stretch ends before it has more of either, but holds a batch at least, however large that is. */
export type Most = { readonly transfers: number; readonly batches: number };

/** What was recorded after `after` up to `upto`, and the number of its last batch. */
export type Stretch = {
  readonly after: string;
  readonly upto: string;
  readonly sequence: bigint;
  /** More was there than it may have. */
  readonly full: boolean;
};

/**
 * Takes over one stretch of each lane that the marks don't cover; true when more of one is there now. A lane that fails keeps
 * no other from its turn: what it throws is thrown when all had theirs.
 */
export async function takeOver(
  pool: Pool,
  marks: Marks,
  most: Most,
  work: (tx: Queryable, lane_id: number, stretch: Stretch) => Promise<void>,
): Promise<boolean> {
  const { rows } = await pool.query<{ lane_id: number }>(
    `select l.lane_id from lanes l left join ${marks} m using (lane_id) where l.sequence > coalesce(m.sequence, 0)
     order by l.lane_id`,
  );
  const faults: unknown[] = [];
  let more = false;
  for (const { lane_id } of rows) {
    try {
      const full = await transact(pool, async (tx) => {
        const stretch = await takeStretch(tx, marks, lane_id, most);
        if (stretch === null) return false;
        await work(tx, lane_id, stretch);
        await setMark(tx, marks, lane_id, stretch);
        return stretch.full;
      });
      more ||= full;
    } catch (error) {
      faults.push(error);
    }
  }
  if (faults.length > 0) throw faults[0];
  return more;
}

/** The mark's row is the lock: null where another replica is at it, or nothing is left. */
async function takeStretch(tx: Queryable, marks: Marks, lane_id: number, most: Most): Promise<Stretch | null> {
  await tx.query(
    `insert into ${marks} (lane_id, sequence, recorded_at) values ($1, 0, '-infinity') on conflict do nothing`,
    [lane_id],
  );
  const found = await tx.query<{ sequence: bigint; after: string }>(
    `select sequence, recorded_at::text as after from ${marks} where lane_id = $1 for update skip locked`,
    [lane_id],
  );
  const [mark] = found.rows;
  if (mark === undefined) return null;
  const ends = await tx.query<{ sequence: bigint; upto: string; seen: bigint }>(
    `select sequence, recorded_at::text as upto, sum(transfers) over (order by sequence)::bigint as seen
     from batches where lane_id = $1 and sequence > $2 and recorded_at > $3::timestamptz order by sequence limit $4`,
    [lane_id, mark.sequence, mark.after, most.batches],
  );
  const end = ends.rows.findLast((row, index) => index === 0 || row.seen <= most.transfers);
  if (end === undefined) return null;
  const full = end !== ends.rows.at(-1) || ends.rows.length === most.batches;
  return { after: mark.after, upto: end.upto, sequence: end.sequence, full };
}

async function setMark(tx: Queryable, marks: Marks, lane_id: number, { sequence, upto }: Stretch): Promise<void> {
  await tx.query(`update ${marks} set sequence = $2, recorded_at = $3::timestamptz where lane_id = $1`, [
    ...[lane_id, sequence, upto],
  ]);
}
