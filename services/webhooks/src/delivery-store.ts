// SQL of deliveries: writing them once per event and endpoint, claiming what is due, fairly per endpoint, and writing
// down how attempts ended. All hot statements take and give arrays.

import { deriveId } from "@cauri/money/ids";
import type { Mode } from "@cauri/money/mode";
import { pgBytesArray, pgNumArray, pgTextArray, pgTimeArray } from "@cauri/store/arrays";
import type { Queryable, Tx } from "@cauri/store/pool";
import type { Attempt } from "./dialer.ts";
import { afterAttempt, type Health, isSubscribed, nextAttemptAfter, SUSPEND_AFTER } from "./endpoint.ts";

/** An event as the stream brought it, with the body that every endpoint gets. */
export type Event = {
  readonly event_id: string;
  readonly event: string;
  readonly account: string;
  readonly mode: Mode;
  readonly operation_id: string;
  readonly version: bigint;
  readonly occurred_at: Date;
  readonly body: string;
};

/** What a runner holds while it sends. */
export type Claimed = {
  readonly id: string;
  readonly lease_no: number;
  readonly endpoint_id: bigint;
  readonly event_id: string;
  readonly event: string;
  readonly mode: Mode;
  readonly body: string;
  readonly attempts: number;
  readonly account: string;
  readonly occurred_at: Date;
  readonly url: string;
  readonly operation_id: string;
  readonly secret_sealed: Buffer;
  readonly previous_sealed: Buffer | null;
  readonly standard_headers: boolean;
};

/** An attempt that was made; `at` is when it began, in real time. */
export type Ended = { readonly claimed: Claimed; readonly attempt: Attempt; readonly at: Date };

/** Writes one delivery per event and endpoint that wants it; events seen before add nothing. Answers how many were new. */
export async function insertDeliveries(tx: Tx, events: readonly Event[]): Promise<number> {
  if (events.length === 0) return 0;
  // The key-share lock keeps an endpoint from being deleted between this look and the insert.
  const { rows: endpoints } = await tx.query<Subscriber>(
    `select id, account, subscribed_events, created_at from endpoints
      where account = any($1::text[]) order by id for key share`,
    [pgTextArray([...new Set(events.map(({ account }) => account))])],
  );
  const pairs = events.flatMap((event) =>
    endpoints
      .filter((endpoint) => endpoint.account === event.account && wants(endpoint, event))
      .map(({ id }) => ({ event, endpoint_id: id })),
  );
  if (pairs.length === 0) return 0;
  const { rowCount } = await tx.query(
    `insert into deliveries (id, endpoint_id, event_id, account, mode, event, operation_id, version, body, occurred_at, due_at)
     select i.id, i.endpoint_id, i.event_id, i.account, i.mode, i.event, i.operation_id, i.version, i.body, i.occurred_at,
            now_of(i.account, i.mode)
       from unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::bigint[],
                   $9::text[], $10::timestamptz[])
         as i (id, endpoint_id, event_id, account, mode, event, operation_id, version, body, occurred_at)
     on conflict (endpoint_id, event_id) do nothing`,
    [
      pgTextArray(pairs.map(({ event, endpoint_id }) => deriveId("dl", event.event_id, String(endpoint_id)))),
      pgNumArray(pairs.map(({ endpoint_id }) => endpoint_id)),
      pgTextArray(pairs.map(({ event }) => event.event_id)),
      pgTextArray(pairs.map(({ event }) => event.account)),
      pgTextArray(pairs.map(({ event }) => event.mode)),
      pgTextArray(pairs.map(({ event }) => event.event)),
      pgTextArray(pairs.map(({ event }) => event.operation_id)),
      pgNumArray(pairs.map(({ event }) => event.version)),
      pgTextArray(pairs.map(({ event }) => event.body)),
      pgTimeArray(pairs.map(({ event }) => event.occurred_at)),
    ],
  );
  return rowCount ?? 0;
}

type Subscriber = {
  readonly id: bigint;
  readonly account: string;
  readonly subscribed_events: readonly string[];
  readonly created_at: Date;
};

/** The clocks of two machines may differ by this much at worst. */
const SKEW_MS = 10_000;

/** The stream may bring old events once more (NATS lost its store): a younger endpoint never asked for those. */
function wants({ subscribed_events: names, created_at }: Subscriber, { event, occurred_at }: Event): boolean {
  if (created_at.getTime() > occurred_at.getTime() + SKEW_MS) return false;
  return isSubscribed(names, event);
}

export type ClaimOptions = {
  readonly limit: number;
  /** Attempts under way at one endpoint, over all replicas. */
  readonly per_endpoint: number;
  /** Longer than an attempt can take: a runner that lives never loses its lease. */
  readonly lease_ms: number;
  /** Only this account's, for its test clock: what another runner holds just now is waited for, not passed over. */
  readonly account?: string;
};

/**
 * Takes due deliveries of the endpoints that may get one: active, not suspended, below their cap. The endpoints' rows
 * are locked first and the counts are read by a second statement, whose snapshot is younger than the lock: so neither
 * the cap nor the 20th failure can be passed by two replicas. With the counter at 20 one probe goes out.
 */
export async function claimDue(tx: Tx, options: ClaimOptions): Promise<Claimed[]> {
  const { rows: ready } = await tx.query<{ id: bigint }>(
    `with recursive waiting as (
       (select endpoint_id from deliveries where status = 'pending' order by endpoint_id limit 1)
       union all
       select (select d.endpoint_id from deliveries d
                where d.status = 'pending' and d.endpoint_id > w.endpoint_id order by d.endpoint_id limit 1)
         from waiting w where w.endpoint_id is not null)
     select e.id from endpoints e
      where e.id in (select endpoint_id from waiting)
        and e.is_active and (e.suspended_until is null or e.suspended_until <= statement_timestamp())
        and ($1::text is null or e.account = $1)
        for no key update of e ${options.account === undefined ? "skip locked" : ""}`,
    [options.account ?? null],
  );
  if (ready.length === 0) return [];
  const { rows } = await tx.query<Claimed>(CLAIM, [
    pgNumArray(ready.map(({ id }) => id)),
    options.per_endpoint,
    SUSPEND_AFTER,
    options.limit,
    options.lease_ms,
  ]);
  return rows;
}

/** An event waits while an earlier one of its operation has not had its first attempt; one being retried is overtaken. */
const CLAIM = `
  with ready as (
    select e.id, e.account, e.url, e.secret_sealed, e.standard_headers, e.operation_id,
           case when e.previous_until > statement_timestamp() then e.previous_sealed end as previous_sealed,
           greatest(1, least($2, $3 - e.consecutive_failures)) - (
             select count(f.id) from deliveries f
              where f.endpoint_id = e.id and f.lease_until > statement_timestamp()) as room
      from endpoints e
     where e.id = any($1::bigint[]) and e.is_active
       and (e.suspended_until is null or e.suspended_until <= statement_timestamp())),
  due as (
    select p.id, p.place, r.url, r.secret_sealed, r.previous_sealed, r.standard_headers, r.operation_id as endpoint_operation
      from ready r cross join lateral (
        select d.id, row_number() over (order by d.due_at, d.version, d.id) as place
          from (values ('live'), ('test')) m (mode) cross join lateral (
            select d.id, d.due_at, d.version from deliveries d
             where d.endpoint_id = r.id and d.mode = m.mode and d.status = 'pending'
               and d.due_at <= now_of(r.account, m.mode)
               and (d.lease_until is null or d.lease_until <= statement_timestamp())
               and (d.attempts > 0 or not exists (
                 select 1 from deliveries b
                  where b.endpoint_id = d.endpoint_id and b.operation_id = d.operation_id and b.version < d.version
                    and b.status = 'pending' and b.attempts = 0))
             order by d.due_at limit greatest(r.room, 0)) d) p
     where p.place <= r.room
     order by p.place limit $4)
  update deliveries d
     set lease_until = statement_timestamp() + $5::bigint * interval '1 millisecond', lease_no = d.lease_no + 1
    from due
   where d.id = due.id
  returning d.id, d.lease_no, d.endpoint_id, d.event_id, d.event, d.mode, d.body, d.attempts, d.account, d.occurred_at,
            due.url, due.secret_sealed, due.previous_sealed, due.standard_headers, due.endpoint_operation as operation_id`;

/**
 * Writes down how attempts ended, in the order in which they did: the delivery's next step, and its endpoint's counter
 * and suspension, under the endpoint's lock. An attempt whose lease was taken over still counts for the endpoint (it was
 * sent), but moves its delivery no more.
 */
export async function endAttempts(
  tx: Tx,
  ended: readonly Ended[],
  rules: { readonly ladder_s: readonly number[]; readonly suspend_ms: number },
): Promise<readonly { endpoint_id: bigint; suspended_until: Date }[]> {
  const { rows } = await tx.query<Health & { id: bigint; now: Date }>(
    `select id, consecutive_failures, suspended_until, clock_timestamp() as now
       from endpoints where id = any($1::bigint[]) order by id for no key update`,
    [pgNumArray([...new Set(ended.map(({ claimed }) => claimed.endpoint_id))])],
  );
  const health = new Map<bigint, Health>(rows.map((row) => [row.id, row]));
  const now = rows[0]?.now ?? new Date(0);
  for (const { claimed, attempt } of ended) {
    const before = health.get(claimed.endpoint_id);
    if (before !== undefined)
      health.set(claimed.endpoint_id, afterAttempt(before, attempt.delivered, now, rules.suspend_ms));
  }
  await writeHealth(tx, health, ended, now);
  await writeResults(tx, ended, rules.ladder_s);
  await logAttempts(tx, ended);
  return rows.flatMap((row) => {
    const until = health.get(row.id)?.suspended_until ?? null;
    return until !== null && until !== row.suspended_until ? [{ endpoint_id: row.id, suspended_until: until }] : [];
  });
}

async function writeHealth(
  tx: Tx,
  health: ReadonlyMap<bigint, Health>,
  ended: readonly Ended[],
  now: Date,
): Promise<void> {
  const has = (id: bigint, delivered: boolean) =>
    ended.some(({ claimed, attempt }) => claimed.endpoint_id === id && attempt.delivered === delivered);
  const entries = [...health.entries()];
  await tx.query(
    `update endpoints e
        set consecutive_failures = h.failures, suspended_until = h.suspended_until, last_delivery_at = $6,
            last_success_at = case when h.has_success then $6 else e.last_success_at end,
            last_failure_at = case when h.has_failure then $6 else e.last_failure_at end
       from unnest($1::bigint[], $2::int[], $3::timestamptz[], $4::boolean[], $5::boolean[])
         as h (id, failures, suspended_until, has_success, has_failure)
      where e.id = h.id`,
    [
      pgNumArray(entries.map(([id]) => id)),
      pgNumArray(entries.map(([, { consecutive_failures }]) => consecutive_failures)),
      pgTimeArray(entries.map(([, { suspended_until }]) => suspended_until)),
      entries.map(([id]) => has(id, true)),
      entries.map(([id]) => has(id, false)),
      now,
    ],
  );
}

async function writeResults(tx: Tx, ended: readonly Ended[], ladder_s: readonly number[]): Promise<void> {
  const next = ended.map(({ claimed, attempt }) =>
    attempt.delivered ? null : nextAttemptAfter(claimed.attempts + 1, ladder_s),
  );
  await tx.query(
    `update deliveries d
        set attempts = d.attempts + 1, lease_until = null, last_error = r.error, last_status_code = r.status_code,
            status = case when r.delivered then 'delivered' when r.next_ms is null then 'failed' else 'pending' end,
            ended_at = case when r.delivered or r.next_ms is null then now_of(d.account, d.mode) end,
            due_at = case when r.next_ms is null then d.due_at
                          else now_of(d.account, d.mode) + r.next_ms * interval '1 millisecond' end
       from unnest($1::text[], $2::int[], $3::boolean[], $4::bigint[], $5::text[], $6::int[])
         as r (id, lease_no, delivered, next_ms, error, status_code)
      where d.id = r.id and d.lease_no = r.lease_no and d.status = $7`,
    [
      pgTextArray(ended.map(({ claimed }) => claimed.id)),
      pgNumArray(ended.map(({ claimed }) => claimed.lease_no)),
      ended.map(({ attempt }) => attempt.delivered),
      pgNumArray(next),
      pgTextArray(ended.map(({ attempt }) => attempt.error)),
      pgNumArray(ended.map(({ attempt }) => attempt.status_code)),
      // A parameter, so that the rows are found by their ids and never by an index of all that is pending.
      "pending",
    ],
  );
}

/** The days of the log of attempts that there are tables for, as the migration made them. */
const LOG_DAYS = 64;

/** One row each in the day's table; the stamps are in the delivery's own clock, as everything else that a merchant sees. */
async function logAttempts(tx: Tx, ended: readonly Ended[]): Promise<void> {
  await tx.query(
    `insert into attempts (slot, delivery_id, endpoint_id, at, duration_ms, status_code, error, answer)
     select mod(floor(extract(epoch from r.at) / 86400)::bigint, ${LOG_DAYS}), r.delivery_id, r.endpoint_id,
            r.at + (now_of(r.account, r.mode) - date_trunc('milliseconds', statement_timestamp())),
            r.duration_ms, r.status_code, r.error, r.answer
       from unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::timestamptz[], $6::int[], $7::int[], $8::text[],
                   $9::bytea[])
         as r (delivery_id, endpoint_id, account, mode, at, duration_ms, status_code, error, answer)`,
    [
      pgTextArray(ended.map(({ claimed }) => claimed.id)),
      pgNumArray(ended.map(({ claimed }) => claimed.endpoint_id)),
      pgTextArray(ended.map(({ claimed }) => claimed.account)),
      pgTextArray(ended.map(({ claimed }) => claimed.mode)),
      pgTimeArray(ended.map(({ at }) => at)),
      pgNumArray(ended.map(({ attempt }) => attempt.duration_ms)),
      pgNumArray(ended.map(({ attempt }) => attempt.status_code)),
      pgTextArray(ended.map(({ attempt }) => attempt.error)),
      pgBytesArray(ended.map(({ attempt }) => attempt.answer)),
    ],
  );
}

/** Empties the days of the log that are older than these; answers how many it emptied. */
export async function forgetAttempts(db: Queryable, keep_days: number): Promise<number> {
  // Today, the days before it that are kept, and tomorrow, which another machine's clock may have reached.
  const { rows } = await db.query<{ slot: number }>(
    `select slot from generate_series(0, ${LOG_DAYS - 1}) as slot
      where exists (select 1 from attempts a where a.slot = slot.slot)
        and not exists (select 1 from generate_series(-1, $1::int) as ago
                         where mod(floor(extract(epoch from now()) / 86400)::bigint - ago, ${LOG_DAYS}) = slot.slot)`,
    [keep_days],
  );
  for (const { slot } of rows) await db.query(`truncate attempts_${String(slot).padStart(2, "0")}`);
  return rows.length;
}

/** Gives leases back unused: the process stops before it sent. */
export async function returnLeases(db: Queryable, claimed: readonly Claimed[]): Promise<void> {
  await db.query(
    `update deliveries d set lease_until = null
       from unnest($1::text[], $2::int[]) as r (id, lease_no) where d.id = r.id and d.lease_no = r.lease_no`,
    [pgTextArray(claimed.map(({ id }) => id)), pgNumArray(claimed.map(({ lease_no }) => lease_no))],
  );
}

/** Fails what waited too long for an endpoint that is switched off or suspended; it can be replayed later. */
export async function failOverdue(db: Queryable, keep_ms: number): Promise<number> {
  const { rowCount } = await db.query(
    `update deliveries d
        set status = 'failed', ended_at = now_of(d.account, d.mode), last_error = 'waited too long for its endpoint'
       from endpoints e
      where e.id = d.endpoint_id and (not e.is_active or e.suspended_until > statement_timestamp())
        and d.status = 'pending' and (d.lease_until is null or d.lease_until <= statement_timestamp())
        and d.due_at <= now_of(d.account, d.mode) - $1::bigint * interval '1 millisecond'`,
    [keep_ms],
  );
  return rowCount ?? 0;
}

/** What an SRE looks at first: how much waits, how old the oldest due one is, how many endpoints are suspended. */
export async function readQueue(db: Queryable): Promise<{ waiting: number; oldest_due_s: number; suspended: number }> {
  const { rows } = await db.query<{ waiting: bigint; oldest_due_s: number; suspended: bigint }>(
    `select (select count(id) from deliveries where status = 'pending') as waiting,
            coalesce((select extract(epoch from max(now_of(d.account, d.mode) - d.due_at))::float8
                        from deliveries d join endpoints e on e.id = d.endpoint_id
                       where d.status = 'pending' and d.due_at <= now_of(d.account, d.mode) and e.is_active
                         and (e.suspended_until is null or e.suspended_until <= statement_timestamp())), 0) as oldest_due_s,
            (select count(id) from endpoints where suspended_until > statement_timestamp()) as suspended`,
  );
  const row = rows[0];
  return {
    waiting: Number(row?.waiting ?? 0n),
    oldest_due_s: row?.oldest_due_s ?? 0,
    suspended: Number(row?.suspended ?? 0n),
  };
}

/** Forgets ended deliveries after this time; what waits is never forgotten. */
export async function forgetEnded(db: Queryable, older_than_ms: number): Promise<number> {
  const { rowCount } = await db.query(
    `delete from deliveries where id in (
       select id from deliveries where status <> 'pending' and ended_at < now() - $1::bigint * interval '1 millisecond'
        order by ended_at limit 1000)`,
    [older_than_ms],
  );
  return rowCount ?? 0;
}
