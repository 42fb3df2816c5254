// Business time: the clock, plus in test mode the account's own offset, which `cauri sandbox clock advance` moves on.
// SQL has it as `now_of(account, mode)`; code that decides in memory asks `clocks.now(account, mode)`.

import { type Clock, systemClock } from "@cauri/money/clock";
import type { Mode } from "@cauri/money/mode";
import type { Pool, Queryable, Tx } from "./pool.ts";

/** The consumer of one replica writes an offset; the others see it in the table within this time. */
const REFRESH_MS = 1_000;

/**
 * Business time in a statement over many rows that has joined `clocks` itself, on the account of a test-mode row and on
 * null for a live one. PostgreSQL inlines no function with a subquery, so `now_of` costs four times as much for each row.
 */
export function nowBy(clocks: string): string {
  return nowAt(`${clocks}.offset_ms`);
}

/** `now_of(account, mode)` written out, for a statement that cannot join `clocks`: one look at its key for each row. */
export function nowOf(account: string, mode: string): string {
  return nowAt(`(select c.offset_ms from clocks c where ${mode} = 'test' and c.account = ${account})`);
}

/** The time that every row of one statement shares, and the row's own offset, null where it has none. */
function nowAt(offset_ms: string): string {
  return `(date_trunc('milliseconds', statement_timestamp()) + interval '1 millisecond' * coalesce(${offset_ms}, 0))`;
}

/** The account on which such a statement joins `clocks`. */
export function clockOf({ account, mode }: { readonly account: string; readonly mode: Mode }): string | null {
  return mode === "test" ? account : null;
}

export type Clocks = {
  /** The business time of an account; in live mode simply the time. */
  now(account: string, mode: Mode): Date;
  offset(account: string): bigint;
  /** Reads the table anew; `Drain` does so before it trusts what it sees. */
  refresh(): Promise<void>;
  close(): void;
};

const views = new WeakMap<Pool, Map<string, bigint>>();

/** Opens the view of this process and keeps it fresh. One per pool. */
export async function openClocks(pool: Pool, clock: Clock = systemClock): Promise<Clocks> {
  const offsets = views.get(pool) ?? new Map<string, bigint>();
  views.set(pool, offsets);
  const refresh = async () => {
    const { rows } = await pool.query<{ account: string; offset_ms: bigint }>("select account, offset_ms from clocks");
    for (const row of rows) keepLatest(offsets, row.account, row.offset_ms);
  };
  await refresh();
  // A failed refresh is no matter: the view keeps what it has, and the next one comes in a second.
  const timer = setInterval(() => void refresh().catch(() => {}), REFRESH_MS).unref();
  const offset = (account: string) => offsets.get(account) ?? 0n;
  return {
    now: (account, mode) => new Date(clock() + (mode === "test" ? Number(offset(account)) : 0)),
    offset,
    refresh,
    close: () => clearInterval(timer),
  };
}

/** Moves an account's test clock on. It only grows, so a late or repeated event changes nothing. */
export async function setOffset(tx: Tx, account: string, offset_ms: bigint): Promise<void> {
  const view = views.get(tx.pool);
  if (view !== undefined) tx.afterCommit(() => keepLatest(view, account, offset_ms));
  await tx.query(
    `insert into clocks as c (account, offset_ms) values ($1, $2)
     on conflict (account) do update set offset_ms = excluded.offset_ms where c.offset_ms < excluded.offset_ms`,
    [account, offset_ms],
  );
}

/** The offset that the table holds, 0 where the account has none: what `Drain` waits for. */
export async function readOffset(db: Queryable, account: string): Promise<bigint> {
  const { rows } = await db.query<{ offset_ms: bigint }>("select offset_ms from clocks where account = $1", [account]);
  return rows[0]?.offset_ms ?? 0n;
}

function keepLatest(offsets: Map<string, bigint>, account: string, offset_ms: bigint): void {
  if (offset_ms > (offsets.get(account) ?? -1n)) offsets.set(account, offset_ms);
}
