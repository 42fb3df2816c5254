// Payouts in SQL, many at once. Every write of a state names the state and version it came from, or someone else was
// first; what that means is decided by the caller.

import type { FailureCode } from "@cauri/money/failure";
import type { Mode } from "@cauri/money/mode";
import type { OutgoingWord } from "@cauri/money/outgoing";
import type { OperationRef } from "@cauri/money/reference";
import { pgBoolArray, pgNumArray, pgTextArray } from "@cauri/store/arrays";
import { findNamed } from "@cauri/store/find";
import { type ListPage, type ListQuery, listPage } from "@cauri/store/lists";
import { type Pool, type Queryable, snapshot, type Tx } from "@cauri/store/pool";
import type { Payout, PayoutNews, PayoutStatus } from "./payout.ts";

/** What the merchant and the terms decide; the rest of a draft follows. */
export type NewPayout = Omit<
  Payout,
  "status" | "rail" | "failure_code" | "version" | "rail_version" | "created_at" | "updated_at" | "completed_at"
>;

/** A change of state as the table of moves gave it. */
export type Change = {
  readonly to: PayoutStatus;
  /** The world hears of it: the version is raised. */
  readonly told: boolean;
  readonly failure_code: FailureCode | null;
  readonly rail_version: bigint;
  readonly rail: string | null;
};

export type NewsEntry = {
  readonly payout_id: string;
  readonly word: OutgoingWord;
  readonly says: PayoutNews;
  readonly applied: boolean;
};

type Row = Payout & { readonly n: bigint | null; readonly check_at: Date };

/** Drafts are in no list and no read: they take no number yet. They come back in the order in which they were given. */
export async function insertDrafts(tx: Tx, drafts: readonly NewPayout[]): Promise<Payout[]> {
  const { rows } = await tx.query<Row>(
    `insert into payouts (
       id, account, mode, reference, client_ref, status, amount_minor, fee_minor, asset_id, currency, scale, platform_id,
       rails, forced, merchant_name, description, metadata, destination, check_at, created_at, updated_at)
     select d.id, d.account, d.mode, d.reference, d.client_ref, 'draft', d.amount_minor, d.fee_minor, d.asset_id,
            d.currency, d.scale, d.platform_id, d.rails, d.forced, d.merchant_name, d.description, d.metadata,
            d.destination, now_of(d.account, d.mode), now_of(d.account, d.mode), now_of(d.account, d.mode)
       from json_to_recordset($1::json) as d (
         id text, account text, mode text, reference text, client_ref text, amount_minor bigint, fee_minor bigint,
         asset_id text, currency text, scale smallint, platform_id text, rails text[], forced boolean,
         merchant_name text, description text, metadata json, destination json)
     returning *`,
    [JSON.stringify(drafts.map(inJson))],
  );
  const inserted = new Map(rows.map((row) => [row.id, payoutOf(row)]));
  return drafts.map(({ id }) => {
    const payout = inserted.get(id);
    if (payout === undefined) throw new Error("an insert of payouts returned no row");
    return payout;
  });
}

/** A JSON number would not hold every amount of a bigint. */
function inJson({ amount_minor, fee_minor, ...payout }: NewPayout): object {
  return { ...payout, amount_minor: String(amount_minor), fee_minor: String(fee_minor) };
}

/** Drafts whose funds are reserved become visible: each takes its list number and its time. Null: it was no draft. */
export async function showPayouts(tx: Tx, payouts: readonly Payout[], check_in_ms: number): Promise<(Payout | null)[]> {
  const { rows } = await tx.query<Row>(
    `with given as materialized (
       select p.id, p.account, p.mode, row_number() over (order by p.id) as ord
         from payouts p where p.id = any($1::text[]) and p.status = 'draft'),
     taken as (
       select * from number_rows('payout', (select array_agg(account order by ord) from given),
                                           (select array_agg(mode order by ord) from given)))
     update payouts p
        set status = 'initiated', n = t.n, created_at = t.created_at, updated_at = t.created_at,
            check_at = t.created_at + $2 * interval '1 millisecond'
       from given g join taken t on t.ord = g.ord
      where p.id = g.id and p.status = 'draft'
     returning p.*`,
    [pgTextArray(payouts.map(({ id }) => id)), check_in_ms],
  );
  return inOrder(payouts, rows);
}

/**
 * Moves payouts on, each from the state and version in which it was read; where someone else was first its place is null.
 * One payout stands in a batch once.
 */
export async function movePayouts(
  tx: Tx,
  moves: readonly { readonly payout: Payout; readonly change: Change }[],
): Promise<(Payout | null)[]> {
  const text = (of: (move: (typeof moves)[number]) => string | null) => pgTextArray(moves.map(of));
  const { rows } = await tx.query<Row>(
    `update payouts p
        set status = m.status, version = p.version + m.told, failure_code = m.failure_code,
            rail_version = greatest(p.rail_version, m.rail_version), rail = coalesce(m.rail, p.rail),
            updated_at = greatest(p.updated_at, now_of(p.account, p.mode)),
            completed_at = case when m.status in ('initiated', 'pending') then null
                                when m.status = p.status then p.completed_at
                                else coalesce(p.completed_at, greatest(p.updated_at, now_of(p.account, p.mode))) end
       from unnest($1::text[], $2::text[], $3::integer[], $4::text[], $5::integer[], $6::text[], $7::bigint[], $8::text[])
         as m (id, was, version, status, told, failure_code, rail_version, rail)
      where p.id = m.id and p.status = m.was and p.version = m.version
     returning p.*`,
    [
      text(({ payout }) => payout.id),
      text(({ payout }) => payout.status),
      pgNumArray(moves.map(({ payout }) => payout.version)),
      text(({ change }) => change.to),
      pgNumArray(moves.map(({ change }) => (change.told ? 1 : 0))),
      text(({ change }) => change.failure_code),
      pgNumArray(moves.map(({ change }) => change.rail_version)),
      text(({ change }) => change.rail),
    ],
  );
  return inOrder(
    moves.map(({ payout }) => payout),
    rows,
  );
}

/** Refused before anything was created: of the draft nothing stays. */
export async function eraseDraft(tx: Tx, id: string): Promise<void> {
  await tx.query("delete from payouts where id = $1 and status = 'draft'", [id]);
}

/** Keeps what was said, each thing once; what was seen without effect first may still be taken into account later. */
export async function recordNews(tx: Queryable, entries: readonly NewsEntry[]): Promise<void> {
  if (entries.length === 0) return;
  await tx.query(
    `insert into payout_news as h (payout_id, source, rail_version, says, applied, failure_code, paid_minor, paid_currency)
     select * from unnest($1::text[], $2::text[], $3::bigint[], $4::text[], $5::boolean[], $6::text[], $7::bigint[], $8::text[])
     on conflict (payout_id, rail_version, source, says)
       do update set applied = true where excluded.applied and not h.applied`,
    [
      pgTextArray(entries.map(({ payout_id }) => payout_id)),
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

export async function findPayouts(db: Queryable, ids: readonly string[]): Promise<Map<string, Payout>> {
  const { rows } = await db.query<Row>("select * from payouts where id = any($1::text[])", [pgTextArray(ids)]);
  return new Map(rows.map((row) => [row.id, payoutOf(row)]));
}

export async function findPayout(db: Queryable, id: string): Promise<Payout | null> {
  return (await findPayouts(db, [id])).get(id) ?? null;
}

/** Within one account and mode, or (null, for operators) of any account. */
export async function findPayoutBy(
  db: Queryable,
  named: readonly OperationRef[],
  owner: { readonly account: string; readonly mode: Mode } | null,
): Promise<Payout | null> {
  const row = await findNamed<Row>(db, "payouts", named, owner);
  return row === null ? null : payoutOf(row);
}

export async function listPayouts(
  pool: Pool,
  query: Omit<ListQuery, "table" | "kind">,
): Promise<Omit<ListPage<Row>, "rows"> & { readonly rows: Payout[] }> {
  const page = await snapshot(pool, (tx) => listPage<Row>(tx, { ...query, table: "payouts", kind: "payout" }));
  return { ...page, rows: page.rows.map(payoutOf) };
}

/**
 * Pending payouts to be looked after, of one account or of all; each is put off by `again_ms`, so that one process at a
 * time has it and a crash only delays it.
 */
export async function takeDueChecks(
  db: Queryable,
  options: { readonly limit: number; readonly again_ms: number; readonly account?: string },
): Promise<Payout[]> {
  const { rows } = await db.query<Row>(
    `with due as (
       (select id from payouts
         where status = 'pending' and check_at <= statement_timestamp() and ($3::text is null or account = $3)
         order by check_at limit $1)
       union
       (select p.id from clocks c
          join payouts p on p.account = c.account and p.mode = 'test' and p.status = 'pending'
           and p.check_at <= now_of(c.account, 'test')
         where c.offset_ms > 0 and ($3::text is null or c.account = $3)
         limit $1))
     update payouts p set check_at = now_of(p.account, p.mode) + $2 * interval '1 millisecond'
      where p.id in (select q.id from payouts q
                      where q.id in (select id from due) and q.status = 'pending'
                        and q.check_at <= now_of(q.account, q.mode)
                      for update skip locked)
     returning *`,
    [options.limit, options.again_ms, options.account ?? null],
  );
  return rows.map(payoutOf);
}

function inOrder(payouts: readonly Payout[], rows: readonly Row[]): (Payout | null)[] {
  const found = new Map(rows.map((row) => [row.id, payoutOf(row)]));
  return payouts.map(({ id }) => found.get(id) ?? null);
}

function payoutOf({ n: _n, check_at: _check_at, ...payout }: Row): Payout {
  return payout;
}
