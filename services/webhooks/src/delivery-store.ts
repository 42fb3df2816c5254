// SQL of what is sent: claiming what is due, fairly per endpoint, and giving back what a runner did not end. All hot
// statements take and give arrays, and find every row by the one index of its table.

import type { Mode } from "@cauri/money/mode";
import { pgNumArray, pgTextArray } from "@cauri/store/arrays";
import { nowOf } from "@cauri/store/clock";
import type { Queryable, Tx } from "@cauri/store/pool";
import { SUSPEND_AFTER } from "./endpoint.ts";

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

/**
 * Of a waiting delivery `w`: an event waits while an earlier one of its operation has not had its first attempt; one being
 * retried is overtaken. `landed` are numbers of flights that this statement ends. Of the queue the words match the index of
 * first attempts alone, whatever PostgreSQL believes of the table's size.
 */
export function mayGo(landed?: string): string {
  return `(w.attempts > 0 or (
  not exists (select 1 from queue b where b.operation_id = w.operation_id and b.version < w.version and b.attempts = 0
                 and b.endpoint_id + 0 = w.endpoint_id)
  and not exists (select 1 from flights b where b.endpoint_id = w.endpoint_id and b.operation_id = w.operation_id
                     and b.version < w.version and b.is_first${landed === undefined ? "" : ` and b.no <> all(${landed})`})))`;
}

/** How many more attempts an endpoint `e` may have under way, given how many it has (`flying`). */
export function roomOf(of: { per_endpoint: string; suspend_after: string; per_account: string }): string {
  return `greatest(1, least(${of.per_endpoint}::bigint, ${of.suspend_after}::bigint - e.consecutive_failures,
    ${of.per_account}::bigint / (select count(s.id) from endpoints s where s.account = e.account))) - e.flying`;
}

export function flyingAt(endpoint: string): string {
  return `(select count(f.no) from flights f where f.endpoint_id = ${endpoint}.id)`;
}

/** Something is due for the endpoint `e`, whether or not it may go now. */
const SOMETHING_DUE = `exists (
  select 1 from (values ('live'), ('test')) m (mode) cross join lateral (
    select 1 from queue q
     where q.endpoint_id = e.id and q.mode = m.mode and q.due_at <= ${nowOf("e.account", "m.mode")} limit 1) h)`;

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
        and ${SOMETHING_DUE}`,
    [now],
  );
  return rows.map(({ id }) => id);
}

/** What an attempt's runner must keep to, whichever way it comes to its deliveries. */
export type Bounds = {
  /** Attempts under way at one endpoint, over all replicas. */
  readonly per_endpoint: number;
  /** Attempts under way for one account, over all replicas: its endpoints share them evenly, so that none takes all. */
  readonly per_account: number;
  /** Longer than an attempt can take: a runner that lives never loses its lease. */
  readonly lease_ms: number;
  /** The longest that an attempt takes: what has to wait for another one's end has so much more time. */
  readonly timeout_ms: number;
  /** Real time, by which endpoints are suspended. */
  readonly now: Date;
};

export type ClaimOptions = Omit<Bounds, "timeout_ms"> & {
  /** The endpoints to look at: which of them may get something is found out under their locks. */
  readonly endpoints: readonly bigint[];
  readonly limit: number;
  /** For a drain: an endpoint that another runner is at just now is waited for, not passed over. */
  readonly patient?: boolean;
};

export type Taken = {
  readonly claimed: readonly Claimed[];
  /** Of the endpoints those that had something due before this claim. */
  readonly waiting: readonly bigint[];
};

/**
 * Takes due deliveries of the endpoints that may get one: active, not suspended, below their cap. The endpoints' rows
 * are locked first and the counts are read by a second statement, whose snapshot is younger than the lock: so neither
 * the cap nor the 20th failure can be passed by two replicas. With the counter at 20 one probe goes out.
 */
export async function claimDue(tx: Tx, options: ClaimOptions): Promise<Taken> {
  const { rows } = await tx.query<{ id: bigint; locked: boolean }>(options.patient === true ? LOCK_PATIENTLY : LOCK, [
    pgNumArray(options.endpoints),
    options.now,
  ]);
  const waiting = rows.map(({ id }) => id);
  const ready = rows.filter(({ locked }) => locked).map(({ id }) => id);
  if (ready.length === 0) return { claimed: [], waiting };
  const { rows: claimed } = await tx.query<Claimed>(CLAIM, [
    pgNumArray(ready),
    options.per_endpoint,
    SUSPEND_AFTER,
    options.limit,
    options.lease_ms,
    options.per_account,
  ]);
  return { claimed, waiting };
}

/** The condition is looked at twice: as the snapshot has it, and on the row that is locked. */
const lockOf = (skip: string) => `
  select e.id, l.id is not null as locked
    from endpoints e left join lateral (
      select o.id from endpoints o
       where o.id = e.id and o.is_active and (o.suspended_until is null or o.suspended_until <= $2)
         for no key update ${skip}) l on true
   where e.id = any($1::bigint[]) and e.is_active and (e.suspended_until is null or e.suspended_until <= $2)
     and ${SOMETHING_DUE}
   order by e.id`;
const LOCK = lockOf("skip locked");
const LOCK_PATIENTLY = lockOf("");

/**
 * The place in the queue of what is due at the endpoints of `ready`, of each as much as it has `room` for, with its `turn`
 * there.
 */
export function dueAt(may_go: string): string {
  return `ready r cross join lateral (
          select h.* from (values ('live'), ('test')) m (mode) cross join lateral (
            select w.ctid as place, row_number() over (order by w.due_at, w.delivery_id) as turn
              from queue w
             where w.endpoint_id = r.id and w.mode = m.mode and w.due_at <= ${nowOf("r.account", "m.mode")} and ${may_go}
             order by w.due_at, w.delivery_id limit r.room) h
           order by h.turn limit r.room) p
       where r.room > 0`;
}

/**
 * Takes the places of `due` out of the queue for the runner: a delivery is either there or under way. What somebody else
 * takes at this very moment is his.
 */
export function take(lease_ms: string): string {
  return `
  taken as (
    delete from queue where ctid = any (array(select place from due))
    returning endpoint_id, operation_id, version, delivery_id, attempts, nextval('flight_numbers') as no),
  flown as (
    insert into flights (endpoint_id, operation_id, version, delivery_id, no, is_first, lease_until)
    select endpoint_id, operation_id, version, delivery_id, no, attempts = 0,
           statement_timestamp() + ${lease_ms}::bigint * interval '1 millisecond' from taken)
  select d.id, t.no, d.endpoint_id, d.event_id, d.event, d.mode, d.body, d.attempts, d.account, d.occurred_at,
         d.operation_id as about, d.version, e.url, e.secret_sealed, e.standard_headers, e.operation_id,
         case when e.previous_until > statement_timestamp() then e.previous_sealed end as previous_sealed
    from taken t cross join lateral (select * from deliveries m where m.id = t.delivery_id limit 1) d
   cross join lateral (select * from endpoints o where o.id = t.endpoint_id limit 1) e`;
}

/**
 * The limit is shared out in turns, beginning with the endpoints that have the fewest attempts under way: so they stay even,
 * and with them the number of connections.
 */
const CLAIM = `
  with counted as materialized (
    select o.id, o.account, o.consecutive_failures, ${flyingAt("o")} as flying
      from endpoints o where o.id = any($1::bigint[])),
  ready as materialized (
    select e.id, e.account, e.flying, ${roomOf({ per_endpoint: "$2", suspend_after: "$3", per_account: "$6" })} as room
      from counted e),
  due as materialized (
    select p.place from ${dueAt(mayGo())}
     order by r.flying + p.turn limit $4),
  ${take("$5")}`;

/** Rows of one return: bounds how long it holds its locks. */
const RETURNED = 1_000;

/**
 * What a runner had under way when it died goes back to the queue, once its lease has run out. Whoever is at the rows just
 * now is passed over: a runner that was late after all, or another replica that returns them too.
 */
export async function returnLost(db: Queryable): Promise<number> {
  const { rowCount } = await db.query(
    `with lost as materialized (
       select f.ctid as place, d.id, d.endpoint_id, d.mode, d.due_at, d.operation_id, d.version, d.attempts
         from flights f join endpoints e on e.id = f.endpoint_id join deliveries d on d.id = f.delivery_id
        where f.lease_until <= statement_timestamp()
        limit ${RETURNED} for update of f skip locked for key share of e skip locked),
     gone as (delete from flights where ctid = any (array(select place from lost)))
     insert into queue (endpoint_id, mode, due_at, delivery_id, operation_id, version, attempts)
     select endpoint_id, mode, due_at, id, operation_id, version, attempts from lost`,
    [],
  );
  return rowCount ?? 0;
}

/**
 * Nothing of test mode is under way at these endpoints, of this process or of any other, and nothing that they would take is
 * due. One statement, for what comes back from under way is due in the same moment: two looks could miss it between them.
 */
export async function isQuiet(db: Queryable, endpoints: readonly bigint[], now: Date): Promise<boolean> {
  const { rows } = await db.query<{ quiet: boolean }>(
    `select not exists (
       select from flights f join deliveries d on d.id = f.delivery_id
        where f.endpoint_id = any($1::bigint[]) and d.mode = 'test')
        and not exists (
       select from endpoints e cross join lateral (
         select from queue q
          where q.endpoint_id = e.id and q.mode = 'test' and q.due_at <= ${nowOf("e.account", "'test'")} limit 1) h
        where e.id = any($1::bigint[]) and e.is_active and (e.suspended_until is null or e.suspended_until <= $2)) as quiet`,
    [pgNumArray(endpoints), now],
  );
  return rows[0]?.quiet === true;
}

/**
 * Where the flight of `r` is, or its number; null where its lease was taken over. By this alone statements come from many results
 * to their flights: after a vacuum that has met none, a join would be planned as a walk through all flights for each result.
 */
export function flightOf(r: string, column: "ctid" | "no"): string {
  return `(select f.${column} from flights f
            where f.endpoint_id = ${r}.endpoint_id and f.operation_id = ${r}.about and f.version = ${r}.version
              and f.delivery_id = ${r}.id and f.no = ${r}.no)`;
}

/** Gives attempts back that were not made, or whose end nobody will write: they wait again, and nothing is counted. */
export async function giveBack(db: Queryable, claimed: readonly Claimed[]): Promise<void> {
  await db.query(
    `update flights set lease_until = '-infinity'
      where ctid = any (array(
        select ${flightOf("r", "ctid")}
          from unnest($1::bigint[], $2::text[], $3::bigint[], $4::text[], $5::bigint[]) as r (endpoint_id, about, version, id, no)))`,
    [
      pgNumArray(claimed.map(({ endpoint_id }) => endpoint_id)),
      pgTextArray(claimed.map(({ about }) => about)),
      pgNumArray(claimed.map(({ version }) => version)),
      pgTextArray(claimed.map(({ id }) => id)),
      pgNumArray(claimed.map(({ no }) => no)),
    ],
  );
  while ((await returnLost(db)) === RETURNED);
}
