// SQL of what turns by itself beside the sending: what waited too long, what is forgotten, and what an SRE is shown.

import { pgNumArray, pgTextArray } from "@cauri/store/arrays";
import { type Pool, type Queryable, type Tx, transact } from "@cauri/store/pool";

/** Rows of one statement here: bounds how long it holds its locks and how late the next claim may be. */
const BATCH = 1_000;

/**
 * Fails what waited too long for an endpoint that is switched off or suspended; it can be replayed later. One batch;
 * answers how many, so that the caller comes again until there are none.
 */
export async function failOverdue(pool: Pool, keep_ms: number, now: Date): Promise<number> {
  return transact(pool, async (tx) => {
    // Under the endpoint's lock, so that nothing is failed that a claim takes at this moment.
    const { rows: resting } = await tx.query<{ id: bigint }>(
      `select e.id from endpoints e
        where (not e.is_active or e.suspended_until > $2)
          and exists (select 1 from (values ('live'), ('test')) m (mode) cross join lateral (
                        select 1 from queue w where w.endpoint_id = e.id and w.mode = m.mode
                           and w.due_at <= now_of(e.account, m.mode) - $1::bigint * interval '1 millisecond' limit 1) o)
        order by e.id limit ${BATCH} for no key update of e skip locked`,
      [keep_ms, now],
    );
    if (resting.length === 0) return 0;
    const { rows } = await tx.query<{ delivery_id: string }>(OVERDUE, [
      pgNumArray(resting.map(({ id }) => id)),
      keep_ms,
    ]);
    if (rows.length > 0) await markOverdue(tx, pgTextArray(rows.map(({ delivery_id }) => delivery_id)));
    return rows.length;
  });
}

/** What is under way just now is not in the queue: it is left to its result. */
const OVERDUE = `
  delete from queue where ctid = any (array(
    select o.place from endpoints e cross join (values ('live'), ('test')) m (mode) cross join lateral (
      select w.ctid as place from queue w
       where w.endpoint_id = e.id and w.mode = m.mode
         and w.due_at <= now_of(e.account, m.mode) - $2::bigint * interval '1 millisecond'
       order by w.due_at limit ${BATCH}) o
     where e.id = any($1::bigint[]) limit ${BATCH}))
  returning delivery_id`;

async function markOverdue(tx: Tx, ids: string): Promise<void> {
  await tx.query(
    `update deliveries d
        set status = 'failed', ended_at = now_of(d.account, d.mode), last_error = 'waited too long for its endpoint'
      where d.id = any($1::text[])`,
    [ids],
  );
}

/** Longer than a request has, as millions may wait for endpoints that rest, and below the time that a process has to stop. */
const UPKEEP_S = 20;

/**
 * Clears away what was deleted from the small tables: until then every scan walks through it. The server's own daemon looks
 * once a minute, in which a busy room deletes tens of thousands of rows. After a long outage there are millions of them: what
 * takes longer than this is the daemon's.
 */
export async function tidyQueue(pool: Pool): Promise<void> {
  const client = await pool.connect();
  try {
    await client.query(`set statement_timeout = '${UPKEEP_S}s'`);
    await client.query("vacuum (skip_locked, parallel 0) queue, flights");
    await client.query("reset statement_timeout");
    client.release();
  } catch (error) {
    client.release(true);
    throw error;
  }
}

/** Forgets a batch of what belongs to deleted endpoints; answers how many deliveries went, null when nothing was left. */
export async function forgetRemoved(pool: Pool): Promise<number | null> {
  return transact(pool, async (tx) => {
    const { rows } = await tx.query<{ endpoint_id: bigint }>(
      "select endpoint_id from removals order by endpoint_id limit 1 for update skip locked",
    );
    const id = rows[0]?.endpoint_id;
    if (id === undefined) return null;
    let gone = 0;
    for (const table of ["queue", "flights", "deliveries"]) {
      const { rowCount } = await tx.query(
        `delete from ${table} where ctid = any(array(select ctid from ${table} where endpoint_id = $1 limit ${BATCH}))`,
        [id],
      );
      gone += rowCount ?? 0;
    }
    if (gone === 0) await tx.query("delete from removals where endpoint_id = $1", [id]);
    return gone;
  });
}

/** Forgets a batch of deliveries that ended longer ago than this; what waits is never forgotten. */
export async function forgetEnded(db: Queryable, older_than_ms: number): Promise<number> {
  const { rowCount } = await db.query(
    `delete from deliveries where id in (
       select id from deliveries where status <> 'pending' and ended_at < now() - $1::bigint * interval '1 millisecond'
        order by ended_at limit ${BATCH})`,
    [older_than_ms],
  );
  return rowCount ?? 0;
}

export type QueueNumbers = {
  readonly waiting: number;
  /** Age of the oldest delivery that is due at an endpoint that takes deliveries. */
  readonly oldest_due_s: number;
  readonly suspended: number;
  /** The ten endpoints with the longest queues. */
  readonly longest: readonly { readonly endpoint_id: bigint; readonly waiting: number }[];
};

/** What an SRE looks at first. It walks through the index of the whole queue: the caller sees that it does so rarely. */
export function readQueue(pool: Pool, now: Date): Promise<QueueNumbers> {
  return transact(pool, async (tx) => {
    await tx.query(`set local statement_timeout = '${UPKEEP_S}s'`);
    return await countQueue(tx, now);
  });
}

async function countQueue(db: Queryable, now: Date): Promise<QueueNumbers> {
  const { rows: queues } = await db.query<{ endpoint_id: bigint; waiting: bigint }>(
    "select endpoint_id, count(endpoint_id) as waiting from queue group by endpoint_id order by waiting desc, endpoint_id",
  );
  const { rows } = await db.query<{ oldest_due_s: number; suspended: bigint }>(
    `select coalesce((select extract(epoch from max(now_of(e.account, h.mode) - h.due_at))::float8
                        from endpoints e cross join (values ('live'), ('test')) m (mode)
                       cross join lateral (select w.mode, w.due_at from queue w
                                            where w.endpoint_id = e.id and w.mode = m.mode order by w.due_at limit 1) h
                       where e.id = any($1::bigint[]) and e.is_active
                         and (e.suspended_until is null or e.suspended_until <= $2)), 0) as oldest_due_s,
            (select count(id) from endpoints where suspended_until > $2) as suspended`,
    [pgNumArray(queues.map(({ endpoint_id }) => endpoint_id)), now],
  );
  return {
    waiting: queues.reduce((sum, { waiting }) => sum + Number(waiting), 0),
    oldest_due_s: Math.max(0, rows[0]?.oldest_due_s ?? 0),
    suspended: Number(rows[0]?.suspended ?? 0n),
    longest: queues.slice(0, 10).map(({ endpoint_id, waiting }) => ({ endpoint_id, waiting: Number(waiting) })),
  };
}
