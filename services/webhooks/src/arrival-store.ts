// SQL that writes deliveries once per event and endpoint. What nothing waits before is written as under way at once, for
// the runner that writes it; the rest takes its place in the queue.

import { deriveId } from "@cauri/money/ids";
import type { Mode } from "@cauri/money/mode";
import { pgNumArray, pgTextArray, pgTimeArray } from "@cauri/store/arrays";
import { nowOf } from "@cauri/store/clock";
import { type Pool, type Tx, transact } from "@cauri/store/pool";
import { type Bounds, type Claimed, flyingAt, mayGo, roomOf } from "./delivery-store.ts";
import { isSubscribed, SUSPEND_AFTER } from "./endpoint.ts";

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

export type Arrived = {
  /** What the caller now has to send; of one endpoint and operation the earlier event first. */
  readonly claimed: readonly Claimed[];
  /** Endpoints at which something new waits in the queue and a claim may find something, once for each. */
  readonly queued: readonly bigint[];
  /** Endpoints at which something new waits and nothing can go before an attempt under way has ended. */
  readonly held: readonly bigint[];
};

const NOTHING: Arrived = { claimed: [], queued: [], held: [] };

/**
 * Writes one delivery per event and endpoint that wants it; events seen before add nothing. With bounds the caller gets
 * those that may go at once, under the same locks and caps as if it claimed them; without, all of them wait.
 */
export async function insertDeliveries(pool: Pool, events: readonly Event[], bounds: Bounds | null): Promise<Arrived> {
  if (events.length === 0) return NOTHING;
  const { pairs, answer } = await transact(pool, (tx) => write(tx, events, bounds));
  const rows = (await answer)?.rows ?? [];
  const pairOf = new Map(pairs.map((pair) => [pair.id, pair]));
  const claimed = rows.flatMap((row) => {
    const pair = pairOf.get(row.id);
    return row.no === null || pair === undefined ? [] : [claimedOf(pair, row.no)];
  });
  const waiting = (is_held: boolean) => rows.filter((row) => row.no === null && (row.is_held ?? false) === is_held);
  const endpointsOf = (of: readonly Placed[]) => [...new Set(of.map(({ endpoint_id }) => endpoint_id))];
  return { claimed, queued: endpointsOf(waiting(false)), held: endpointsOf(waiting(true)) };
}

/** The statement's answer is not awaited here, so that it leaves together with the commit: it is there after it. */
async function write(tx: Tx, events: readonly Event[], bounds: Bounds | null): Promise<Written> {
  const endpoints = await lockSubscribers(tx, [...new Set(events.map(({ account }) => account))], bounds !== null);
  const pairs = events.flatMap((event) =>
    endpoints
      .filter((endpoint) => endpoint.account === event.account && wants(endpoint, event))
      .map((endpoint) => ({ id: deriveId("dl", event.event_id, String(endpoint.id)), event, endpoint })),
  );
  if (pairs.length === 0) return { pairs, answer: null };
  const answer = tx.query<Placed>(INSERT, [
    pgTextArray(pairs.map(({ id }) => id)),
    pgNumArray(pairs.map(({ endpoint }) => endpoint.id)),
    pgTextArray(pairs.map(({ event }) => event.event_id)),
    pgTextArray(pairs.map(({ event }) => event.account)),
    pgTextArray(pairs.map(({ event }) => event.mode)),
    pgTextArray(pairs.map(({ event }) => event.event)),
    pgTextArray(pairs.map(({ event }) => event.operation_id)),
    pgNumArray(pairs.map(({ event }) => event.version)),
    pgTextArray(pairs.map(({ event }) => event.body)),
    pgTimeArray(pairs.map(({ event }) => event.occurred_at)),
    pgNumArray(endpoints.filter(({ url }) => url !== null).map(({ id }) => id)),
    bounds?.per_endpoint ?? 0,
    SUSPEND_AFTER,
    bounds?.per_account ?? 0,
    bounds?.now ?? null,
    bounds?.lease_ms ?? 0,
    bounds?.timeout_ms ?? 0,
  ]);
  return { pairs, answer };
}

type Written = { readonly pairs: readonly Pair[]; readonly answer: Promise<{ readonly rows: Placed[] }> | null };

type Placed = {
  readonly id: string;
  readonly endpoint_id: bigint;
  /** Of its flight; null for what waits in the queue. */
  readonly no: bigint | null;
  /** At its endpoint nothing more can go now; null where that was not looked at. */
  readonly is_held: boolean | null;
};

type Subscriber = Pick<Claimed, "secret_sealed" | "previous_sealed" | "standard_headers" | "operation_id"> & {
  readonly id: bigint;
  readonly account: string;
  readonly subscribed_events: readonly string[];
  readonly created_at: Date;
  /** Null, with all that sending needs, where the endpoint is not locked for sending. */
  readonly url: string | null;
};

/**
 * The accounts' endpoints, kept from being deleted until the commit. Those that are to be sent to are locked as a claim
 * does it; one that another runner is at just now is passed over: its events wait.
 */
async function lockSubscribers(tx: Tx, accounts: readonly string[], to_send: boolean): Promise<readonly Subscriber[]> {
  const values = [pgTextArray(accounts)];
  if (!to_send) return (await tx.query<Subscriber>(KEEP, [...values, "{}"])).rows;
  const { rows } = await tx.query<Subscriber>(LOCK_FOR_SENDING, values);
  const locked = rows.filter(({ url }) => url !== null);
  if (locked.length === rows.length) return locked;
  const others = await tx.query<Subscriber>(KEEP, [...values, pgNumArray(locked.map(({ id }) => id))]);
  return [...locked, ...others.rows];
}

const LOCK_FOR_SENDING = `
  select e.id, e.account, e.subscribed_events, e.created_at, l.url, l.operation_id, l.secret_sealed, l.standard_headers,
         case when l.previous_until > statement_timestamp() then l.previous_sealed end as previous_sealed
    from endpoints e left join lateral (
      select * from endpoints o where o.id = e.id for no key update skip locked) l on true
   where e.account = any($1::text[]) order by e.id`;
const KEEP = `
  select id, account, subscribed_events, created_at, null as url from endpoints
   where account = any($1::text[]) and id <> all($2::bigint[]) order by id for key share`;

/** The clocks of two machines may differ by this much at worst. */
const SKEW_MS = 10_000;

/** The stream may bring old events once more (NATS lost its store): a younger endpoint never asked for those. */
function wants({ subscribed_events: names, created_at }: Subscriber, { event, occurred_at }: Event): boolean {
  if (created_at.getTime() > occurred_at.getTime() + SKEW_MS) return false;
  return isSubscribed(names, event);
}

/**
 * An endpoint sends at once what its caps leave room for while nothing else there could go: else its turn is the queue's.
 * Events of one operation that come together go together, each with a lease that has time for those before it.
 * A statement after that of the locks, for its snapshot must be younger than they are. If it weren't materialised, the room
 * would be worked out anew wherever it is named.
 */
const INSERT = `
  with made as (
    insert into deliveries (id, endpoint_id, event_id, account, mode, event, operation_id, version, body, occurred_at, due_at)
    select i.id, i.endpoint_id, i.event_id, i.account, i.mode, i.event, i.operation_id, i.version, i.body, i.occurred_at,
           ${nowOf("i.account", "i.mode")}
      from unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::bigint[],
                  $9::text[], $10::timestamptz[])
        as i (id, endpoint_id, event_id, account, mode, event, operation_id, version, body, occurred_at)
    on conflict (id) do nothing
    returning id, endpoint_id, mode, due_at, operation_id, version),
  capped as materialized (
    select e.id, e.account, ${roomOf({ per_endpoint: "$12", suspend_after: "$13", per_account: "$14" })} as room
      from (select o.id, o.account, o.consecutive_failures, ${flyingAt("o")} as flying
              from endpoints o
             where o.id = any($11::bigint[]) and o.is_active and (o.suspended_until is null or o.suspended_until <= $15)) e),
  ready as materialized (
    select g.id, g.room, case when g.room > 0 then not exists (
             select 1 from (values ('live'), ('test')) m (mode) cross join lateral (
               select 1 from queue w
                where w.endpoint_id = g.id and w.mode = m.mode and w.due_at <= ${nowOf("g.account", "m.mode")}
                  and ${mayGo()} limit 1) h) else false end as is_free
      from capped g),
  placed as materialized (
    select p.*, case when p.may_go and p.place <= p.room then nextval('flight_numbers') end as no
      from (select c.*, row_number() over (partition by c.endpoint_id, c.may_go order by c.version, c.id) as place,
                   row_number() over (partition by c.endpoint_id, c.operation_id, c.may_go order by c.version, c.id) as turn
              from (select w.*, coalesce(w.is_free and ${mayGo()}, false) as may_go
                      from (select made.*, ready.room, ready.is_free, 0 as attempts
                              from made left join ready on ready.id = made.endpoint_id) w) c) p),
  flown as (
    insert into flights (endpoint_id, operation_id, version, delivery_id, no, is_first, lease_until)
    select endpoint_id, operation_id, version, id, no, true,
           statement_timestamp() + ($16::bigint + $17::bigint * (turn - 1)) * interval '1 millisecond'
      from placed where no is not null),
  queued as (
    insert into queue (endpoint_id, mode, due_at, delivery_id, operation_id, version, attempts)
    select endpoint_id, mode, due_at, id, operation_id, version, 0 from placed where no is null)
  select id, endpoint_id, no, room <= 0 or is_free as is_held from placed order by version, id`;

type Pair = { readonly id: string; readonly event: Event; readonly endpoint: Subscriber };

function claimedOf({ id, event, endpoint }: Pair, no: bigint): Claimed {
  const { url, secret_sealed, previous_sealed, standard_headers, operation_id } = endpoint;
  if (url === null) throw new Error("a delivery is under way to an endpoint that was not locked for it");
  const { operation_id: about, ...facts } = event;
  const of_endpoint = { url, operation_id, secret_sealed, previous_sealed, standard_headers };
  return { ...facts, id, no, endpoint_id: endpoint.id, about, attempts: 0, ...of_endpoint };
}
