// SQL of the simulated operator's books, one row per charge. What is scheduled counts from its due time on, whoever reads
// the row, so that an answer never lags behind the account's clock and nobody has to write what merely happened.

import { pgNumArray, pgTextArray, pgTimeArray } from "@cauri/store/arrays";
import { nowBy } from "@cauri/store/clock";
import { type Pool, type Queryable, single, type Tx } from "@cauri/store/pool";
import { rowsOf } from "@cauri/store/rows";
import { dueRows } from "../due.ts";
import { type Booked, type ChargeNews, type ChargeState, type Plan, type SimCharge, standing } from "./charge.ts";

/** The lease of a delivery under way: longer than the callback's time-out. */
const DELIVERY_LEASE_S = 10;

const TOKEN = /^[A-Za-z0-9_-]{1,100}$/;
const COLUMNS = `reference, account, mode, rail, amount_minor, currency, scale, state, failure_code, token, payment_url,
                 deep_link, qr, merchant_name, description, return_url, cancel_url, expires_at, kind`;
/** The columns of a charge and what follows, as they are given to be written. */
const GIVEN = rowsOf(
  `reference text, account text, mode text, rail text, amount_minor bigint, currency text, scale smallint, state text,
   failure_code text, token text, payment_url text, deep_link text, qr text, merchant_name text, description text,
   return_url text, cancel_url text, expires_at timestamptz, kind text, news text, becomes text, copies smallint,
   after_ms bigint, return_after_ms bigint, tries integer`,
);
const READ = `select ${columnsOf("c")}, c.becomes, coalesce(c.due_at <= ${nowBy("k")}, false) as is_due,
                     coalesce(c.expires_at <= ${nowBy("k")}, false) as is_over
                from simulator_charges c left join clocks k on k.account = c.account and c.mode = 'test'`;

function columnsOf(row: string): string {
  return COLUMNS.replace(/\w+/g, `${row}.$&`);
}

/** A charge, and what happens to it later; null: nothing by itself. */
export type Booking = { readonly charge: SimCharge; readonly plan: Plan | null };

/**
 * Writes charges down, each with what follows, and answers which are new: an operator takes a reference once. One that was
 * turned down counts as new when it is taken. A reference stands here once.
 */
export async function writeCharges(pool: Pool, bookings: readonly Booking[]): Promise<Set<string>> {
  const text = (of: (booking: Booking) => string | null) => pgTextArray(bookings.map(of));
  const number = (of: (booking: Booking) => bigint | number | null) => pgNumArray(bookings.map(of));
  const { rows } = await single<{ reference: string }>(
    pool,
    `insert into simulator_charges as c (${COLUMNS}, created_at, news, becomes, copies, due_at, tell_at, return_at, tries, try_at)
     select ${columnsOf("n")}, n.now, n.news, n.becomes, n.copies, n.now + n.after,
            case when n.copies > 0 then n.now + n.after end, n.now + n.return_after, n.tries,
            clock_timestamp() + n.tries * $26 * interval '1 second'
       from (select u.*, u.after_ms * interval '1 millisecond' as after,
                    u.return_after_ms * interval '1 millisecond' as return_after, ${nowBy("k")} as now
               from ${GIVEN} as u
               left join clocks k on k.account = u.account and u.mode = 'test') n
      order by n.reference
     on conflict (reference) do update
        set state = excluded.state, news = excluded.news, becomes = excluded.becomes, copies = excluded.copies,
            due_at = excluded.due_at, tell_at = excluded.tell_at, return_at = excluded.return_at, tries = excluded.tries,
            try_at = excluded.try_at
      where c.state = 'turned_down' and excluded.state <> 'turned_down'
     returning reference`,
    [
      text(({ charge }) => charge.reference),
      text(({ charge }) => charge.account),
      text(({ charge }) => charge.mode),
      text(({ charge }) => charge.rail),
      number(({ charge }) => charge.amount_minor),
      text(({ charge }) => charge.currency),
      number(({ charge }) => charge.scale),
      text(({ charge }) => charge.state),
      text(({ charge }) => charge.failure_code),
      text(({ charge }) => charge.token),
      text(({ charge }) => charge.payment_url),
      text(({ charge }) => charge.deep_link),
      text(({ charge }) => charge.qr),
      text(({ charge }) => charge.merchant_name),
      text(({ charge }) => charge.description),
      text(({ charge }) => charge.return_url),
      text(({ charge }) => charge.cancel_url),
      pgTimeArray(bookings.map(({ charge }) => charge.expires_at)),
      text(({ charge }) => charge.kind),
      text(({ plan }) => plan?.news ?? null),
      text(({ plan }) => plan?.becomes ?? null),
      number(({ plan }) => plan?.copies ?? 0),
      number(({ plan }) => plan?.after_ms ?? null),
      number(({ plan }) => plan?.return_after_ms ?? null),
      number(({ plan }) => (plan?.is_taken === true ? 1 : 0)),
      DELIVERY_LEASE_S,
    ],
  );
  return new Set(rows.map(({ reference }) => reference));
}

export async function readCharge(db: Queryable, reference: string): Promise<SimCharge | null> {
  const { rows } = await db.query<Booked>(`${READ} where c.reference = $1`, [reference]);
  return rows.map(standing)[0] ?? null;
}

/** Whoever opens a page writes its token: what was never one is not asked of the database, which refuses a NUL. */
export async function readByToken(db: Queryable, token: string): Promise<SimCharge | null> {
  if (!TOKEN.test(token)) return null;
  const { rows } = await db.query<Booked>(`${READ} where c.token = $1`, [token]);
  return rows.map(standing)[0] ?? null;
}

export async function lockCharge(tx: Tx, reference: string): Promise<SimCharge | null> {
  const { rows } = await tx.query<Booked>(`${READ} where c.reference = $1 for update of c`, [reference]);
  return rows.map(standing)[0] ?? null;
}

/** What somebody decided happens at once and takes the place of what was scheduled; whoever writes it tells it. */
export async function writeDecided(tx: Tx, charge: SimCharge, news: ChargeNews): Promise<void> {
  await tx.query(
    `update simulator_charges c
        set state = $2, failure_code = $3, news = $4, becomes = null, due_at = null, return_at = null, copies = 1,
            tell_at = now_of(c.account, c.mode), tries = 1, try_at = clock_timestamp() + $5 * interval '1 second'
      where c.reference = $1`,
    [charge.reference, charge.state, charge.failure_code, news, DELIVERY_LEASE_S],
  );
}

/** Something to tell of a charge. */
export type Letter = Pick<SimCharge, "reference" | "amount_minor" | "currency" | "failure_code"> & {
  readonly news: ChargeNews;
  readonly copies: number;
  readonly tries: number;
  /** Once this is told, the money comes back. */
  readonly comes_back: boolean;
};

const UNTOLD = "r.tell_at is not null and r.try_at <= statement_timestamp()";

/** Takes what is due to be told on its account's clock, of one account or of all, with a lease for the telling. */
export async function takeLetters(pool: Pool, account: string | null, limit: number): Promise<Letter[]> {
  const { rows } = await single<Letter>(
    pool,
    `update simulator_charges c
        set tries = c.tries + 1, try_at = clock_timestamp() + $3 * interval '1 second'
      where c.reference = any (array (
              select s.reference from simulator_charges s left join clocks k on k.account = s.account and s.mode = 'test'
               where s.reference = any (array (${dueRows("simulator_charges", "reference", "tell_at", UNTOLD)}))
                 and s.tell_at <= ${nowBy("k")} and s.try_at <= statement_timestamp()
               order by s.tell_at limit $2 for update of s skip locked))
     returning c.reference, c.amount_minor, c.currency, c.failure_code, c.news, c.copies, c.tries,
               c.return_at is not null as comes_back`,
    [account, limit, DELIVERY_LEASE_S],
  );
  return rows;
}

/** Ends deliveries: delivered, or given up. What somebody decided meanwhile is told by him. */
export async function endLetters(pool: Pool, letters: readonly Letter[]): Promise<void> {
  if (letters.length === 0) return;
  await single(
    pool,
    `update simulator_charges c set tell_at = null
       from ${rowsOf("reference text, news text")} as t where c.reference = t.reference and c.news = t.news`,
    [pgTextArray(letters.map(({ reference }) => reference)), pgTextArray(letters.map(({ news }) => news))],
  );
}

/** The same for payouts that come back: their success is told, the return is what they wait for now. */
export async function awaitReturns(pool: Pool, letters: readonly Letter[]): Promise<void> {
  if (letters.length === 0) return;
  const returned: ChargeState = "returned";
  await single(
    pool,
    `update simulator_charges c
        set state = coalesce(c.becomes, c.state), news = 'return', becomes = $2, due_at = c.return_at, tell_at = c.return_at,
            return_at = null, tries = 0, try_at = clock_timestamp()
      where c.reference = any($1::text[]) and c.return_at is not null`,
    [pgTextArray(letters.map(({ reference }) => reference)), returned],
  );
}

/** Sets when failed deliveries are tried again, in real time. */
export async function delayLetters(
  pool: Pool,
  delays: readonly { readonly letter: Letter; readonly in_s: number }[],
): Promise<void> {
  if (delays.length === 0) return;
  await single(
    pool,
    `update simulator_charges c set try_at = clock_timestamp() + d.in_s * interval '1 second'
       from ${rowsOf("reference text, news text, in_s bigint")} as d
      where c.reference = d.reference and c.news = d.news`,
    [
      pgTextArray(delays.map(({ letter }) => letter.reference)),
      pgTextArray(delays.map(({ letter }) => letter.news)),
      pgNumArray(delays.map(({ in_s }) => in_s)),
    ],
  );
}
