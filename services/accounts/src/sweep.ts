// What must come to its end whatever dies in between: ledger accounts to open, and closes that somebody began.
// Every step may be repeated and may be run by two processes at once; the intent is always a row.

import { type Refusal, refuse } from "@cauri/money/refusal";
import { RpcFault } from "@cauri/rpc/fault";
import { transact } from "@cauri/store/pool";
import { type Account, command } from "./account.ts";
import { closingsLeft, endClosing, lockAccount, moveAccount } from "./account-store.ts";
import { tellAccount } from "./events.ts";
import type { House } from "./house.ts";
import { isEmpty, openAccounts } from "./ledger.ts";
import { dueOpenings, spreadPlaces, strikeOpenings } from "./opening-store.ts";

/** Small enough for one call well below its deadline, large enough for a new country on thousands of accounts. */
const OPENINGS_PER_CALL = 500;

/** Twice the deadline of a write: a close that is still undecided then has lost the process that began it. */
const CLOSING_LEFT_MS = 16_000;
const CLOSINGS_PER_TURN = 20;

/** One turn of the sweeper; answers how much it did. A ledger that is away is met again at the next turn, not in 30 s. */
export async function sweepPatiently(house: House): Promise<number> {
  try {
    return await sweep(house);
  } catch (error) {
    if (!(error instanceof RpcFault && error.unavailable)) throw error;
    house.log.warn({ err: error }, "the ledger is away: what is to be opened or closed waits for it");
    return 0;
  }
}

export async function sweep(house: House): Promise<number> {
  const opened = await openDue(house, null);
  const left = await closingsLeft(house.pool, CLOSING_LEFT_MS, CLOSINGS_PER_TURN);
  for (const account_id of left) await decideClosing(house, account_id);
  return opened + left.length;
}

/** Opens at the ledger what is noted and strikes it off, of all or of what one account needs; answers how many there were. */
export async function openDue(house: House, account_id: string | null): Promise<number> {
  const spread = await transact(house.pool, spreadPlaces);
  if (spread > 0) house.log.info({ places: spread }, "new places: their ledger accounts are noted for opening");
  for (let opened = 0; ; ) {
    const due = await dueOpenings(house.pool, OPENINGS_PER_CALL, account_id);
    if (due.length === 0) return opened;
    await openAccounts(house.ledger, due);
    await strikeOpenings(house.pool, due);
    opened += due.length;
  }
}

/**
 * Ends a close that was begun: the account's calls are refused since, so what the ledger tells now can only be joined by
 * what was in flight. Empty live books close the account; anything else gives it back to its state.
 */
export async function decideClosing(house: House, account_id: string): Promise<Account | Refusal> {
  const empty = await isEmpty(house.ledger, account_id, "live");
  return transact(house.pool, async (tx) => {
    const account = await lockAccount(tx, account_id);
    if (account === null) return refuse("not_found", "no such account");
    if (account.status === "closed") return account;
    const next = command(account, "close");
    if (account.closing_since === null || typeof next !== "string") {
      return refuse("precondition_failed", "another close of this account was decided meanwhile: ask again");
    }
    await tellAccount(tx, account_id);
    if (!empty) {
      await endClosing(tx, account_id);
      return refuse("precondition_failed", "the account cannot be closed: its live balances and holds are not zero");
    }
    await moveAccount(tx, account_id, account.status, next);
    return { ...account, status: next, closing_since: null };
  });
}
