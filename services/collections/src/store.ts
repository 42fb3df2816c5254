// Payments in SQL. Every write of a state names the state and version it came from and touches one row, or someone else
// was first; what it means is decided by the caller.

import type { FailureCode } from "@cauri/money/failure";
import type { Mode } from "@cauri/money/mode";
import type { OperationRef } from "@cauri/money/reference";
import { pgBoolArray, pgNumArray, pgTextArray } from "@cauri/store/arrays";
import { clockOf, nowBy } from "@cauri/store/clock";
import { findNamed } from "@cauri/store/find";
import { type ListPage, type ListQuery, listPage } from "@cauri/store/lists";
import { type Pool, type Queryable, snapshot, type Tx } from "@cauri/store/pool";
import { rowsOf } from "@cauri/store/rows";
import {
  type MaskedPayer,
  NO_OFFER,
  type Offer,
  type Payment,
  type PaymentNews,
  type PaymentStatus,
  type RailWord,
} from "./payment.ts";

/** What the merchant and the terms decide; the rest of a new payment follows. */
export type NewPayment = Pick<
  Payment,
  | "id"
  | "account"
  | "mode"
  | "reference"
  | "client_ref"
  | "amount_minor"
  | "fee_minor"
  | "asset_id"
  | "currency"
  | "scale"
  | "platform_id"
  | "rails"
  | "forced"
  | "merchant_name"
  | "description"
  | "return_url"
  | "cancel_url"
  | "metadata"
  | "payer"
> & { readonly expires_in_s: number };

/** A change of state as the table of moves gave it. */
export type Change = {
  readonly to: PaymentStatus;
  /** The world hears of it: the version is raised. */
  readonly told: boolean;
  readonly failure_code: FailureCode | null;
  readonly rail_version: bigint;
  readonly offer: Offer;
};

export type NewsEntry = {
  readonly payment_id: string;
  readonly word: RailWord;
  readonly says: PaymentNews;
  readonly applied: boolean;
};

/** A row as the driver reads it: the payment, and the payer's masks in columns of their own. */
type Row = Omit<Payment, "payer"> & {
  readonly n: bigint;
  readonly check_at: Date;
  readonly has_payer: boolean;
  readonly payer_phone: string | null;
  readonly payer_name: string | null;
  readonly payer_email: string | null;
};

/** What a new row says that its draft did not. */
type First = Pick<Row, "id" | "created_at" | "expires_at">;

/** What a move may have changed, and what refunds may have changed since the payment was read. */
const MOVED = [
  ...["id", "status", "version", "failure_code", "rail_version", "rail", "payment_url", "deep_link", "qr"],
  ...["refunded_minor", "refunding_minor", "updated_at", "completed_at"],
] as const;

/**
 * One statement for all: the list numbers and times are taken from the merchants' heads, which are locked until the
 * commit. The payments come back in the order in which they were given.
 */
export async function insertPayments(tx: Tx, payments: readonly NewPayment[]): Promise<Payment[]> {
  const { rows } = await tx.query<First>(
    `with given as materialized (
       select * from rows from (json_to_recordset($1::json) as (
         id text, account text, mode text, reference text, client_ref text, amount_minor bigint, fee_minor bigint,
         asset_id text, currency text, scale smallint, platform_id text, rails text[], forced boolean, merchant_name text,
         description text, return_url text, cancel_url text, metadata json, has_payer boolean, payer_phone text,
         payer_name text, payer_email text, expires_in_s integer)) with ordinality as g (
         id, account, mode, reference, client_ref, amount_minor, fee_minor, asset_id, currency, scale, platform_id, rails,
         forced, merchant_name, description, return_url, cancel_url, metadata, has_payer, payer_phone, payer_name,
         payer_email, expires_in_s, ord)),
     taken as (
       select * from number_rows('payment', (select array_agg(account order by ord) from given),
                                            (select array_agg(mode order by ord) from given)))
     insert into payments (
       id, account, mode, n, reference, client_ref, status, amount_minor, fee_minor, asset_id, currency, scale,
       platform_id, rails, forced, merchant_name, description, return_url, cancel_url, metadata,
       has_payer, payer_phone, payer_name, payer_email,
       version, expires_at, check_at, created_at, updated_at)
     select g.id, g.account, g.mode, t.n, g.reference, g.client_ref, 'initiated', g.amount_minor, g.fee_minor, g.asset_id,
            g.currency, g.scale, g.platform_id, g.rails, g.forced, g.merchant_name, g.description, g.return_url,
            g.cancel_url, g.metadata, g.has_payer, g.payer_phone, g.payer_name, g.payer_email,
            1, t.created_at + g.expires_in_s * interval '1 second', t.created_at + g.expires_in_s * interval '1 second',
            t.created_at, t.created_at
       from given g join taken t on t.ord = g.ord
     returning id, created_at, expires_at`,
    [JSON.stringify(payments.map(inJson))],
  );
  const inserted = new Map(rows.map((row) => [row.id, row]));
  return payments.map((payment) => {
    const first = inserted.get(payment.id);
    if (first === undefined) throw new Error("an insert of payments returned no row");
    return firstState(payment, first);
  });
}

/** The row as it was written: sending all of its columns back would tell what is known. */
function firstState({ expires_in_s: _, ...draft }: NewPayment, { created_at, expires_at }: First): Payment {
  return {
    ...draft,
    status: "initiated",
    ...NO_OFFER,
    failure_code: null,
    refunded_minor: 0n,
    refunding_minor: 0n,
    payment_link_id: null,
    subscription_id: null,
    version: 1,
    rail_version: 0n,
    expires_at,
    created_at,
    updated_at: created_at,
    completed_at: null,
  };
}

/** As `insertPayments` reads it: a JSON number would not hold every amount of a bigint. */
function inJson({ payer, amount_minor, fee_minor, ...payment }: NewPayment): object {
  return {
    ...payment,
    amount_minor: String(amount_minor),
    fee_minor: String(fee_minor),
    has_payer: payer !== null,
    payer_phone: payer?.phone ?? null,
    payer_name: payer?.name ?? null,
    payer_email: payer?.email ?? null,
  };
}

/**
 * Moves payments on, each from the state and version in which it was read; where someone else was first its place is
 * null. One payment stands in a batch once.
 */
export async function movePayments(
  tx: Tx,
  moves: readonly { readonly payment: Payment; readonly change: Change }[],
): Promise<(Payment | null)[]> {
  const text = (of: (move: (typeof moves)[number]) => string | null) => pgTextArray(moves.map(of));
  const { rows } = await tx.query<Pick<Row, (typeof MOVED)[number]>>(
    `update payments p
        set status = m.status, version = p.version + m.told, failure_code = m.failure_code,
            rail_version = greatest(p.rail_version, m.rail_version),
            rail = coalesce(m.rail, p.rail), payment_url = coalesce(m.payment_url, p.payment_url),
            deep_link = coalesce(m.deep_link, p.deep_link), qr = coalesce(m.qr, p.qr),
            updated_at = greatest(p.updated_at, ${nowBy("c")}),
            completed_at = case when m.status in ('initiated', 'pending') then null
                                when m.status = p.status then p.completed_at
                                else greatest(p.updated_at, ${nowBy("c")}) end
       from ${rowsOf(`id text, was text, version integer, status text, told integer, failure_code text,
                      rail_version bigint, rail text, payment_url text, deep_link text, qr text, clock text`)} as m
       left join clocks c on c.account = m.clock
      where p.id = m.id and p.status = m.was and p.version = m.version
     returning ${MOVED.map((column) => `p.${column}`).join(", ")}`,
    [
      text(({ payment }) => payment.id),
      text(({ payment }) => payment.status),
      pgNumArray(moves.map(({ payment }) => payment.version)),
      text(({ change }) => change.to),
      pgNumArray(moves.map(({ change }) => (change.told ? 1 : 0))),
      text(({ change }) => change.failure_code),
      pgNumArray(moves.map(({ change }) => change.rail_version)),
      text(({ change }) => change.offer.rail),
      text(({ change }) => change.offer.payment_url),
      text(({ change }) => change.offer.deep_link),
      text(({ change }) => change.offer.qr),
      text(({ payment }) => clockOf(payment)),
    ],
  );
  const moved = new Map(rows.map((row) => [row.id, row]));
  return moves.map(({ payment }) => {
    const row = moved.get(payment.id);
    return row === undefined ? null : { ...payment, ...row };
  });
}

/** Payments in the order of their ids, locked: how much of one may be refunded is decided by one transaction at a time. */
export async function lockPayments(tx: Tx, ids: readonly string[]): Promise<Map<string, Payment>> {
  const { rows } = await tx.query<Row>(
    "select * from payments where id = any($1::text[]) order by id for no key update",
    [pgTextArray(ids)],
  );
  return new Map(rows.map((row) => [row.id, paymentOf(row)]));
}

/** What changes in what refunds have reserved of a payment, and in what they have given back. */
export type RefundCount = { readonly payment_id: string; readonly reserved: bigint; readonly given_back: bigint };

/** Counts what refunds did to their payments; those of which nothing is left, now `refunded`, come back. */
export async function countRefunds(tx: Tx, counts: readonly RefundCount[]): Promise<Payment[]> {
  if (counts.length === 0) return [];
  await lockPayments(
    tx,
    counts.map(({ payment_id }) => payment_id),
  );
  const { rows } = await tx.query<Row>(
    `update payments p
        set refunding_minor = p.refunding_minor + c.reserved, refunded_minor = p.refunded_minor + c.given_back,
            status = case when p.refunded_minor + c.given_back = p.amount_minor then 'refunded' else p.status end,
            version = p.version + (p.refunded_minor + c.given_back = p.amount_minor)::integer,
            updated_at = case when c.given_back = 0 then p.updated_at
                              else greatest(p.updated_at, now_of(p.account, p.mode)) end
       from (select id, sum(reserved)::bigint as reserved, sum(given_back)::bigint as given_back
               from unnest($1::text[], $2::bigint[], $3::bigint[]) as u (id, reserved, given_back) group by id) c
      where p.id = c.id
     returning p.*`,
    [
      pgTextArray(counts.map(({ payment_id }) => payment_id)),
      pgNumArray(counts.map(({ reserved }) => reserved)),
      pgNumArray(counts.map(({ given_back }) => given_back)),
    ],
  );
  return rows.filter(({ status }) => status === "refunded").map(paymentOf);
}

/** What the rail gave to charge the payer with, when its news came before its answer. */
export async function recordOffer(tx: Tx, payment_id: string, offer: Offer): Promise<Payment | null> {
  const { rows } = await tx.query<Row>(
    `update payments
        set rail = coalesce(rail, $2), payment_url = coalesce(payment_url, $3),
            deep_link = coalesce(deep_link, $4), qr = coalesce(qr, $5)
      where id = $1
     returning *`,
    [payment_id, offer.rail, offer.payment_url, offer.deep_link, offer.qr],
  );
  return rows[0] === undefined ? null : paymentOf(rows[0]);
}

/** Keeps what was said, each thing once; what was seen without effect first may still be taken into account later. */
export async function recordNews(tx: Queryable, entries: readonly NewsEntry[]): Promise<void> {
  if (entries.length === 0) return;
  await tx.query(
    `insert into payment_news as h (payment_id, source, rail_version, says, applied, failure_code, paid_minor, paid_currency)
     select payment_id, source, rail_version, says, applied, failure_code, paid_minor, paid_currency
       from ${rowsOf(`payment_id text, source text, rail_version bigint, says text, applied boolean, failure_code text,
                      paid_minor bigint, paid_currency text`)} as e
     on conflict (payment_id, rail_version, source, says)
       do update set applied = true where excluded.applied and not h.applied`,
    [
      pgTextArray(entries.map(({ payment_id }) => payment_id)),
      pgTextArray(entries.map(({ word }) => word.source)),
      pgNumArray(entries.map(({ word }) => word.version)),
      pgTextArray(entries.map(({ says }) => says)),
      pgBoolArray(entries.map(({ applied }) => applied)),
      pgTextArray(entries.map(({ word }) => word.failure_code)),
      pgNumArray(entries.map(({ word }) => word.paid_minor)),
      pgTextArray(entries.map(({ word }) => word.paid_currency)),
    ],
  );
}

export async function findPayments(db: Queryable, ids: readonly string[]): Promise<Map<string, Payment>> {
  const { rows } = await db.query<Row>("select * from payments where id = any($1::text[])", [pgTextArray(ids)]);
  return new Map(rows.map((row) => [row.id, paymentOf(row)]));
}

export async function findPayment(db: Queryable, id: string): Promise<Payment | null> {
  return (await findPayments(db, [id])).get(id) ?? null;
}

/** Within one account and mode, or (null, for operators) of any account. */
export async function findPaymentBy(
  db: Queryable,
  named: readonly OperationRef[],
  owner: { readonly account: string; readonly mode: Mode } | null,
): Promise<Payment | null> {
  const row = await findNamed<Row>(db, "payments", named, owner);
  return row === null ? null : paymentOf(row);
}

export async function listPayments(
  pool: Pool,
  query: Omit<ListQuery, "table" | "kind">,
): Promise<ListPage<Row> & { readonly payments: Payment[] }> {
  const page = await snapshot(pool, (tx) => listPage<Row>(tx, { ...query, table: "payments", kind: "payment" }));
  return { ...page, payments: page.rows.map(paymentOf) };
}

/** Lets a payment be looked after so soon: nobody knows whether its call reached the rail. */
export async function checkWithin(db: Queryable, payment_id: string, ms: number): Promise<void> {
  await db.query(
    `update payments p set check_at = least(p.check_at, now_of(p.account, p.mode) + $2 * interval '1 millisecond')
      where p.id = $1`,
    [payment_id, ms],
  );
}

/** The rail has it after all: what it gave to charge the payer with is kept, and the next look is at its expiry. */
export async function awaitExpiry(db: Queryable, payment_id: string, offer: Offer): Promise<void> {
  await db.query(
    `update payments
        set check_at = expires_at, rail = coalesce(rail, $2), payment_url = coalesce(payment_url, $3),
            deep_link = coalesce(deep_link, $4), qr = coalesce(qr, $5)
      where id = $1 and status = 'pending' and check_at < expires_at`,
    [payment_id, offer.rail, offer.payment_url, offer.deep_link, offer.qr],
  );
}

/**
 * Payments that are to be looked at, of one account or of all: at their expiry, or before it where their outcome is not
 * known. Each is put off by `again_ms`, before its expiry by `look_again_ms` or a quarter of the time since it changed, so
 * that one sweeper at a time has it and a crash only delays it. Offsets are never negative: what is due by real time is due
 * anyway, the rest belongs to the accounts that moved their test clock.
 */
export async function takeDueChecks(
  tx: Queryable,
  options: {
    readonly limit: number;
    readonly again_ms: number;
    readonly look_again_ms: number;
    readonly account?: string;
  },
): Promise<Payment[]> {
  const { rows } = await tx.query<Row>(
    `with due as (
       (select id from payments
         where status = 'pending' and check_at <= statement_timestamp() and ($3::text is null or account = $3)
         order by check_at limit $1)
       union
       (select p.id
          from clocks c
          join payments p on p.account = c.account and p.mode = 'test' and p.status = 'pending'
           and p.check_at <= now_of(c.account, 'test')
         where c.offset_ms > 0 and ($3::text is null or c.account = $3)
         limit $1))
     update payments p
        set check_at = now_of(p.account, p.mode) + interval '1 millisecond'
              * case when p.expires_at <= now_of(p.account, p.mode) then $2::float8
                     else greatest($4::float8, 250 * extract(epoch from now_of(p.account, p.mode) - p.updated_at)) end
      where p.id in (select q.id from payments q
                      where q.id in (select id from due) and q.status = 'pending'
                        and q.check_at <= now_of(q.account, q.mode)
                      for update skip locked)
     returning *`,
    [options.limit, options.again_ms, options.account ?? null, options.look_again_ms],
  );
  return rows.map(paymentOf);
}

function paymentOf(row: Row): Payment {
  const { n: _n, check_at: _check_at, has_payer, payer_phone, payer_name, payer_email, ...payment } = row;
  const payer: MaskedPayer | null = has_payer ? { phone: payer_phone, name: payer_name, email: payer_email } : null;
  return { ...payment, payer };
}
