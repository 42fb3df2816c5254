// SQL that writes down how attempts ended: the delivery's next step, the log, and what changes at the endpoint. One
// statement for a whole batch, and no endpoint is locked by successes that change nothing there.

import { pgBoolArray, pgBytesArray, pgNumArray, pgTextArray, pgTimeArray } from "@cauri/store/arrays";
import { nowOf } from "@cauri/store/clock";
import type { Queryable, Tx } from "@cauri/store/pool";
import { slotOf } from "./attempt-store.ts";
import { type Bounds, type Claimed, dueAt, flightOf, flyingAt, mayGo, roomOf, take } from "./delivery-store.ts";
import type { Attempt } from "./dialer.ts";
import { nextAttemptAfter, SUSPEND_AFTER, tally } from "./endpoint.ts";

/** An attempt that was made; `at` is when it began, in real time. */
export type Ended = { readonly claimed: Claimed; readonly attempt: Attempt; readonly at: Date };

export type Rules = {
  readonly ladder_s: readonly number[];
  readonly suspend_ms: number;
  /** Real time, by which endpoints are suspended. */
  readonly now: Date;
};

/** An endpoint's stamps of its last delivery are written again when they are so old: never once for each delivery. */
const STAMP_MS = 1_000;

/**
 * Writes down how attempts ended, in the order in which they did. An attempt whose lease was taken over still counts for
 * the endpoint (it was sent) and is in the log, but moves its delivery no more. Answers whom this has suspended.
 */
export async function endAttempts(
  db: Queryable,
  ended: readonly Ended[],
  rules: Rules,
): Promise<readonly { endpoint_id: bigint; suspended_until: Date }[]> {
  if (ended.length === 0) return [];
  const { rows } = await db.query<{ endpoint_id: bigint; suspended_until: Date }>(END, valuesOf(ended, rules));
  return rows;
}

/** What whoever writes results may take for its process in the places that they leave. */
export type Refill = Pick<Bounds, "per_endpoint" | "per_account" | "lease_ms"> & {
  readonly endpoints: readonly bigint[];
};

/**
 * The same for deliveries that have all arrived, and at once the next ones of these endpoints in their places. That needs no
 * lock of an endpoint: as each goes out for one that has ended well, there are never more under way than before, nor more
 * that could fail. Where an endpoint has failed since its last success, it takes nothing.
 */
export async function endAndTake(db: Queryable, ended: readonly Ended[], rules: Rules, of: Refill): Promise<Claimed[]> {
  const { rows } = await db.query<Claimed>(END_AND_TAKE, [
    ...valuesOf(ended, rules),
    pgNumArray(of.endpoints),
    of.per_endpoint,
    of.per_account,
    of.lease_ms,
  ]);
  return rows;
}

function valuesOf(ended: readonly Ended[], rules: Rules): unknown[] {
  const tallies = tally(
    ended.map(({ claimed, attempt }) => ({ of: claimed.endpoint_id, delivered: attempt.delivered })),
  );
  return [
    ...keysOf(ended),
    pgTextArray(ended.map(({ claimed }) => claimed.account)),
    pgTextArray(ended.map(({ claimed }) => claimed.mode)),
    pgTimeArray(ended.map(({ at }) => at)),
    pgNumArray(ended.map(({ at }) => slotOf(at))),
    pgNumArray(ended.map(({ attempt }) => attempt.duration_ms)),
    pgNumArray(ended.map(({ attempt }) => attempt.status_code)),
    pgTextArray(ended.map(({ attempt }) => attempt.error)),
    pgBytesArray(ended.map(({ attempt }) => attempt.answer)),
    pgBoolArray(ended.map(({ attempt }) => attempt.delivered)),
    pgNumArray(ended.map(({ claimed, attempt }) => nextOf(claimed, attempt, rules))),
    pgNumArray(tallies.map(({ of }) => of)),
    pgBoolArray(tallies.map(({ succeeded }) => succeeded)),
    pgBoolArray(tallies.map(({ failed }) => failed)),
    pgNumArray(tallies.map(({ failures }) => failures)),
    rules.now,
    new Date(rules.now.getTime() + rules.suspend_ms),
    new Date(rules.now.getTime() - STAMP_MS),
    SUSPEND_AFTER,
  ];
}

/** The same after a try of which nobody knows whether it was committed: what has no flight any more counts for nothing. */
export async function endAttemptsAgain(tx: Tx, ended: readonly Ended[], rules: Rules): ReturnType<typeof endAttempts> {
  const { rows } = await tx.query<{ no: bigint | null }>(
    `select ${flightOf("r", "no")} as no
       from unnest($1::bigint[], $2::text[], $3::bigint[], $4::text[], $5::bigint[]) as r (endpoint_id, about, version, id, no)`,
    keysOf(ended),
  );
  const standing = new Set(rows.map(({ no }) => no));
  return endAttempts(
    tx,
    ended.filter(({ claimed }) => standing.has(claimed.no)),
    rules,
  );
}

/** A delivery's place in `flights`, in five arrays. */
function keysOf(ended: readonly Ended[]): string[] {
  return [
    pgNumArray(ended.map(({ claimed }) => claimed.endpoint_id)),
    pgTextArray(ended.map(({ claimed }) => claimed.about)),
    pgNumArray(ended.map(({ claimed }) => claimed.version)),
    pgTextArray(ended.map(({ claimed }) => claimed.id)),
    pgNumArray(ended.map(({ claimed }) => claimed.no)),
  ];
}

function nextOf({ attempts }: Claimed, { delivered }: Attempt, { ladder_s }: Rules): number | null {
  return delivered ? null : nextAttemptAfter(attempts + 1, ladder_s);
}

/**
 * `touched` first: whoever claims locks the endpoints before the flights as well. What failed touches its endpoint in any
 * case, so that this waits for a deletion, or a deletion for this: nothing is queued for an endpoint that is gone.
 */
const ENDING = `
  with r as materialized (
    select i.*, ${nowOf("i.account", "i.mode")} as now,
           ${flightOf("i", "ctid")} as place
      from unnest($1::bigint[], $2::text[], $3::bigint[], $4::text[], $5::bigint[], $6::text[], $7::text[], $8::timestamptz[],
                  $9::int[], $10::int[], $11::int[], $12::text[], $13::bytea[], $14::boolean[], $15::bigint[])
        as i (endpoint_id, about, version, id, no, account, mode, at, slot, duration_ms, status_code, error, answer, delivered,
              next_ms)),
  touched as (
    update endpoints e
       set consecutive_failures = case when h.succeeded then 0 else e.consecutive_failures end + h.failures,
           suspended_until = case
             when not h.succeeded and e.suspended_until > $20 then e.suspended_until
             when h.failures > 0 and case when h.succeeded then 0 else e.consecutive_failures end + h.failures >= $23::int then $21
             when not h.succeeded then e.suspended_until end,
           last_delivery_at = $20,
           last_success_at = case when h.succeeded then $20 else e.last_success_at end,
           last_failure_at = case when h.failed then $20 else e.last_failure_at end
      from unnest($16::bigint[], $17::boolean[], $18::boolean[], $19::int[]) as h (id, succeeded, failed, failures)
     where e.id = h.id
       and (h.failed or e.consecutive_failures > 0 or e.suspended_until is not null or e.last_success_at is null
            or e.last_success_at <= $22)
    returning e.id, new.suspended_until, old.suspended_until as suspended_before),
  gone as (
    delete from flights
     where ctid = any (array(select place from r where place is not null)) and (select count(id) from touched) >= 0
    returning no),
  landed as materialized (select r.* from r where (r.no in (select no from gone)) is true),
  moved as (
    update deliveries d
       set attempts = d.attempts + 1, last_error = l.error, last_status_code = l.status_code,
           status = case when l.delivered then 'delivered' when l.next_ms is null then 'failed' else 'pending' end,
           ended_at = case when l.next_ms is null then l.now end,
           due_at = case when l.next_ms is null then d.due_at else l.now + l.next_ms * interval '1 millisecond' end
      from landed l where d.id = l.id
    returning d.id, d.endpoint_id, d.mode, d.due_at, d.operation_id, d.version, d.attempts, d.status),
  logged as (
    insert into attempts (slot, delivery_id, endpoint_id, at, duration_ms, status_code, error, answer)
    select slot, id, endpoint_id, at + (now - date_trunc('milliseconds', statement_timestamp())), duration_ms, status_code, error,
           answer
      from r)`;

const END = `${ENDING},
  queued as (
    insert into queue (endpoint_id, mode, due_at, delivery_id, operation_id, version, attempts)
    select endpoint_id, mode, due_at, id, operation_id, version, attempts from moved m
     where status = 'pending' and exists (select 1 from touched t where t.id = m.endpoint_id))
  select id as endpoint_id, suspended_until from touched
   where suspended_until is not null and suspended_until is distinct from suspended_before`;

const END_AND_TAKE = `${ENDING},
  freed as (select endpoint_id, count(id) as places from landed where endpoint_id = any($24::bigint[]) group by endpoint_id),
  ready as materialized (
    select e.id, e.account, least(e.places, ${roomOf({ per_endpoint: "$25", suspend_after: "$23", per_account: "$26" })}) as room
      from (select o.id, o.account, o.consecutive_failures, f.places, ${flyingAt("o")} - f.places as flying
              from freed f cross join lateral (select * from endpoints s where s.id = f.endpoint_id limit 1) o
             where o.is_active and o.suspended_until is null and o.consecutive_failures = 0) e),
  due as materialized (select p.place from ${dueAt(mayGo("$5::bigint[]"))}),
  ${take("$27")}`;
