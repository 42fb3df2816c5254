// The books as of an instant. By recorded time a balance is one look-up in the key of the entries; by effective time it
// is the last day's sum before the instant, the movements of that day, and whatever the days don't count yet.

import { pgNumArray } from "@cauri/store/arrays";
import type { Queryable } from "@cauri/store/pool";
import type { Balances, Book, TransferKind } from "./books.ts";
import type { NormalSide } from "./chart.ts";

/** By which of its two times a transfer counts. */
export type Basis = "recorded" | "effective";

/** Everything before this instant counts; whole milliseconds. */
export type Before = { readonly before: Date; readonly basis: Basis };

export type FoundAccount = {
  readonly account_id: bigint;
  readonly lane_id: number;
  readonly code: string;
  readonly asset_id: string;
  readonly book: Book;
  readonly normal_side: NormalSide;
  readonly no_overdraft: boolean;
  readonly opened_at: Date;
};

/** A transfer's changes to one account. Instants as PostgreSQL writes them: exact to the microsecond. */
export type Movement = {
  readonly transfer_id: string;
  readonly kind: TransferKind;
  readonly operation_id: string;
  readonly group_id: string;
  readonly counterparty_code: string;
  readonly recorded_at: Date;
  readonly effective_at: Date;
  readonly change: Balances;
  /** The balances after it in the order of recording. */
  readonly after: Balances;
  readonly place: Place;
};

/** Where a movement stands in a list: by the time that counts, then in the order of recording. */
export type Place = { readonly at: string; readonly recorded_at: string; readonly position: number };

const SUMS = ["debits_pending", "debits_posted", "credits_pending", "credits_posted"] as const;

/** `% ` for each of the four sums, separated by commas. */
export function eachSum(text: string): string {
  return SUMS.map((name) => text.replaceAll("%", name)).join(", ");
}

/** The balances now, of the `accounts` with theirs: what a hold set aside until a moment that has passed is free. */
export function presentSql(accounts: string): string {
  const due = (side: string) => `coalesce((select sum(amount) from expiring_holds e
    where e.${side}_id = a.account_id and e.expires_at <= clock_timestamp()), 0)`;
  return `select a.account_id, (a.debits_pending - ${due("debit")})::bigint as debits_pending, a.debits_posted,
      (a.credits_pending - ${due("credit")})::bigint as credits_pending, a.credits_posted
    from ${accounts} a`;
}

/**
 * The balances of the accounts that `source` names, before the instant $2. By effective time $3 is their lane: movements
 * up to its mark are in the sums of their days, later ones are read one by one, wherever in time they belong.
 */
export function pastSql(basis: Basis, source: string): string {
  if (basis === "recorded") {
    return `select n.account_id, ${eachSum("coalesce(last.%, 0) as %")} from ${source} n
      left join lateral (select ${eachSum("e.%")} from entries e
        where e.account_id = n.account_id and e.recorded_at < $2::timestamptz
        order by e.recorded_at desc, e.position desc limit 1) last on true`;
  }
  return `select n.account_id, ${eachSum("(coalesce(base.%, 0) + coalesce(since.%, 0))::bigint as %")}
    from ${source} n
    cross join (select coalesce(max(recorded_at), '-infinity') as upto from day_marks where lane_id = $3) mark
    cross join (select date_trunc('day', $2::timestamptz, 'UTC') as midnight) today
    left join lateral (select ${eachSum("b.%")} from day_balances b
      where b.account_id = n.account_id and b.day < (midnight at time zone 'UTC')::date order by b.day desc limit 1) base on true
    left join lateral (select ${eachSum("sum(m.%) as %")} from (${effectiveSql("m.*", "midnight", "$2::timestamptz")}) m) since on true`;
}

/**
 * Movements of n.account_id with an effective time in a stretch; from the first moment on, for those after the mark. The limit
 * of each look-up of a displaced one keeps it whole: as a join it may be planned by the account alone. Of a page the sorted
 * parts give no more than it can hold, so that a day of an account with millions is not read for each of its pages.
 */
function effectiveSql(columns: string, from: string, to: string, page: Page = WHOLE): string {
  return `(select ${columns} from movements m
      where m.account_id = n.account_id and m.effective_at is null
        and m.recorded_at >= ${from} and m.recorded_at < ${to} and m.recorded_at <= upto
        ${page.of("m.recorded_at", "m")})
    union all
    (select ${columns} from displaced_movements d cross join lateral (select * from movements w
        where w.account_id = d.account_id and w.recorded_at = d.recorded_at and w.position = d.position limit 1) m
      where d.account_id = n.account_id
        and d.effective_at >= ${from} and d.effective_at < ${to} and d.recorded_at <= upto
        ${page.of("d.effective_at", "d")})
    union all
    select ${columns} from movements m
      where m.account_id = n.account_id and m.recorded_at > upto
        and coalesce(m.effective_at, m.recorded_at) >= ${page.tail_from} and coalesce(m.effective_at, m.recorded_at) < ${to}`;
}

type Page = { readonly tail_from: string; of(at: string, alias: string): string };
const WHOLE: Page = { tail_from: "'-infinity'::timestamptz", of: () => "" };
/** $2 is where it begins, $4 how long it is, $5 to $7 the place that it comes after. */
const PAGE: Page = {
  tail_from: "$2::timestamptz",
  of: (at, alias) => `and (${at}, ${alias}.recorded_at, ${alias}.position) > ($5::timestamptz, $6::timestamptz, $7)
        order by ${at}, ${alias}.recorded_at, ${alias}.position limit $4`,
};

/** An open account by its name, or null. */
export async function findAccount(
  tx: Queryable,
  name: { readonly code: string; readonly asset_id: string; readonly book: Book },
): Promise<FoundAccount | null> {
  const { rows } = await tx.query<FoundAccount>(
    `select a.account_id, a.lane_id, a.code, l.asset_id, l.book, a.normal_side, a.no_overdraft, a.opened_at
     from accounts a join lanes l using (lane_id) where l.asset_id = $1 and l.book = $2::book and a.code = $3`,
    [name.asset_id, name.book, name.code],
  );
  return rows[0] ?? null;
}

/** The balances of one account, now (null) or before an instant. */
export async function readBalances(tx: Queryable, account: FoundAccount, when: Before | null): Promise<Balances> {
  const text =
    when === null
      ? presentSql("(select * from balances where account_id = any($1::bigint[]))")
      : pastSql(when.basis, "(select unnest($1::bigint[]) as account_id)");
  const ids = pgNumArray([account.account_id]);
  const { rows } = await tx.query<Balances>(text, when === null ? [ids] : [ids, ...boundOf(when, account.lane_id)]);
  const [row] = rows;
  if (row === undefined) throw new Error("bug: an account without a balance");
  return balancesOf(row);
}

/** The values of $2 and, by effective time, $3. */
export function boundOf({ before, basis }: Before, lane_id: number): unknown[] {
  return basis === "recorded" ? [before.toISOString()] : [before.toISOString(), lane_id];
}

const MOVEMENT = `transfer_id, kind, operation_id, group_id, c.code as counterparty_code, recorded_at, effective_at,
  ${eachSum("m.%")}, ${eachSum("after_%")}, coalesce(effective_at, recorded_at) as effective,
  recorded_at::text as recorded_text, coalesce(effective_at, recorded_at)::text as effective_text, position`;

/** The newest entries before a place, newest first; of months that were taken away none, though some of theirs stay. */
export async function readEntriesBefore(
  tx: Queryable,
  account: FoundAccount,
  place: Place | null,
  limit: number,
  archived_before: Date | null = null,
): Promise<Movement[]> {
  const { rows } = await tx.query<MovementRow>(
    `select ${MOVEMENT} from movements m left join accounts c on c.account_id = m.counterparty_id
     where m.account_id = $1 and (recorded_at, position) < ($2::timestamptz, $3) and recorded_at >= $5::timestamptz
     order by recorded_at desc, position desc limit $4`,
    [
      ...[account.account_id, place?.recorded_at ?? "infinity", place?.position ?? 0, limit],
      archived_before?.toISOString() ?? "-infinity",
    ],
  );
  return rows.map((row) => movementOf(row, "recorded"));
}

export type Stretch = { readonly from: Date; readonly to: Date; readonly basis: Basis };

/** The movements of a stretch after a place, in the order of the time that counts. */
export async function readLines(
  tx: Queryable,
  account: FoundAccount,
  { from, to, basis }: Stretch,
  place: Place | null,
  limit: number,
): Promise<Movement[]> {
  // What stands before the place is skipped by the index as well, not only by the comparison.
  const values = [account.account_id, place?.at ?? from.toISOString(), to.toISOString(), limit];
  const after = [place?.at ?? "-infinity", place?.recorded_at ?? "-infinity", place?.position ?? 0];
  const text =
    basis === "recorded"
      ? `select ${MOVEMENT} from movements m left join accounts c on c.account_id = m.counterparty_id
         where m.account_id = $1 and recorded_at >= $2::timestamptz and recorded_at < $3::timestamptz
           and (recorded_at, recorded_at, position) > ($5::timestamptz, $6::timestamptz, $7)
         order by recorded_at, position limit $4`
      : `with n as (select $1::bigint as account_id, coalesce(max(recorded_at), '-infinity') as upto
           from day_marks where lane_id = $8)
         select ${MOVEMENT} from n
         cross join lateral (${effectiveSql("m.*", "$2::timestamptz", "$3::timestamptz", PAGE)}) m
         left join accounts c on c.account_id = m.counterparty_id
         where (coalesce(effective_at, recorded_at), recorded_at, position) > ($5::timestamptz, $6::timestamptz, $7)
         order by effective, recorded_at, position limit $4`;
  const { rows } = await tx.query<MovementRow>(text, [
    ...values,
    ...after,
    ...(basis === "effective" ? [account.lane_id] : []),
  ]);
  return rows.map((row) => movementOf(row, basis));
}

/** The four sums of a row that has more than these. */
export function balancesOf(row: Balances): Balances {
  const { debits_pending, debits_posted, credits_pending, credits_posted } = row;
  return { debits_pending, debits_posted, credits_pending, credits_posted };
}

type MovementRow = Balances & {
  transfer_id: string;
  kind: TransferKind;
  operation_id: string;
  group_id: string;
  counterparty_code: string | null;
  recorded_at: Date;
  effective: Date;
  after_debits_pending: bigint;
  after_debits_posted: bigint;
  after_credits_pending: bigint;
  after_credits_posted: bigint;
  recorded_text: string;
  effective_text: string;
  position: number;
};

function movementOf(row: MovementRow, basis: Basis): Movement {
  const { transfer_id, kind, operation_id, group_id, recorded_at, recorded_text, effective_text, position } = row;
  return {
    ...{ transfer_id, kind, operation_id, group_id, recorded_at, effective_at: row.effective },
    counterparty_code: row.counterparty_code ?? "",
    change: balancesOf(row),
    after: {
      debits_pending: row.after_debits_pending,
      debits_posted: row.after_debits_posted,
      credits_pending: row.after_credits_pending,
      credits_posted: row.after_credits_posted,
    },
    place: { at: basis === "recorded" ? recorded_text : effective_text, recorded_at: recorded_text, position },
  };
}
