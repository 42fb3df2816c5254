// Payments in SQL. Every write of a state names the state and version it came from and touches one row, or someone else
// was first; what it means is decided by the caller.

import type { FailureCode } from "@cauri/money/failure";
import type { Mode } from "@cauri/money/mode";
import type { OperationRef } from "@cauri/money/reference";
import { pgBoolArray, pgNumArray, pgTextArray } from "@cauri/store/arrays";
import { type ListPage, type ListQuery, listPage } from "@cauri/store/lists";
import { type Pool, type Queryable, snapshot, type Tx } from "@cauri/store/pool";
import type { MaskedPayer, Offer, Payment, PaymentNews, PaymentStatus, RailWord } from "./payment.ts";

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

/** One statement: the list number and created_at are taken from the merchant's head, which is locked until the commit. */
export async function insertPayment(tx: Tx, payment: NewPayment): Promise<Payment> {
  const { payer } = payment;
  const { rows } = await tx.query<Row>(
    `insert into payments (
       id, account, mode, n, reference, client_ref, status, amount_minor, fee_minor, asset_id, currency, scale,
       platform_id, rails, forced, merchant_name, description, return_url, cancel_url, metadata,
       has_payer, payer_phone, payer_name, payer_email,
       version, expires_at, check_at, created_at, updated_at)
     select $1, $2, $3, taken.n, $4, $5, 'initiated', $6::bigint, $7::bigint, $8, $9, $10::smallint,
            $11, $12::text[], $13::boolean, $14, $15, $16, $17, $18::json,
            $19::boolean, $20, $21, $22,
            1, taken.expires_at, taken.expires_at, taken.created_at, taken.created_at
       from (select n, created_at, created_at + $23::integer * interval '1 second' as expires_at
               from number_rows('payment', array[$2::text], array[$3::text])) taken
     returning *`,
    [
      payment.id,
      payment.account,
      payment.mode,
      payment.reference,
      payment.client_ref,
      payment.amount_minor,
      payment.fee_minor,
      payment.asset_id,
      payment.currency,
      payment.scale,
      payment.platform_id,
      pgTextArray(payment.rails),
      payment.forced,
      payment.merchant_name,
      payment.description,
      payment.return_url,
      payment.cancel_url,
      payment.metadata === null ? null : JSON.stringify(payment.metadata),
      payer !== null,
      payer?.phone ?? null,
      payer?.name ?? null,
      payer?.email ?? null,
      payment.expires_in_s,
    ],
  );
  const row = rows[0];
  if (row === undefined) throw new Error("an insert of a payment returned no row");
  return paymentOf(row);
}

/** Moves a payment on from the state and version in which it was read; null: someone else was first. */
export async function movePayment(tx: Tx, payment: Payment, change: Change): Promise<Payment | null> {
  const { offer } = change;
  const { rows } = await tx.query<Row>(
    `update payments
        set status = $4, version = version + $5, failure_code = $6,
            rail_version = greatest(rail_version, $7),
            rail = coalesce($8, rail), payment_url = coalesce($9, payment_url),
            deep_link = coalesce($10, deep_link), qr = coalesce($11, qr),
            updated_at = greatest(updated_at, now_of(account, mode)),
            completed_at = case when $4 in ('initiated', 'pending') then null
                                when $4 = status then completed_at
                                else greatest(updated_at, now_of(account, mode)) end
      where id = $1 and status = $2 and version = $3
     returning *`,
    [
      payment.id,
      payment.status,
      payment.version,
      change.to,
      change.told ? 1 : 0,
      change.failure_code,
      change.rail_version,
      offer.rail,
      offer.payment_url,
      offer.deep_link,
      offer.qr,
    ],
  );
  return rows[0] === undefined ? null : paymentOf(rows[0]);
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
     select * from unnest($1::text[], $2::text[], $3::bigint[], $4::text[], $5::boolean[], $6::text[], $7::bigint[], $8::text[])
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

/** Within one account and mode: anyone else's is as if unknown. */
export async function findOwned(
  db: Queryable,
  account: string,
  mode: Mode,
  named: readonly OperationRef[],
): Promise<Payment | null> {
  for (const { by, value } of named) {
    const { rows } = await db.query<Row>(
      `select * from payments where ${COLUMNS[by]} = $3 and account = $1 and mode = $2`,
      [account, mode, value],
    );
    if (rows[0] !== undefined) return paymentOf(rows[0]);
  }
  return null;
}

/** For operators: by id or reference, of any account. */
export async function findAnywhere(db: Queryable, named: readonly OperationRef[]): Promise<Payment | null> {
  for (const { by, value } of named) {
    if (by === "client_ref") continue;
    const { rows } = await db.query<Row>(`select * from payments where ${COLUMNS[by]} = $1`, [value]);
    if (rows[0] !== undefined) return paymentOf(rows[0]);
  }
  return null;
}

export async function listPayments(
  pool: Pool,
  query: Omit<ListQuery, "table" | "kind">,
): Promise<ListPage<Row> & { readonly payments: Payment[] }> {
  const page = await snapshot(pool, (tx) => listPage<Row>(tx, { ...query, table: "payments", kind: "payment" }));
  return { ...page, payments: page.rows.map(paymentOf) };
}

/**
 * Payments whose expiry is to be looked at, of one account or of all; each is put off by `again_ms`, so that one sweeper
 * at a time has it and a crash only delays it. Offsets are never negative: what is due by real time is due anyway, the
 * rest belongs to the accounts that moved their test clock.
 */
export async function takeDueChecks(
  tx: Queryable,
  options: { readonly limit: number; readonly again_ms: number; readonly account?: string },
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
        set check_at = now_of(p.account, p.mode) + $2 * interval '1 millisecond'
      where p.id in (select q.id from payments q
                      where q.id in (select id from due) and q.status = 'pending'
                        and q.check_at <= now_of(q.account, q.mode)
                      for update skip locked)
     returning *`,
    [options.limit, options.again_ms, options.account ?? null],
  );
  return rows.map(paymentOf);
}

const COLUMNS = { id: "id", reference: "reference", client_ref: "client_ref" } as const;

function paymentOf(row: Row): Payment {
  const { n: _n, check_at: _check_at, has_payer, payer_phone, payer_name, payer_email, ...payment } = row;
  const payer: MaskedPayer | null = has_payer ? { phone: payer_phone, name: payer_name, email: payer_email } : null;
  return { ...payment, payer };
}
