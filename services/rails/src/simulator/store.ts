// SQL of the simulated operator's books. Every function that reads a charge first lets happen what is due for it, so
// that an answer never lags behind the account's clock.

import type { FailureCode } from "@cauri/money/failure";
import type { Mode } from "@cauri/money/mode";
import { pgNumArray, pgTextArray, pgTimeArray } from "@cauri/store/arrays";
import type { Queryable, Tx } from "@cauri/store/pool";
import { isOutgoing } from "../attempt.ts";
import { dueRows } from "../due.ts";
import { type ChargeNews, nextState, type SimCharge } from "./charge.ts";

/** The lease of a delivery under way: longer than the callback's time-out. */
const DELIVERY_LEASE_S = 10;

export type SimEvent = {
  readonly event_id: string;
  readonly reference: string;
  readonly account: string;
  readonly mode: Mode;
  readonly news: ChargeNews;
  readonly failure_code: FailureCode | null;
  readonly copies: number;
};

export type DueEvent = SimEvent & { readonly tries: number };

type LockedCharge = SimCharge & { readonly is_over: boolean };

const TOKEN = /^[A-Za-z0-9_-]{1,100}$/;
const COLUMNS = `reference, account, mode, rail, amount_minor, currency, scale, state, failure_code, token, payment_url,
                 deep_link, qr, merchant_name, description, return_url, cancel_url, expires_at, kind`;
const LOCK = `select ${COLUMNS}, coalesce(expires_at <= now_of(account, mode), false) as is_over from simulator_charges`;

/** Writes charges down, except those whose reference is taken: an operator takes a reference once. The new ones. */
export async function insertCharges(tx: Tx, charges: readonly SimCharge[]): Promise<Set<string>> {
  const text = (of: (charge: SimCharge) => string | null) => pgTextArray(charges.map(of));
  const { rows } = await tx.query<{ reference: string }>(
    `insert into simulator_charges (${COLUMNS}, created_at, updated_at)
     select n.*, now_of(n.account, n.mode), now_of(n.account, n.mode)
       from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::text[], $7::smallint[], $8::text[],
                   $9::text[], $10::text[], $11::text[], $12::text[], $13::text[], $14::text[], $15::text[], $16::text[],
                   $17::text[], $18::timestamptz[], $19::text[]) as n (${COLUMNS})
      order by n.reference
     on conflict (reference) do nothing returning reference`,
    [
      text(({ reference }) => reference),
      text(({ account }) => account),
      text(({ mode }) => mode),
      text(({ rail }) => rail),
      pgNumArray(charges.map(({ amount_minor }) => amount_minor)),
      text(({ currency }) => currency),
      pgNumArray(charges.map(({ scale }) => scale)),
      text(({ state }) => state),
      text(({ failure_code }) => failure_code),
      text(({ token }) => token),
      text(({ payment_url }) => payment_url),
      text(({ deep_link }) => deep_link),
      text(({ qr }) => qr),
      text(({ merchant_name }) => merchant_name),
      text(({ description }) => description),
      text(({ return_url }) => return_url),
      text(({ cancel_url }) => cancel_url),
      pgTimeArray(charges.map(({ expires_at }) => expires_at)),
      text(({ kind }) => kind),
    ],
  );
  return new Set(rows.map(({ reference }) => reference));
}

export function lockCharge(tx: Tx, reference: string): Promise<SimCharge | null> {
  return lockBy(tx, "reference", reference);
}

/** Whoever opens a page writes its token: what was never one is not asked of the database, which refuses a NUL. */
export async function lockByToken(tx: Tx, token: string): Promise<SimCharge | null> {
  return TOKEN.test(token) ? lockBy(tx, "token", token) : null;
}

/** What the operator does later, `after_ms` from now on the account's clock. */
export type Scheduled = { readonly event: SimEvent; readonly after_ms: number };

export async function scheduleEvents(tx: Tx, scheduled: readonly Scheduled[]): Promise<void> {
  if (scheduled.length === 0) return;
  const text = (of: (event: SimEvent) => string | null) => pgTextArray(scheduled.map(({ event }) => of(event)));
  await tx.query(
    `insert into simulator_events (event_id, reference, account, mode, news, failure_code, copies, due_at)
     select e.event_id, e.reference, e.account, e.mode, e.news, e.failure_code, e.copies,
            now_of(e.account, e.mode) + e.after_ms * interval '1 millisecond'
       from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::smallint[], $8::bigint[])
         as e (event_id, reference, account, mode, news, failure_code, copies, after_ms)`,
    [
      text(({ event_id }) => event_id),
      text(({ reference }) => reference),
      text(({ account }) => account),
      text(({ mode }) => mode),
      text(({ news }) => news),
      text(({ failure_code }) => failure_code),
      pgNumArray(scheduled.map(({ event }) => event.copies)),
      pgNumArray(scheduled.map(({ after_ms }) => after_ms)),
    ],
  );
}

/** Forgets what was scheduled for a charge and hasn't happened: somebody has decided instead. */
export async function dropScheduled(tx: Tx, reference: string): Promise<void> {
  await tx.query("delete from simulator_events where reference = $1 and applied_at is null", [reference]);
}

/** The second call for a charge that was turned down is taken. */
export async function acceptCharge(tx: Tx, charge: SimCharge): Promise<SimCharge> {
  await tx.query(
    `update simulator_charges set state = 'pending', updated_at = now_of(account, mode)
      where reference = $1 and state = 'turned_down'`,
    [charge.reference],
  );
  return { ...charge, state: "pending" };
}

/** Charges that have something due on their account's clock which may be tried now: of one account or of all. */
export async function dueReferences(db: Queryable, account: string | null, limit: number): Promise<string[]> {
  const { rows } = await db.query<{ reference: string }>(
    `select distinct reference from
       (select reference from simulator_events
         where event_id in (${dueRows("simulator_events", "event_id", "due_at", "done_at is null")})
           and try_at <= clock_timestamp()
         order by due_at limit $2) due`,
    [account, limit],
  );
  return rows.map(({ reference }) => reference);
}

/** Something to tell, and the charge that it is about. */
export type Letter = { readonly event: DueEvent; readonly charge: SimCharge };

/**
 * Lets happen what is due for these charges, and takes what is to be told of it with a lease for the telling. Charges
 * that another process holds are left to it; the lock of a charge comes before those of its events, everywhere.
 */
export async function takeLetters(tx: Tx, references: readonly string[]): Promise<Letter[]> {
  if (references.length === 0) return [];
  const { rows: locked } = await tx.query<LockedCharge>(
    `${LOCK} where reference = any($1::text[]) order by reference for update skip locked`,
    [pgTextArray(references)],
  );
  const charges = new Map((await catchUp(tx, locked)).map((charge) => [charge.reference, charge]));
  const { rows: events } = await tx.query<DueEvent>(
    `update simulator_events
        set tries = tries + 1, try_at = clock_timestamp() + $2 * interval '1 second'
      where reference = any($1::text[]) and applied_at is not null and done_at is null and try_at <= clock_timestamp()
     returning event_id, reference, account, mode, news, failure_code, copies, tries`,
    [pgTextArray([...charges.keys()]), DELIVERY_LEASE_S],
  );
  return events.flatMap((event) => {
    const charge = charges.get(event.reference);
    return charge === undefined ? [] : [{ event, charge }];
  });
}

/** Ends deliveries: delivered, or given up. */
export async function endDeliveries(db: Queryable, event_ids: readonly string[]): Promise<void> {
  if (event_ids.length === 0) return;
  await db.query("update simulator_events set done_at = clock_timestamp() where event_id = any($1::text[])", [
    pgTextArray(event_ids),
  ]);
}

/** Sets when failed deliveries are tried again, in real time. */
export async function delayDeliveries(
  db: Queryable,
  delays: readonly { readonly event_id: string; readonly in_s: number }[],
): Promise<void> {
  if (delays.length === 0) return;
  await db.query(
    `update simulator_events e set try_at = clock_timestamp() + d.in_s * interval '1 second'
       from unnest($1::text[], $2::bigint[]) as d (event_id, in_s) where e.event_id = d.event_id`,
    [pgTextArray(delays.map((delay) => delay.event_id)), pgNumArray(delays.map((delay) => delay.in_s))],
  );
}

async function lockBy(tx: Tx, column: "reference" | "token", value: string): Promise<SimCharge | null> {
  const { rows } = await tx.prepared<LockedCharge>(
    { name: `sim_lock_${column}`, text: `${LOCK} where ${column} = $1 for update` },
    [value],
  );
  return (await catchUp(tx, rows))[0] ?? null;
}

/** Applies to locked charges what is due and hasn't happened, in the order of time; at last they run out. */
async function catchUp(tx: Tx, locked: readonly LockedCharge[]): Promise<SimCharge[]> {
  const open = locked.filter((charge) => charge.state !== "success" || isOutgoing(charge.kind));
  if (open.length === 0) return locked.map(({ is_over, ...charge }) => charge);
  const { rows: events } = await tx.prepared<SimEvent>(
    {
      name: "sim_due_of",
      text: `select event_id, reference, account, mode, news, failure_code, copies from simulator_events
              where reference = any($1::text[]) and applied_at is null and due_at <= now_of(account, mode)
              order by due_at, event_id`,
    },
    [pgTextArray(open.map(({ reference }) => reference))],
  );
  const idle = new Set<string>();
  const charges = locked.map(({ is_over, ...charge }) => {
    let now: SimCharge = charge;
    for (const event of events) {
      if (event.reference !== charge.reference) continue;
      const to = nextState(now.state, event.news);
      if (to === null) idle.add(event.event_id);
      else now = { ...now, state: to, failure_code: event.failure_code };
    }
    const run_out = is_over ? (now.state === "pending" ? nextState(now.state, "expire") : null) : null;
    return run_out === null ? now : { ...now, state: run_out };
  });
  const moved = charges.filter((charge, at) => charge.state !== locked[at]?.state);
  await writeCaughtUp(tx, moved, events, idle);
  return charges;
}

/** Writes moved charges and happened events; an event with nothing to tell, or without an arrow, is done. */
async function writeCaughtUp(
  tx: Tx,
  moved: readonly SimCharge[],
  events: readonly SimEvent[],
  idle: ReadonlySet<string>,
): Promise<void> {
  if (moved.length > 0) {
    await tx.prepared(
      {
        name: "sim_moves",
        text: `update simulator_charges c
                  set state = m.state, failure_code = m.failure_code, updated_at = now_of(c.account, c.mode)
                 from unnest($1::text[], $2::text[], $3::text[]) as m (reference, state, failure_code)
                where c.reference = m.reference`,
      },
      [
        pgTextArray(moved.map((charge) => charge.reference)),
        pgTextArray(moved.map((charge) => charge.state)),
        pgTextArray(moved.map((charge) => charge.failure_code)),
      ],
    );
  }
  if (events.length > 0) {
    await tx.prepared(
      {
        name: "sim_happened",
        text: `update simulator_events
                  set applied_at = now_of(account, mode),
                      done_at = case when copies = 0 or event_id = any($2::text[]) then clock_timestamp() end
                where event_id = any($1::text[])`,
      },
      [pgTextArray(events.map((event) => event.event_id)), pgTextArray([...idle])],
    );
  }
}
