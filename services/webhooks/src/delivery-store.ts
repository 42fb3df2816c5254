// SQL of deliveries: writing them once per event and endpoint, claiming what is due, fairly per endpoint, and writing
// down how attempts ended. All hot statements take and give arrays, and find every row by the one index of its table.

import { deriveId } from "@cauri/money/ids";
import type { Mode } from "@cauri/money/mode";
import { pgBoolArray, pgNumArray, pgTextArray, pgTimeArray } from "@cauri/store/arrays";
import type { Queryable, Tx } from "@cauri/store/pool";
import { logAttempts } from "./attempt-store.ts";
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
  /** The attempt's own number: a runner whose lease was taken over no longer finds it. */
  readonly no: bigint;
  readonly endpoint_id: bigint;
  readonly event_id: string;
  readonly event: string;
  readonly mode: Mode;
  readonly body: string;
  readonly attempts: number;
  readonly account: string;
  readonly occurred_at: Date;
  readonly due_at: Date;
  /** The operation that the event is about, and its version. */
  readonly about: string;
  readonly version: bigint;
  readonly url: string;
  /** The endpoint's own: its secret is sealed for it. */
  readonly operation_id: string;
  readonly secret_sealed: Buffer;
  readonly previous_sealed: Buffer | null;
  readonly standard_headers: boolean;
};

/** An attempt that was made; `at` is when it began, in real time. */
export type Ended = { readonly claimed: Claimed; readonly attempt: Attempt; readonly at: Date };

/** Writes one delivery per event and endpoint that wants it; events seen before add nothing. Answers whose are new. */
export async function insertDeliveries(tx: Tx, events: readonly Event[]): Promise<readonly bigint[]> {
  if (events.length === 0) return [];
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
  if (pairs.length === 0) return [];
  const { rows } = await tx.query<{ endpoint_id: bigint }>(
    `with made as (
       insert into deliveries (id, endpoint_id, event_id, account, mode, event, operation_id, version, body, occurred_at, due_at)
       select i.id, i.endpoint_id, i.event_id, i.account, i.mode, i.event, i.operation_id, i.version, i.body, i.occurred_at,
              now_of(i.account, i.mode)
         from unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::bigint[],
                     $9::text[], $10::timestamptz[])
           as i (id, endpoint_id, event_id, account, mode, event, operation_id, version, body, occurred_at)
       on conflict (endpoint_id, event_id) do nothing
       returning id, endpoint_id, mode, due_at, operation_id, version),
     first as (
       insert into firsts (endpoint_id, operation_id, version, delivery_id)
       select endpoint_id, operation_id, version, id from made)
     insert into queue (endpoint_id, mode, due_at, delivery_id, operation_id, version, attempts)
     select endpoint_id, mode, due_at, id, operation_id, version, 0 from made
     returning endpoint_id`,
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
  return rows.map(({ endpoint_id }) => endpoint_id);
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

/** Endpoints that something is due for now; hops from endpoint to endpoint, however much waits at each. */
export async function waitingEndpoints(db: Queryable, now: Date): Promise<bigint[]> {
  const { rows } = await db.query<{ id: bigint }>(
    `with recursive waiting as (
       (select endpoint_id from queue order by endpoint_id limit 1)
       union all
       select (select q.endpoint_id from queue q where q.endpoint_id > w.endpoint_id order by q.endpoint_id limit 1)
         from waiting w where w.endpoint_id is not null)
     select e.id from waiting w join endpoints e on e.id = w.endpoint_id
      where e.is_active and (e.suspended_until is null or e.suspended_until <= $1)
        and exists (select 1 from (values ('live'), ('test')) m (mode) cross join lateral (
                      select 1 from queue q where q.endpoint_id = e.id and q.mode = m.mode
                         and q.due_at <= now_of(e.account, m.mode) limit 1) h)`,
    [now],
  );
  return rows.map(({ id }) => id);
}

export type ClaimOptions = {
  /** The endpoints to look at: which of them may get something is found out under their locks. */
  readonly endpoints: readonly bigint[];
  readonly limit: number;
  /** Attempts under way at one endpoint, over all replicas. */
  readonly per_endpoint: number;
  /** Attempts under way for one account, over all replicas: its endpoints share them evenly, so that none takes all. */
  readonly per_account: number;
  /** Longer than an attempt can take: a runner that lives never loses its lease. */
  readonly lease_ms: number;
  /** Real time, by which endpoints are suspended. */
  readonly now: Date;
  /** For a drain: an endpoint that another runner is at just now is waited for, not passed over. */
  readonly patient?: boolean;
};

/**
 * Takes due deliveries of the endpoints that may get one: active, not suspended, below their cap. The endpoints' rows
 * are locked first and the counts are read by a second statement, whose snapshot is younger than the lock: so neither
 * the cap nor the 20th failure can be passed by two replicas. With the counter at 20 one probe goes out.
 */
export async function claimDue(tx: Tx, options: ClaimOptions): Promise<Claimed[]> {
  const { rows: ready } = await tx.query<{ id: bigint }>(options.patient === true ? LOCK_PATIENTLY : LOCK, [
    pgNumArray(options.endpoints),
    options.now,
  ]);
  if (ready.length === 0) return [];
  const { rows } = await tx.query<Claimed>(CLAIM, [
    pgNumArray(ready.map(({ id }) => id)),
    options.per_endpoint,
    SUSPEND_AFTER,
    options.limit,
    options.lease_ms,
    options.per_account,
  ]);
  return rows;
}

const LOCK_PATIENTLY = `
  select id from endpoints
   where id = any($1::bigint[]) and is_active and (suspended_until is null or suspended_until <= $2)
   order by id for no key update`;
const LOCK = `${LOCK_PATIENTLY} skip locked`;

/**
 * An event waits while an earlier one of its operation has not had its first attempt; one being retried is overtaken.
 * The limit is shared out in turns, beginning with the endpoints that have the fewest attempts under way: so they stay
 * even, and with them the number of connections.
 */
const CLAIM = `
  with ready as materialized (
    select e.*, greatest(1, least($2::bigint, $3::bigint - e.consecutive_failures,
                                  $6::bigint / (select count(s.id) from endpoints s where s.account = e.account)))
                - e.flying as room
      from (select o.id, o.account, o.url, o.secret_sealed, o.standard_headers, o.operation_id, o.consecutive_failures,
                   case when o.previous_until > statement_timestamp() then o.previous_sealed end as previous_sealed,
                   (select count(f.no) from flights f
                     where f.endpoint_id = o.id and f.lease_until > statement_timestamp()) as flying
              from endpoints o where o.id = any($1::bigint[])) e),
  due as materialized (
    select t.*, nextval('flight_numbers') as no from (
      select p.*, r.url, r.secret_sealed, r.previous_sealed, r.standard_headers, r.operation_id as endpoint_operation
        from ready r cross join lateral (
          select h.* from (values ('live'), ('test')) m (mode) cross join lateral (
            select w.endpoint_id, w.delivery_id, w.due_at, row_number() over (order by w.due_at, w.delivery_id) as turn
              from queue w
             where w.endpoint_id = r.id and w.mode = m.mode and w.due_at <= now_of(r.account, m.mode)
               and not exists (
                 select 1 from flights f where f.endpoint_id = w.endpoint_id and f.delivery_id = w.delivery_id
                    and f.lease_until > statement_timestamp())
               and (w.attempts > 0 or not exists (
                 select 1 from firsts b where b.endpoint_id = w.endpoint_id and b.operation_id = w.operation_id
                    and b.version < w.version))
             order by w.due_at, w.delivery_id limit r.room) h
           order by h.turn limit r.room) p
       where r.room > 0
       order by r.flying + p.turn limit $4) t),
  flown as (
    insert into flights (endpoint_id, delivery_id, no, lease_until)
    select endpoint_id, delivery_id, no, statement_timestamp() + $5::bigint * interval '1 millisecond' from due
    on conflict (endpoint_id, delivery_id) do update set no = excluded.no, lease_until = excluded.lease_until)
  select d.id, due.no, d.endpoint_id, d.event_id, d.event, d.mode, d.body, d.attempts, d.account, d.occurred_at,
         due.due_at, d.operation_id as about, d.version, due.url, due.secret_sealed, due.previous_sealed, due.standard_headers,
         due.endpoint_operation as operation_id
    from due join deliveries d on d.id = due.delivery_id`;

export type Rules = {
  readonly ladder_s: readonly number[];
  readonly suspend_ms: number;
  /** Real time, by which endpoints are suspended. */
  readonly now: Date;
  /** This was tried before, and nobody knows whether it was committed: what has no lease any more counts for nothing. */
  readonly again?: boolean;
};

/**
 * Writes down how attempts ended, in the order in which they did: the delivery's next step, and its endpoint's counter
 * and suspension, under the endpoint's lock. An attempt whose lease was taken over still counts for the endpoint (it was
 * sent), but moves its delivery no more.
 */
export async function endAttempts(
  tx: Tx,
  ended: readonly Ended[],
  rules: Rules,
): Promise<readonly { endpoint_id: bigint; suspended_until: Date }[]> {
  const [{ rows }, landed] = await Promise.all([
    tx.query<Health & { id: bigint }>(
      `select id, consecutive_failures, suspended_until
         from endpoints where id = any($1::bigint[]) order by id for no key update`,
      [pgNumArray([...new Set(ended.map(({ claimed }) => claimed.endpoint_id))])],
    ),
    endFlights(
      tx,
      ended.map(({ claimed }) => claimed),
    ),
  ]);
  const standing = new Map<bigint, Outcome>(
    rows.map((row) => [row.id, { health: row, succeeded: false, failed: false }]),
  );
  const counted = rules.again === true ? ended.filter(({ claimed }) => landed.has(claimed.no)) : ended;
  for (const { claimed, attempt } of counted) {
    const outcome = standing.get(claimed.endpoint_id);
    if (outcome === undefined) continue;
    outcome.health = afterAttempt(outcome.health, attempt.delivered, rules.now, rules.suspend_ms);
    outcome.succeeded ||= attempt.delivered;
    outcome.failed ||= !attempt.delivered;
  }
  const own = ended.filter(({ claimed }) => landed.has(claimed.no) && standing.has(claimed.endpoint_id));
  await Promise.all([
    writeHealth(tx, standing, rules.now),
    ...(own.length === 0 ? [] : [leaveQueue(tx, own), writeResults(tx, own, rules.ladder_s), leaveFirsts(tx, own)]),
    logAttempts(tx, counted),
  ]);
  return rows.flatMap((row) => {
    const until = standing.get(row.id)?.health.suspended_until ?? null;
    return until !== null && until !== row.suspended_until ? [{ endpoint_id: row.id, suspended_until: until }] : [];
  });
}

type Outcome = { health: Health; succeeded: boolean; failed: boolean };

/** Ends the leases that are still these runners' own, and tells which those were; also given back unused at a stop. */
export async function endFlights(db: Queryable, claimed: readonly Claimed[]): Promise<ReadonlySet<bigint>> {
  const { rows } = await db.query<{ no: bigint }>(
    `delete from flights f using unnest($1::bigint[], $2::text[], $3::bigint[]) as r (endpoint_id, id, no)
      where f.endpoint_id = r.endpoint_id and f.delivery_id = r.id and f.no = r.no
     returning f.no`,
    [
      pgNumArray(claimed.map(({ endpoint_id }) => endpoint_id)),
      pgTextArray(claimed.map(({ id }) => id)),
      pgNumArray(claimed.map(({ no }) => no)),
    ],
  );
  return new Set(rows.map(({ no }) => no));
}

async function writeHealth(tx: Tx, standing: ReadonlyMap<bigint, Outcome>, now: Date): Promise<void> {
  const outcomes = [...standing.values()];
  await tx.query(
    `update endpoints e
        set consecutive_failures = h.failures, suspended_until = h.suspended_until, last_delivery_at = $6,
            last_success_at = case when h.succeeded then $6 else e.last_success_at end,
            last_failure_at = case when h.failed then $6 else e.last_failure_at end
       from unnest($1::bigint[], $2::int[], $3::timestamptz[], $4::boolean[], $5::boolean[])
         as h (id, failures, suspended_until, succeeded, failed)
      where e.id = h.id`,
    [
      pgNumArray([...standing.keys()]),
      pgNumArray(outcomes.map(({ health }) => health.consecutive_failures)),
      pgTimeArray(outcomes.map(({ health }) => health.suspended_until)),
      pgBoolArray(outcomes.map(({ succeeded }) => succeeded)),
      pgBoolArray(outcomes.map(({ failed }) => failed)),
      now,
    ],
  );
}

/**
 * Each row is looked up by its key: whatever the planner believes of a table that is filled and emptied all the time, it
 * has no other way than this (a limit of one bounds nothing). Joined with the array, all that waits was read for a batch.
 */
async function leaveQueue(tx: Tx, ended: readonly Ended[]): Promise<void> {
  await tx.query(
    `delete from queue where ctid = any (array(
       select f.ctid
         from unnest($1::bigint[], $2::text[], $3::timestamptz[], $4::text[]) as r (endpoint_id, mode, due_at, id)
        cross join lateral (
          select q.ctid from queue q
           where q.endpoint_id = r.endpoint_id and q.mode = r.mode and q.due_at = r.due_at and q.delivery_id = r.id
           limit 1) f))`,
    [
      pgNumArray(ended.map(({ claimed }) => claimed.endpoint_id)),
      pgTextArray(ended.map(({ claimed }) => claimed.mode)),
      pgTimeArray(ended.map(({ claimed }) => claimed.due_at)),
      pgTextArray(ended.map(({ claimed }) => claimed.id)),
    ],
  );
}

/** After the first attempt later events of the operation need wait no longer, however it ended. */
async function leaveFirsts(tx: Tx, ended: readonly Ended[]): Promise<void> {
  const first = ended.filter(({ claimed }) => claimed.attempts === 0).map(({ claimed }) => claimed);
  await tx.query(
    `delete from firsts where ctid = any (array(
       select f.ctid
         from unnest($1::bigint[], $2::text[], $3::bigint[], $4::text[]) as r (endpoint_id, operation_id, version, id)
        cross join lateral (
          select w.ctid from firsts w
           where w.endpoint_id = r.endpoint_id and w.operation_id = r.operation_id and w.version = r.version
             and w.delivery_id = r.id limit 1) f))`,
    [
      pgNumArray(first.map(({ endpoint_id }) => endpoint_id)),
      pgTextArray(first.map(({ about }) => about)),
      pgNumArray(first.map(({ version }) => version)),
      pgTextArray(first.map(({ id }) => id)),
    ],
  );
}

async function writeResults(tx: Tx, ended: readonly Ended[], ladder_s: readonly number[]): Promise<void> {
  const next = ended.map(({ claimed, attempt }) =>
    attempt.delivered ? null : nextAttemptAfter(claimed.attempts + 1, ladder_s),
  );
  await tx.query(
    `with moved as (
       update deliveries d
          set attempts = d.attempts + 1, last_error = r.error, last_status_code = r.status_code,
              status = case when r.delivered then 'delivered' when r.next_ms is null then 'failed' else 'pending' end,
              ended_at = case when r.delivered or r.next_ms is null then now_of(d.account, d.mode) end,
              due_at = case when r.next_ms is null then d.due_at
                            else now_of(d.account, d.mode) + r.next_ms * interval '1 millisecond' end
         from unnest($1::text[], $2::boolean[], $3::bigint[], $4::text[], $5::int[])
           as r (id, delivered, next_ms, error, status_code)
        where d.id = r.id
       returning d.id, d.endpoint_id, d.mode, d.due_at, d.operation_id, d.version, d.attempts, d.status)
     insert into queue (endpoint_id, mode, due_at, delivery_id, operation_id, version, attempts)
     select endpoint_id, mode, due_at, id, operation_id, version, attempts from moved where status = 'pending'`,
    [
      pgTextArray(ended.map(({ claimed }) => claimed.id)),
      pgBoolArray(ended.map(({ attempt }) => attempt.delivered)),
      pgNumArray(next),
      pgTextArray(ended.map(({ attempt }) => attempt.error)),
      pgNumArray(ended.map(({ attempt }) => attempt.status_code)),
    ],
  );
}
