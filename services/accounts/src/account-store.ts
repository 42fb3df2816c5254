// Accounts in SQL. Every function takes the transaction first; a state is changed by naming the state it is changed from.

import type { Queryable, Tx } from "@cauri/store/pool";
import type { Account, AccountStatus, Settlement, SignUp } from "./account.ts";
import type { Page } from "./terms.ts";

const COLUMNS =
  "account_id, name, country, email, status, is_live, products, options, closing_since, created_at, settlement";

/** Inserts a pending account and gives it the next number. The head row is locked until commit, so no number is lost. */
export async function insertAccount(tx: Tx, account_id: string, asked: SignUp): Promise<Account> {
  const { rows } = await tx.query<Account>(
    `with head as (update account_head set n = n + 1 returning n)
     insert into accounts (account_id, n, name, country, email)
     select $1, head.n, $2, $3, $4 from head
     returning ${COLUMNS}`,
    [account_id, asked.name, asked.country, asked.email],
  );
  return one(rows);
}

export async function findAccount(db: Queryable, account_id: string): Promise<Account | null> {
  const { rows } = await db.query<Account>(`select ${COLUMNS} from accounts where account_id = $1`, [account_id]);
  return rows[0] ?? null;
}

/** The account with its row locked: commands on one account happen one after the other. */
export async function lockAccount(tx: Tx, account_id: string): Promise<Account | null> {
  const { rows } = await tx.query<Account>(`select ${COLUMNS} from accounts where account_id = $1 for update`, [
    account_id,
  ]);
  return rows[0] ?? null;
}

/** Newest first. Numbers have no gaps, so a page is a range and the head is the exact total. */
export async function listAccounts(db: Queryable, asked: { page: number; per_page: number }): Promise<Page<Account>> {
  const { rows } = await db.query<Account & { total: bigint }>(
    `select ${COLUMNS}, head.n as total
     from account_head head left join accounts a
       on a.n <= head.n - ($1::bigint - 1) * $2::bigint and a.n > head.n - $1::bigint * $2::bigint
     order by a.n desc`,
    [asked.page, asked.per_page],
  );
  const total = rows[0]?.total ?? 0n;
  const data = rows.filter((row) => row.account_id !== null).map(({ total: _, ...account }) => account);
  return { data, ...asked, total, has_more: BigInt(asked.page) * BigInt(asked.per_page) < total };
}

/** Moves an account from one state to the next, also out of a close that is being decided; false: the news was stale. */
export async function moveAccount(
  tx: Tx,
  account_id: string,
  from: AccountStatus,
  to: AccountStatus,
): Promise<boolean> {
  const { rowCount } = await tx.query(
    `update accounts set status = $3, closing_since = null, updated_at = clock_timestamp()
     where account_id = $1 and status = $2`,
    [account_id, from, to],
  );
  return rowCount === 1;
}

/** Notes that a close is being decided; a second close joins the first. */
export async function beginClosing(tx: Tx, account_id: string): Promise<void> {
  await tx.query(
    `update accounts set closing_since = clock_timestamp(), updated_at = clock_timestamp()
     where account_id = $1 and closing_since is null and status <> 'closed'`,
    [account_id],
  );
}

/** Gives an account back to its state after a refused close. */
export async function endClosing(tx: Tx, account_id: string): Promise<void> {
  await tx.query("update accounts set closing_since = null, updated_at = clock_timestamp() where account_id = $1", [
    account_id,
  ]);
}

/** Accounts whose close was begun and left undecided for this long: whoever decided them has died. */
export async function closingsLeft(db: Queryable, older_than_ms: number, limit: number): Promise<string[]> {
  const { rows } = await db.query<{ account_id: string }>(
    `select account_id from accounts
     where closing_since < clock_timestamp() - $1 * interval '1 millisecond'
     order by closing_since limit $2`,
    [older_than_ms, limit],
  );
  return rows.map(({ account_id }) => account_id);
}

export async function setSwitches(
  tx: Tx,
  account_id: string,
  set: { is_live: boolean; products: readonly string[]; options: readonly string[] },
): Promise<Account> {
  const { rows } = await tx.query<Account>(
    `update accounts set is_live = $2, products = $3, options = $4, updated_at = clock_timestamp()
     where account_id = $1 returning ${COLUMNS}`,
    [account_id, set.is_live, set.products, set.options],
  );
  return one(rows);
}

export async function setSettlement(tx: Tx, account_id: string, settlement: Settlement): Promise<Account> {
  const { rows } = await tx.query<Account>(
    `update accounts set settlement = $2::json, updated_at = clock_timestamp()
     where account_id = $1 returning ${COLUMNS}`,
    [account_id, JSON.stringify(settlement)],
  );
  return one(rows);
}

/** What the account's test clock shows. */
export async function testNow(db: Queryable, account_id: string): Promise<Date> {
  const { rows } = await db.query<{ now: Date }>("select now_of($1, 'test') as now", [account_id]);
  return one(rows).now;
}

function one<T>(rows: readonly T[]): T {
  const [row] = rows;
  if (row === undefined) throw new Error("a statement that writes one row answered none");
  return row;
}
