// SQL of news: what rails said of attempts, written into the attempts that it changed and into the history of all that was said.

import type { FailureCode } from "@cauri/money/failure";
import { pgNumArray, pgTextArray, pgTimeArray } from "@cauri/store/arrays";
import { clockOf, nowBy } from "@cauri/store/clock";
import { type Pool, single, type Tx } from "@cauri/store/pool";
import { rowsOf } from "@cauri/store/rows";
import type { AttemptState, Handoff, NewsSource, RailAnswer } from "./attempt.ts";
import type { Attempt } from "./attempt-store.ts";

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

export type Changed = { readonly attempt: Attempt; readonly changes: Changes };

/**
 * Writes what news made of attempts that are still as they were read. What the rail gave to pay with is kept from whichever
 * answer had it. A first answer leaves the time of the first question: so no index is touched.
 */
const WRITE_NEWS = `
  update attempts a
     set state = m.state, version = m.version, payment_url = coalesce(m.payment_url, a.payment_url),
         deep_link = coalesce(m.deep_link, a.deep_link), qr = coalesce(m.qr, a.qr), failure_code = m.failure_code,
         rail_amount_minor = m.rail_amount_minor, rail_currency = m.rail_currency,
         odd_amount_minor = m.odd_amount_minor, odd_currency = m.odd_currency,
         next_poll_at = case when a.state = 'sending' and m.state = 'pending' then a.next_poll_at
                             else ${nowBy("k")} + m.poll_in_s * interval '1 second' end,
         polls = case when a.state = m.state then a.polls else 0 end,
         is_pinned = a.is_pinned or m.state = 'unknown',
         lease_until = case when a.lease_no = m.ends_lease then null else a.lease_until end
    from ${rowsOf(`operation_id text, state text, version bigint, payment_url text, deep_link text, qr text,
                    failure_code text, rail_amount_minor bigint, rail_currency text, odd_amount_minor bigint,
                    odd_currency text, poll_in_s bigint, ends_lease bigint, old_state text, old_version bigint,
                    lease_no bigint, clock text`)} as m
         left join clocks k on k.account = m.clock
   where a.operation_id = m.operation_id and a.state = m.old_state and a.version = m.old_version and a.lease_no = m.lease_no`;

function writeNewsValues(news: readonly Changed[]): string[] {
  const text = (of: (changed: Changed) => string | null) => pgTextArray(news.map(of));
  const number = (of: (changed: Changed) => bigint | number | null) => pgNumArray(news.map(of));
  return [
    text(({ attempt }) => attempt.operation_id),
    text(({ changes }) => changes.state),
    number(({ changes }) => changes.version),
    text(({ changes }) => changes.handoff.payment_url ?? null),
    text(({ changes }) => changes.handoff.deep_link ?? null),
    text(({ changes }) => changes.handoff.qr ?? null),
    text(({ changes }) => changes.failure_code),
    number(({ changes }) => changes.rail_amount_minor),
    text(({ changes }) => changes.rail_currency),
    number(({ changes }) => changes.odd_amount_minor),
    text(({ changes }) => changes.odd_currency),
    number(({ changes }) => changes.poll_in_s),
    number(({ changes }) => changes.ends_lease),
    text(({ attempt }) => attempt.state),
    number(({ attempt }) => attempt.version),
    number(({ attempt }) => attempt.lease_no),
    text(({ attempt }) => clockOf(attempt)),
  ];
}

/** Writes what news made of locked attempts. */
export async function writeNews(tx: Tx, news: readonly Changed[]): Promise<void> {
  if (news.length > 0) await tx.query(WRITE_NEWS, writeNewsValues(news));
}

/**
 * Writes the rail's first answer, "accepted", into attempts as their sender wrote them, together with their history; answers
 * which were still so. Another one has been met by a callback or a take-over, and is to be looked at under its lock.
 */
export async function writeAccepted(pool: Pool, news: readonly Changed[]): Promise<Set<string>> {
  const { rows } = await single<{ operation_id: string }>(
    pool,
    `with moved as (${WRITE_NEWS} returning a.operation_id, a.rail, m.old_state, m.state, ${nowBy("k")} as now)
     insert into attempt_history (operation_id, source, rail, outcome, from_state, to_state, happened_at)
     select m.operation_id, 'call', m.rail, 'pending', m.old_state, m.state, m.now from moved m
     returning operation_id`,
    writeNewsValues(news),
  );
  return new Set(rows.map(({ operation_id }) => operation_id));
}

export type HistoryEntry = {
  readonly attempt: Attempt;
  readonly said: { readonly source: NewsSource; readonly answer: RailAnswer };
  /** Null: it moved nothing. */
  readonly to_state: AttemptState | null;
};

/** Keeps what rails said, whether it moved anything or not. */
export async function keepHistory(tx: Tx, entries: readonly HistoryEntry[]): Promise<void> {
  if (entries.length === 0) return;
  const text = (of: (entry: HistoryEntry) => string | null) => pgTextArray(entries.map(of));
  const paid = entries.map(({ said: { answer } }) => (answer.outcome === "success" ? answer : null));
  await tx.query(
    `insert into attempt_history (operation_id, source, rail, outcome, failure_code, rail_amount_minor,
                                  rail_currency, from_state, to_state, happened_at)
     select h.operation_id, h.source, h.rail, h.outcome, h.failure_code, h.rail_amount_minor, h.rail_currency, h.from_state,
            h.to_state, h.happened_at
       from ${rowsOf(`operation_id text, source text, rail text, outcome text, failure_code text, rail_amount_minor bigint,
                       rail_currency text, from_state text, to_state text, happened_at timestamptz`)} as h
      order by h.ord`,
    [
      text(({ attempt }) => attempt.operation_id),
      text(({ said }) => said.source),
      text(({ attempt }) => attempt.rail),
      text(({ said }) => said.answer.outcome),
      text(({ said: { answer } }) => (answer.outcome === "failed" ? answer.failure_code : null)),
      pgNumArray(paid.map((answer) => answer?.amount_minor ?? null)),
      pgTextArray(paid.map((answer) => answer?.currency ?? null)),
      text(({ attempt }) => attempt.state),
      text(({ to_state }) => to_state),
      pgTimeArray(entries.map(({ attempt }) => attempt.now)),
    ],
  );
}
