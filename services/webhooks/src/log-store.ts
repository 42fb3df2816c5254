// SQL that shows what was sent: pages of deliveries and the log of their attempts.

import type { Mode } from "@cauri/money/mode";
import { pgNumArray, pgTextArray } from "@cauri/store/arrays";
import type { Queryable } from "@cauri/store/pool";
import type { Place } from "./cursor.ts";

export const STATUSES = ["pending", "delivered", "failed"] as const;
export type Status = (typeof STATUSES)[number];

/** Which deliveries of some endpoints; an absent bound is open. */
export type Span = { readonly from?: Date | undefined; readonly to?: Date | undefined };

export type SeenDelivery = {
  readonly id: string;
  readonly event: string;
  readonly event_id: string;
  readonly endpoint_id: bigint;
  readonly operation_id: string;
  readonly mode: Mode;
  readonly status: Status;
  readonly next_attempt_at: Date | null;
  readonly held_by: "inactive" | "suspended" | null;
  readonly occurred_at: Date;
  readonly ended_at: Date | null;
};

export type SeenAttempt = {
  readonly delivery_id: string;
  readonly at: Date;
  readonly status_code: number | null;
  readonly duration_ms: number;
  readonly error: string | null;
};

/** A suspension is real time, a due time the delivery's own: its rest is added to the delivery's clock. */
const SEEN = `d.id, d.event, d.event_id, d.endpoint_id, d.operation_id, d.mode, d.status, d.occurred_at, d.ended_at,
  case when d.status = 'pending' and e.is_active then
    greatest(d.due_at, case when e.suspended_until > statement_timestamp()
                            then now_of(d.account, d.mode) + (e.suspended_until - statement_timestamp()) end)
  end as next_attempt_at,
  case when d.status <> 'pending' then null when not e.is_active then 'inactive'
       when e.suspended_until > statement_timestamp() then 'suspended' end as held_by`;

/** Written into the statement, so that also a plan that was made for any values knows the index of what failed. */
const IN_STATUS: Readonly<Record<Status | "any", string>> = {
  any: "true",
  pending: "s.status = 'pending'",
  delivered: "s.status = 'delivered'",
  failed: "s.status = 'failed'",
};

/** The endpoints of an account, or the one that was named if it is the account's. */
export async function endpointsOf(db: Queryable, account: string, endpoint_id: bigint | undefined): Promise<bigint[]> {
  const { rows } = await db.query<{ id: bigint }>(
    "select id from endpoints where account = $1 and ($2::bigint is null or id = $2) order by id",
    [account, endpoint_id ?? null],
  );
  return rows.map(({ id }) => id);
}

/** The newest deliveries before a place; of each endpoint no more is read than the page may need. */
export async function readDeliveries(
  db: Queryable,
  endpoints: readonly bigint[],
  { status, from, to, before, limit }: Span & { status?: Status | undefined; before: Place | null; limit: number },
): Promise<SeenDelivery[]> {
  const { rows } = await db.query<SeenDelivery>(
    `select ${SEEN}
       from unnest($1::bigint[]) as of (endpoint_id)
       join endpoints e on e.id = of.endpoint_id
      cross join lateral (
        select * from deliveries s
         where s.endpoint_id = of.endpoint_id and ${IN_STATUS[status ?? "any"]}
           and s.occurred_at >= $2::timestamptz and s.occurred_at < $3::timestamptz
           and (s.occurred_at, s.id) < ($4::timestamptz, $5::text)
         order by s.occurred_at desc, s.id desc limit $6) d
      order by d.occurred_at desc, d.id desc limit $6`,
    [pgNumArray(endpoints), from ?? "-infinity", to ?? "infinity", before?.at ?? "infinity", before?.id ?? "", limit],
  );
  return rows;
}

/** One delivery of the account, or null. */
export async function readDelivery(db: Queryable, account: string, id: string): Promise<SeenDelivery | null> {
  const { rows } = await db.query<SeenDelivery>(
    `select ${SEEN} from deliveries d join endpoints e on e.id = d.endpoint_id where d.id = $1 and d.account = $2`,
    [id, account],
  );
  return rows[0] ?? null;
}

/** The newest attempts of each of these deliveries, in the order in which they were made. */
export async function readNewestAttempts(
  db: Queryable,
  deliveries: readonly string[],
  of_each: number,
): Promise<SeenAttempt[]> {
  const { rows } = await db.query<SeenAttempt>(
    `select a.delivery_id, a.at, a.status_code, a.duration_ms, a.error
       from unnest($1::text[]) as of (id)
      cross join lateral (
        select * from attempts l where l.delivery_id = of.id order by l.at desc limit $2) a
      order by a.at`,
    [pgTextArray(deliveries), of_each],
  );
  return rows;
}

/** The attempts of one delivery before an instant, the newest first; no two of one delivery begin in one millisecond. */
export async function readAttempts(
  db: Queryable,
  delivery_id: string,
  before: Date | null,
  limit: number,
): Promise<(SeenAttempt & { readonly answer: Buffer | null })[]> {
  const { rows } = await db.query<SeenAttempt & { answer: Buffer | null }>(
    `select delivery_id, at, status_code, duration_ms, error, answer from attempts
      where delivery_id = $1 and at < $2::timestamptz order by at desc limit $3`,
    [delivery_id, before ?? "infinity", limit],
  );
  return rows;
}
