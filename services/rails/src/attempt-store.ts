// SQL of attempts: the row that is written before a call leaves, and its lease.

import type { FailureCode } from "@cauri/money/failure";
import type { Mode } from "@cauri/money/mode";
import { pgNumArray, pgTextArray, pgTimeArray } from "@cauri/store/arrays";
import { nowBy } from "@cauri/store/clock";
import { type Pool, type Queryable, single, type Tx } from "@cauri/store/pool";
import { rowsOf } from "@cauri/store/rows";
import { type AttemptKind, type AttemptState, attemptMoves, pollDelay_s } from "./attempt.ts";

/** When the rail is asked first, from the sending on; before its lease is over it is the sender's alone. */
const FIRST_POLL_S = pollDelay_s("pending", 0);
/** Longer than a call (5 s) with its two transactions, shorter than the 9 s lease of the room that calls. */
const LEASE_MS = 7_000;

export type Attempt = {
  readonly operation_id: string;
  readonly kind: AttemptKind;
  readonly account: string;
  readonly mode: Mode;
  readonly reference: string;
  readonly amount_minor: bigint;
  readonly asset_id: string;
  readonly currency: string;
  readonly scale: number;
  readonly platform_id: string;
  /** When the payer's time is over; null where nothing ends the asking. */
  readonly expires_at: Date | null;
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
  | "kind"
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

/** The columns of an `Attempt`, of `attempts a`. */
export const READ_ATTEMPT = `select a.operation_id, a.kind, a.account, a.mode, a.reference, a.amount_minor, a.asset_id, a.currency, a.scale,
                     a.platform_id, a.expires_at, a.state, a.rail, a.connector, a.is_pinned, a.payment_url, a.deep_link, a.qr,
                     a.failure_code, a.rail_amount_minor, a.rail_currency, a.odd_amount_minor, a.odd_currency, a.version,
                     a.lease_no, a.polls, coalesce(a.lease_until > clock_timestamp(), false) as leased,
                     ${nowBy("k")} as now
                from attempts a left join clocks k on k.account = a.account and a.mode = 'test'`;

/**
 * Writes the attempt down unless it is, and locks it: of many callers one goes on at a time. Its reference is as unique as its
 * id: with the id alone named for the conflict, one of two that write at once can meet the other's reference first, and fail.
 */
export async function openAttempt(tx: Tx, attempt: NewAttempt): Promise<Attempt> {
  void tx.prepared(
    {
      name: "attempt_insert",
      text: `insert into attempts (operation_id, account, mode, reference, amount_minor, asset_id, currency, scale,
                                   platform_id, expires_at, kind, state, created_at)
             values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, 'ready', now_of($2, $3))
             on conflict do nothing`,
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
      attempt.kind,
    ],
  );
  const locked = await lockAttempt(tx, attempt.operation_id);
  if (locked === null) throw new Error("an attempt that was just written is not there");
  return locked;
}

/** A new attempt that is written down as being sent, and the sealed details that the vault has under its own id. */
export type Opened = { readonly attempt: Attempt; readonly sealed: Buffer | null };

/**
 * Writes new attempts down as being sent, under a lease each, and answers them by operation. What is there already is left
 * alone, and missing in the answer; so is what would be sent to nobody knows where.
 */
export async function openSending(
  pool: Pool,
  attempts: readonly { readonly attempt: NewAttempt; readonly rail: string; readonly connector: string }[],
): Promise<Map<string, Opened>> {
  const text = (of: (attempt: NewAttempt) => string) => pgTextArray(attempts.map(({ attempt }) => of(attempt)));
  const { rows } = await single<{ operation_id: string; lease_no: bigint; now: Date; sealed: Buffer | null }>(
    pool,
    `with opened as (
       insert into attempts (operation_id, account, mode, reference, amount_minor, asset_id, currency, scale, platform_id,
                             expires_at, rail, connector, kind, state, sends, lease_no, lease_until, next_poll_at, created_at)
       select n.operation_id, n.account, n.mode, n.reference, n.amount_minor, n.asset_id, n.currency, n.scale, n.platform_id,
              n.expires_at, n.rail, n.connector, n.kind, 'sending', 1, 1, clock_timestamp() + $14 * interval '1 millisecond',
              ${nowBy("k")} + $15 * interval '1 second', ${nowBy("k")}
         from ${rowsOf(`operation_id text, account text, mode text, reference text, amount_minor bigint, asset_id text,
                         currency text, scale smallint, platform_id text, expires_at timestamptz, rail text,
                         connector text, kind text`)} as n
              left join clocks k on k.account = n.account and n.mode = 'test'
        where n.kind <> 'payout' or exists (select from vault v where v.operation_id = n.operation_id)
        order by n.operation_id
       on conflict do nothing
       returning operation_id, lease_no, created_at)
     select o.operation_id, o.lease_no, o.created_at as now, v.sealed
       from opened o left join vault v on v.operation_id = o.operation_id`,
    [
      text(({ operation_id }) => operation_id),
      text(({ account }) => account),
      text(({ mode }) => mode),
      text(({ reference }) => reference),
      pgNumArray(attempts.map(({ attempt }) => attempt.amount_minor)),
      text(({ asset_id }) => asset_id),
      text(({ currency }) => currency),
      pgNumArray(attempts.map(({ attempt }) => attempt.scale)),
      text(({ platform_id }) => platform_id),
      pgTimeArray(attempts.map(({ attempt }) => attempt.expires_at)),
      pgTextArray(attempts.map(({ rail }) => rail)),
      pgTextArray(attempts.map(({ connector }) => connector)),
      text(({ kind }) => kind),
      LEASE_MS,
      FIRST_POLL_S,
    ],
  );
  const opened = new Map(rows.map(({ operation_id, ...row }) => [operation_id, row]));
  return new Map(
    attempts.flatMap(({ attempt, rail, connector }) => {
      const row = opened.get(attempt.operation_id);
      if (row === undefined) return [];
      const { sealed, lease_no, now } = row;
      return [[attempt.operation_id, { attempt: { ...attempt, ...UNTOLD, rail, connector, lease_no, now }, sealed }]];
    }),
  );
}

/** What a new attempt has that is being sent for the first time. */
const UNTOLD = {
  state: attemptMoves.ready.send.to,
  is_pinned: false,
  payment_url: null,
  deep_link: null,
  qr: null,
  failure_code: null,
  rail_amount_minor: null,
  rail_currency: null,
  odd_amount_minor: null,
  odd_currency: null,
  version: 0n,
  polls: 0,
  leased: true,
} as const;

export async function lockAttempt(tx: Tx, operation_id: string): Promise<Attempt | null> {
  const { rows } = await tx.prepared<Attempt>(
    { name: "attempt_lock", text: `${READ_ATTEMPT} where a.operation_id = $1 for update of a` },
    [operation_id],
  );
  return rows[0] ?? null;
}

/** Locks many, in the order of their ids. */
export async function lockAttempts(tx: Tx, operation_ids: readonly string[]): Promise<Map<string, Attempt>> {
  const { rows } = await tx.query<Attempt>(
    `${READ_ATTEMPT} where a.operation_id = any($1::text[]) order by a.operation_id for update of a`,
    [pgTextArray(operation_ids)],
  );
  return new Map(rows.map((attempt) => [attempt.operation_id, attempt]));
}

/** The same by references, the names that rails know; the attempts by reference. */
export async function lockByReferences(tx: Tx, references: readonly string[]): Promise<Map<string, Attempt>> {
  const { rows } = await tx.query<Attempt>(
    `${READ_ATTEMPT} where a.reference = any($1::text[]) order by a.operation_id for update of a`,
    [pgTextArray(references)],
  );
  return new Map(rows.map((attempt) => [attempt.reference, attempt]));
}

export async function readAttempt(db: Queryable, operation_id: string): Promise<Attempt | null> {
  const { rows } = await db.query<Attempt>(`${READ_ATTEMPT} where a.operation_id = $1`, [operation_id]);
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
                    next_poll_at = now_of(account, mode) + $5 * interval '1 second'
              where operation_id = $1 and state = 'ready'
             returning lease_no`,
    },
    [attempt.operation_id, rail, connector, LEASE_MS, FIRST_POLL_S],
  );
  return onlyLease(rows);
}

/** Takes an attempt over whose sender is gone: from here on it is unknown, and stays with its rail. */
export async function takeOver(tx: Tx, attempt: Attempt): Promise<bigint> {
  const { rows } = await tx.query<{ lease_no: bigint }>(
    `update attempts
        set state = 'unknown', is_pinned = true, lease_no = lease_no + 1,
            lease_until = clock_timestamp() + $2 * interval '1 millisecond'
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

/** Certainly not sent, and never to be; from `ready` alone, under the row's lock. */
export async function writeWithheld(tx: Tx, operation_id: string, failure_code: FailureCode | null): Promise<void> {
  const { rowCount } = await tx.query(
    `update attempts set state = 'withheld', failure_code = $2, next_poll_at = null
      where operation_id = $1 and state = 'ready'`,
    [operation_id, failure_code],
  );
  if (rowCount !== 1) throw new Error("a locked attempt was not in the state that was just read");
}

function onlyLease(rows: readonly { readonly lease_no: bigint }[]): bigint {
  const lease = rows[0];
  if (lease === undefined) throw new Error("a locked attempt was not in the state that was just read");
  return lease.lease_no;
}
