// Operations that send money out, in SQL, many at once: the table `<noun>s` and its history `<noun>_news`. Every write of
// a state names the state and version it came from, or someone else was first; what that means the caller decides.

import type { FailureCode } from "@cauri/money/failure";
import type { Mode } from "@cauri/money/mode";
import type { OutgoingNews, OutgoingWord } from "@cauri/money/outgoing";
import type { OperationRef } from "@cauri/money/reference";
import pg from "pg";
import { pgBoolArray, pgNumArray, pgTextArray } from "./arrays.ts";
import { clockOf, nowBy } from "./clock.ts";
import { findNamed } from "./find.ts";
import { type ListPage, type ListQuery, listPage } from "./lists.ts";
import { type Pool, type Queryable, snapshot, type Tx } from "./pool.ts";
import { rowsOf } from "./rows.ts";

/** A change of state as the table of moves gave it. */
export type OutgoingChange = {
  readonly to: string;
  /** The world hears of it: the version is raised. */
  readonly told: boolean;
  readonly failure_code: FailureCode | null;
  readonly rail_version: bigint;
  readonly rail: string | null;
};

export type OutgoingMove<O> = { readonly operation: O; readonly change: OutgoingChange };

/** Something that was said of an operation, taken into account or not. */
export type OutgoingEntry = {
  readonly operation_id: string;
  readonly word: OutgoingWord;
  readonly says: OutgoingNews;
  readonly applied: boolean;
};

/** What every such table has beside the room's own columns. */
type Row = pg.QueryResultRow & { readonly id: string };
type Stored = {
  readonly id: string;
  readonly account: string;
  readonly mode: Mode;
  readonly status: string;
  readonly version: number;
};

/** What becoming visible changes of a row, and what a move does: all else is known to whoever read it. */
const SHOWN = ["id", "status", "created_at", "updated_at"];
const MOVED = ["id", "status", "version", "failure_code", "rail_version", "rail", "updated_at", "completed_at"];

export type OutgoingTable<O> = {
  /** Drafts whose funds are reserved become visible: each takes its list number and its time. Null: it was no draft. */
  show(tx: Tx, operations: readonly O[], check_in_ms: number): Promise<(O | null)[]>;
  /**
   * Moves operations on, each from the state and version in which it was read; where someone else was first its place
   * is null. One operation stands in a batch once.
   */
  move(tx: Tx, moves: readonly OutgoingMove<O>[]): Promise<(O | null)[]>;
  /** Refused before anything was created: of the draft nothing stays. The draft that was erased, if it was there. */
  erase(tx: Tx, id: string): Promise<O | null>;
  /** Keeps what was said, each thing once; what was seen without effect first may still be taken into account later. */
  record(db: Queryable, entries: readonly OutgoingEntry[]): Promise<void>;
  findAll(db: Queryable, ids: readonly string[]): Promise<Map<string, O>>;
  find(db: Queryable, id: string): Promise<O | null>;
  /** Within one account and mode, or (null, for operators) of any account. */
  findBy(
    db: Queryable,
    named: readonly OperationRef[],
    owner: { readonly account: string; readonly mode: Mode } | null,
  ): Promise<O | null>;
  list(
    pool: Pool,
    query: Omit<ListQuery, "table" | "kind">,
  ): Promise<Omit<ListPage<Row>, "rows"> & { readonly rows: O[] }>;
  /**
   * Pending operations to be looked after, of one account or of all; each is put off by `again_ms`, so that one process
   * at a time has it and a crash only delays it.
   */
  takeDue(
    db: Queryable,
    options: { readonly limit: number; readonly again_ms: number; readonly account?: string },
  ): Promise<O[]>;
  /** Lets the next look after an operation be due so soon, or after a quarter of the time since it changed if that is longer. */
  checkWithin(db: Queryable, id: string, ms: number): Promise<void>;
  /** Whether it stands as it is for so long already, by its own clock. */
  isUnchangedFor(db: Queryable, id: string, ms: number): Promise<boolean>;
};

/** The table of one kind; `read` makes of a row what the room knows. */
export function outgoingTable<O extends Stored>(noun: string, read: (row: Row) => O): OutgoingTable<O> {
  // Names come from code, never from a request; quoted all the same.
  const table = pg.escapeIdentifier(`${noun}s`);
  const changed = (operations: readonly O[], rows: readonly Row[]) => {
    const found = new Map(rows.map((row) => [row.id, row]));
    return operations.map((operation): O | null => {
      const row = found.get(operation.id);
      return row === undefined ? null : { ...operation, ...row };
    });
  };
  const findAll = async (db: Queryable, ids: readonly string[]) => {
    const { rows } = await db.query<Row>(`select * from ${table} where id = any($1::text[])`, [pgTextArray(ids)]);
    return new Map(rows.map((row) => [row.id, read(row)]));
  };
  return {
    show: async (tx, operations, check_in_ms) => {
      const ids = operations.map(({ id }) => id);
      const { rows } = await tx.query<Row>(showText(table), [pgTextArray(ids), check_in_ms, noun]);
      return changed(operations, rows);
    },
    move: async (tx, moves) => {
      const { rows } = await tx.query<Row>(moveText(table), moveArrays(moves));
      return changed(
        moves.map(({ operation }) => operation),
        rows,
      );
    },
    erase: async (tx, id) => {
      const text = `delete from ${table} where id = $1 and status = 'draft' returning *`;
      const [row] = (await tx.query<Row>(text, [id])).rows;
      return row === undefined ? null : read(row);
    },
    record: (db, entries) => record(db, noun, entries),
    findAll,
    find: async (db, id) => (await findAll(db, [id])).get(id) ?? null,
    findBy: async (db, named, owner) => {
      const row = await findNamed<Row>(db, `${noun}s`, named, owner);
      return row === null ? null : read(row);
    },
    list: async (pool, query) => {
      const page = await snapshot(pool, (tx) => listPage<Row>(tx, { ...query, table: `${noun}s`, kind: noun }));
      return { ...page, rows: page.rows.map(read) };
    },
    takeDue: async (db, { limit, again_ms, account }) => {
      const { rows } = await db.query<Row>(dueText(table), [limit, again_ms, account ?? null]);
      return rows.map(read);
    },
    checkWithin: async (db, id, ms) => {
      await db.query(
        `update ${table} p
            set check_at = least(p.check_at, now_of(p.account, p.mode) + greatest(
                  $2 * interval '1 millisecond', (now_of(p.account, p.mode) - p.updated_at) / 4))
          where p.id = $1`,
        [id, ms],
      );
    },
    isUnchangedFor: async (db, id, ms) => {
      const text = `select from ${table} p
                     where p.id = $1 and p.updated_at <= now_of(p.account, p.mode) - $2 * interval '1 millisecond'`;
      return (await db.query(text, [id, ms])).rows.length > 0;
    },
  };
}

function showText(table: string): string {
  return `with given as materialized (
            select p.id, p.account, p.mode, row_number() over (order by p.id) as ord
              from ${table} p where p.id = any($1::text[]) and p.status = 'draft'),
          taken as (
            select * from number_rows($3, (select array_agg(account order by ord) from given),
                                          (select array_agg(mode order by ord) from given)))
          update ${table} p
             set status = 'initiated', n = t.n, created_at = t.created_at, updated_at = t.created_at,
                 check_at = t.created_at + $2 * interval '1 millisecond'
            from given g join taken t on t.ord = g.ord
           where p.id = g.id and p.status = 'draft'
          returning ${SHOWN.map((column) => `p.${column}`).join(", ")}`;
}

function moveText(table: string): string {
  return `update ${table} p
             set status = m.status, version = p.version + m.told, failure_code = m.failure_code,
                 rail_version = greatest(p.rail_version, m.rail_version), rail = coalesce(m.rail, p.rail),
                 updated_at = greatest(p.updated_at, ${nowBy("c")}),
                 completed_at = case when m.status in ('initiated', 'pending') then null
                                     when m.status = p.status then p.completed_at
                                     else coalesce(p.completed_at, greatest(p.updated_at, ${nowBy("c")})) end
            from ${rowsOf(`id text, was text, version integer, status text, told integer, failure_code text,
                           rail_version bigint, rail text, clock text`)} as m
            left join clocks c on c.account = m.clock
           where p.id = m.id and p.status = m.was and p.version = m.version
          returning ${MOVED.map((column) => `p.${column}`).join(", ")}`;
}

function moveArrays<O extends Stored>(moves: readonly OutgoingMove<O>[]): string[] {
  const text = (of: (move: OutgoingMove<O>) => string | null) => pgTextArray(moves.map(of));
  return [
    text(({ operation }) => operation.id),
    text(({ operation }) => operation.status),
    pgNumArray(moves.map(({ operation }) => operation.version)),
    text(({ change }) => change.to),
    pgNumArray(moves.map(({ change }) => (change.told ? 1 : 0))),
    text(({ change }) => change.failure_code),
    pgNumArray(moves.map(({ change }) => change.rail_version)),
    text(({ change }) => change.rail),
    text(({ operation }) => clockOf(operation)),
  ];
}

async function record(db: Queryable, noun: string, entries: readonly OutgoingEntry[]): Promise<void> {
  if (entries.length === 0) return;
  const [table, id] = [pg.escapeIdentifier(`${noun}_news`), pg.escapeIdentifier(`${noun}_id`)];
  await db.query(
    `insert into ${table} as h (${id}, source, rail_version, says, applied, failure_code, paid_minor, paid_currency)
     select id, source, rail_version, says, applied, failure_code, paid_minor, paid_currency
       from ${rowsOf(`id text, source text, rail_version bigint, says text, applied boolean, failure_code text,
                      paid_minor bigint, paid_currency text`)} as e
     on conflict (${id}, rail_version, source, says)
       do update set applied = true where excluded.applied and not h.applied`,
    [
      pgTextArray(entries.map(({ operation_id }) => operation_id)),
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

function dueText(table: string): string {
  return `with due as (
            (select id from ${table}
              where status = 'pending' and check_at <= statement_timestamp() and ($3::text is null or account = $3)
              order by check_at limit $1)
            union
            (select p.id from clocks c
               join ${table} p on p.account = c.account and p.mode = 'test' and p.status = 'pending'
                and p.check_at <= now_of(c.account, 'test')
              where c.offset_ms > 0 and ($3::text is null or c.account = $3)
              limit $1))
          update ${table} p set check_at = now_of(p.account, p.mode) + $2 * interval '1 millisecond'
           where p.id in (select q.id from ${table} q
                           where q.id in (select id from due) and q.status = 'pending'
                             and q.check_at <= now_of(q.account, q.mode)
                           for update skip locked)
          returning *`;
}
