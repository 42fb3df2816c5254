// SQL of attempts: the row that is written before a call leaves, its lease, its news, and what is due to be asked.

import type { FailureCode } from "@cauri/money/failure";
import type { Mode } from "@cauri/money/mode";
import { pgNumArray, pgTextArray } from "@cauri/store/arrays";
import type { Queryable, Tx } from "@cauri/store/pool";
import type { AttemptState, Handoff, NewsSource, RailAnswer } from "./attempt.ts";
import { dueRows } from "./due.ts";

/** Longer than a call (5 s) with its two transactions, shorter than the 9 s lease of the room that calls. */
const LEASE_MS = 7_000;

export type Attempt = {
  readonly operation_id: string;
  readonly account: string;
  readonly mode: Mode;
  readonly reference: string;
  readonly amount_minor: bigint;
  readonly asset_id: string;
  readonly currency: string;
  readonly scale: number;
  readonly platform_id: string;
  readonly expires_at: Date;
  readonly state: AttemptState;
  readonly rail: string | null;
  readonly connector: string | null;
  readonly is_pinned: boolean;
  readonly payment_url: string | null;
  readonly deep_link: string | null;
  readonly qr: string | null;
  readonly failure_code: FailureCode | null;
  readonly rail_amount_minor: bigint | null;
  readonly rail_currency: string | null;
  readonly odd_amount_minor: bigint | null;
  readonly odd_currency: string | null;
  readonly version: bigint;
  readonly lease_no: bigint;
  readonly polls: number;
  /** A process holds it and its lease runs. */
  readonly leased: boolean;
  /** Business time of its account, in this statement. */
  readonly now: Date;
};

export type NewAttempt = Pick<
  Attempt,
  | "operation_id"
  | "account"
  | "mode"
  | "reference"
  | "amount_minor"
  | "asset_id"
  | "currency"
  | "scale"
  | "platform_id"
  | "expires_at"
>;

const READ = `select a.*, coalesce(a.lease_until > clock_timestamp(), false) as leased, now_of(a.account, a.mode) as now
                from attempts a`;

/** Writes the attempt down unless it is, and locks it: of many callers one goes on at a time. */
export async function openAttempt(tx: Tx, attempt: NewAttempt): Promise<Attempt> {
  void tx.prepared(
    {
      name: "attempt_insert",
      text: `insert into attempts (operation_id, account, mode, reference, amount_minor, asset_id, currency, scale,
                                   platform_id, expires_at, state, created_at, updated_at)
             values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, 'ready', now_of($2, $3), now_of($2, $3))
             on conflict (operation_id) do nothing`,
    },
    [
      attempt.operation_id,
      attempt.account,
      attempt.mode,
      attempt.reference,
      attempt.amount_minor,
      attempt.asset_id,
      attempt.currency,
      attempt.scale,
      attempt.platform_id,
      attempt.expires_at,
    ],
  );
  const locked = await lockAttempt(tx, attempt.operation_id);
  if (locked === null) throw new Error("an attempt that was just written is not there");
  return locked;
}

export async function lockAttempt(tx: Tx, operation_id: string): Promise<Attempt | null> {
  const { rows } = await tx.prepared<Attempt>(
    { name: "attempt_lock", text: `${READ} where a.operation_id = $1 for update` },
    [operation_id],
  );
  return rows[0] ?? null;
}

/** By the name that the rail knows. One that turned the call down is heard too; one that was never called is not. */
export async function lockByReference(tx: Tx, connector: string, reference: string): Promise<Attempt | null> {
  const { rows } = await tx.prepared<Attempt>(
    {
      name: "attempt_lock_reference",
      text: `${READ} where a.reference = $1 and a.connector = $2 for update`,
    },
    [reference, connector],
  );
  return rows[0] ?? null;
}

export async function readAttempt(db: Queryable, operation_id: string): Promise<Attempt | null> {
  const { rows } = await db.query<Attempt>(`${READ} where a.operation_id = $1`, [operation_id]);
  return rows[0] ?? null;
}

/** Takes the lease and sends by this rail; whoever held a lease before can no longer say that nothing happened. */
export async function startSending(tx: Tx, attempt: Attempt, rail: string, connector: string): Promise<bigint> {
  const { rows } = await tx.prepared<{ lease_no: bigint }>(
    {
      name: "attempt_send",
      text: `update attempts
                set state = 'sending', rail = $2, connector = $3, sends = sends + 1, lease_no = lease_no + 1, polls = 0,
                    lease_until = clock_timestamp() + $4 * interval '1 millisecond',
                    next_poll_at = now_of(account, mode) + $4 * interval '1 millisecond',
                    updated_at = now_of(account, mode)
              where operation_id = $1 and state = 'ready'
             returning lease_no`,
    },
    [attempt.operation_id, rail, connector, LEASE_MS],
  );
  return onlyLease(rows);
}

/** Takes an attempt over whose sender is gone: from here on it is unknown, and stays with its rail. */
export async function takeOver(tx: Tx, attempt: Attempt): Promise<bigint> {
  const { rows } = await tx.query<{ lease_no: bigint }>(
    `update attempts
        set state = 'unknown', is_pinned = true, lease_no = lease_no + 1,
            lease_until = clock_timestamp() + $2 * interval '1 millisecond', updated_at = now_of(account, mode)
      where operation_id = $1 and state in ('sending', 'unknown')
     returning lease_no`,
    [attempt.operation_id, LEASE_MS],
  );
  return onlyLease(rows);
}

/** The rail, asked by our reference, has nothing: what was lost may be sent again, by the same rail. */
export async function makeReady(tx: Tx, operation_id: string, lease_no: bigint): Promise<boolean> {
  const { rowCount } = await tx.query(
    `update attempts set state = 'ready', lease_until = null, next_poll_at = null
      where operation_id = $1 and lease_no = $2 and state = 'unknown'`,
    [operation_id, lease_no],
  );
  return rowCount === 1;
}

export type Changes = {
  readonly state: AttemptState;
  readonly version: bigint;
  readonly handoff: Handoff;
  readonly failure_code: FailureCode | null;
  readonly rail_amount_minor: bigint | null;
  readonly rail_currency: string | null;
  readonly odd_amount_minor: bigint | null;
  readonly odd_currency: string | null;
  /** Seconds of business time until the rail is asked; null: never. */
  readonly poll_in_s: number | null;
  /** The lease that ends with this write; null: it stays. */
  readonly ends_lease: bigint | null;
};

/** Writes what news made of a locked attempt. What the rail gave to pay with is kept from whichever answer had it. */
export async function writeNews(tx: Tx, attempt: Attempt, changes: Changes): Promise<void> {
  await tx.prepared(
    {
      name: "attempt_news",
      text: `update attempts
                set state = $2, version = $3, payment_url = coalesce($4, payment_url),
                    deep_link = coalesce($5, deep_link), qr = coalesce($6, qr), failure_code = $7,
                    rail_amount_minor = $8, rail_currency = $9, odd_amount_minor = $10, odd_currency = $11,
                    next_poll_at = now_of(account, mode) + $12::float8 * interval '1 second',
                    polls = case when state = $2 then polls else 0 end,
                    is_pinned = is_pinned or $2 = 'unknown',
                    lease_until = case when lease_no = $13 then null else lease_until end,
                    updated_at = now_of(account, mode)
              where operation_id = $1`,
    },
    [
      attempt.operation_id,
      changes.state,
      changes.version,
      changes.handoff.payment_url ?? null,
      changes.handoff.deep_link ?? null,
      changes.handoff.qr ?? null,
      changes.failure_code,
      changes.rail_amount_minor,
      changes.rail_currency,
      changes.odd_amount_minor,
      changes.odd_currency,
      changes.poll_in_s,
      changes.ends_lease,
    ],
  );
}

/** Keeps what a rail said, whether it moved anything (`to_state`) or not (null). */
export async function keepHistory(
  tx: Tx,
  attempt: Attempt,
  said: { readonly source: NewsSource; readonly answer: RailAnswer; readonly to_state: AttemptState | null },
): Promise<void> {
  const { answer } = said;
  const paid = answer.outcome === "success" ? answer : null;
  await tx.prepared(
    {
      name: "attempt_history",
      text: `insert into attempt_history (operation_id, source, rail, outcome, failure_code, rail_amount_minor,
                                          rail_currency, from_state, to_state, happened_at)
             values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
    },
    [
      attempt.operation_id,
      said.source,
      attempt.rail,
      answer.outcome,
      answer.outcome === "failed" ? answer.failure_code : null,
      paid?.amount_minor ?? null,
      paid?.currency ?? null,
      attempt.state,
      said.to_state,
      attempt.now,
    ],
  );
}

/** A hint came in: the rail is asked as soon as the poller can. */
export async function pollNow(tx: Tx, operation_id: string): Promise<void> {
  await tx.query(
    `update attempts set next_poll_at = now_of(account, mode)
      where operation_id = $1 and state in ('sending', 'unknown', 'pending')`,
    [operation_id],
  );
}

/** Locks attempts whose rail is due to be asked, of one account's test mode or of all. */
export async function lockDuePolls(tx: Tx, account: string | null, limit: number): Promise<Attempt[]> {
  const { rows } = await tx.query<Attempt>(
    `${READ} where a.operation_id in (${dueRows("attempts", "operation_id", "next_poll_at", "next_poll_at is not null")})
        and coalesce(a.lease_until <= clock_timestamp(), true)
      order by a.next_poll_at limit $2 for update skip locked`,
    [account, limit],
  );
  return rows;
}

/** Sets when each is asked next (null: never again), before it is asked: a process that dies asks a little later. */
export async function schedulePolls(
  tx: Tx,
  polls: readonly { readonly operation_id: string; readonly in_s: number | null }[],
): Promise<void> {
  if (polls.length === 0) return;
  await tx.query(
    `update attempts a
        set polls = a.polls + 1, next_poll_at = now_of(a.account, a.mode) + p.in_s * interval '1 second'
       from unnest($1::text[], $2::bigint[]) as p (operation_id, in_s)
      where a.operation_id = p.operation_id`,
    [pgTextArray(polls.map((poll) => poll.operation_id)), pgNumArray(polls.map((poll) => poll.in_s))],
  );
}

function onlyLease(rows: readonly { readonly lease_no: bigint }[]): bigint {
  const lease = rows[0];
  if (lease === undefined) throw new Error("a locked attempt was not in the state that was just read");
  return lease.lease_no;
}
