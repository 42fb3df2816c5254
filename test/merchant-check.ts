// What one merchant's life came to, held against the model: views, lists, references, the books, what was told, and that
// nothing is left running.

import assert from "node:assert/strict";
import { readAccounts } from "../services/ledger/src/account-store.ts";
import { insertDeliveries } from "../services/webhooks/src/arrival-store.ts";
import { eventOf } from "../services/webhooks/src/events.ts";
import type { Made, Merchant } from "./merchant-life.ts";
import {
  at,
  book,
  checkRefunds,
  checkTold,
  HOME,
  type Kind,
  restingStates,
  type Said,
  type Seen,
} from "./merchant-model.ts";
import { type MerchantRooms, WITHDRAWAL_FEE } from "./merchant-rooms.ts";

type Row = Seen & { readonly kept_as?: string };

/** Checks a merchant at rest; answers what its operations have come to. */
export async function check(merchant: Merchant): Promise<readonly string[]> {
  const { rooms, account, books } = merchant;
  const seen = await see(merchant);
  for (const one of merchant.made) {
    const stands = seen.some(({ id }) => id === one.id);
    if (one.answer !== "unknown") assert.equal(stands, one.answer === "created", `${one.id}: ${one.answer}`);
  }
  for (const one of seen) {
    const made = merchant.made.find(({ id }) => id === one.id) ?? assert.fail(`nobody asked for ${one.id}`);
    const said = saidOf(rooms, made);
    const states = restingStates(one, said);
    assert.ok(states.includes(one.status), `${one.id} is ${one.status} after ${said.words.join(", ")}, not ${states}`);
    checkSent(rooms, one);
    if (one.kind === "withdrawal") checkFrozen(rooms, made, one);
    book(books, account, one, said.words, await isOddBooked(rooms, one));
  }
  checkRefunds(seen);
  await checkBooks(merchant);
  await checkAllTold(merchant, seen);
  for (const pool of [rooms.collections, rooms.payouts]) {
    const { rows } = await pool.query("select operation_id from claims where account = $1 and state <> 'done'", [
      account,
    ]);
    assert.deepEqual(rows, [], "nothing is left running");
  }
  assert.deepEqual(rooms.faults.splice(0), [], "no loop went over a fault");
  return seen.map(({ kind, status }) => `${kind} ${status}`);
}

/** Every operation that the merchant's lists show; drafts are nobody's. */
async function see({ rooms, account }: Merchant): Promise<Row[]> {
  const look = async (kind: Kind, more: string, amount = "amount_minor") => {
    const pool = kind === "payment" || kind === "refund" ? rooms.collections : rooms.payouts;
    const { rows } = await pool.query<Omit<Row, "kind">>(
      `select id, reference, status, ${amount} as amount_minor, ${more} from ${kind}s where account = $1 and n is not null`,
      [account],
    );
    const { rows: heads } = await pool.query<{ n: bigint }>(
      "select n from list_heads where account = $1 and kind = $2",
      [account, kind],
    );
    assert.equal(heads[0]?.n ?? 0n, BigInt(rows.length), "lists have no gaps");
    const open = rows.filter(({ status }) => status === "draft" || status === "initiated");
    assert.deepEqual(open, [], "what is open at nobody's rail was finished or given up");
    return rows.map((row) => ({ ...row, kind }));
  };
  return (
    await Promise.all([
      look("payment", "platform_id, fee_minor, refunded_minor, refunding_minor"),
      look("refund", "platform_id, 0::bigint as fee_minor, payment_id"),
      look("payout", "platform_id, fee_minor"),
      look("withdrawal", "platform_id, fee_minor, kept_as", "requested_minor"),
      look("transfer", "platform_id, 0::bigint as fee_minor"),
      look("rebalance", `'${HOME}' as platform_id, 0::bigint as fee_minor`),
    ])
  ).flat();
}

function saidOf({ rails }: MerchantRooms, { id, kind, decided }: Made): Said {
  if (kind === "transfer" || kind === "rebalance") return { words: [], withheld: null, decided };
  const attempt = rails.attempts.get(id);
  const withheld = attempt?.failure_code === undefined ? ("cancelled" as const) : ("given up" as const);
  return { words: rails.wordsOf(id), withheld: attempt?.is_withheld === true ? withheld : null, decided };
}

/** Each went out once at most, under its own reference, over what leaves, where it was to go. */
function checkSent(
  { rails }: MerchantRooms,
  { kind, id, reference, amount_minor, fee_minor, platform_id }: Seen,
): void {
  const attempt = rails.attempts.get(id);
  if (attempt === undefined) return;
  const { references, order } = attempt;
  assert.ok(
    [...references].every((one) => one === reference),
    `${id} was sent under another reference`,
  );
  const leaves = kind === "withdrawal" ? amount_minor - fee_minor : amount_minor;
  assert.deepEqual([order.amountMinor, order.platformId], [leaves, platform_id], id);
}

/** Fee and destination of a withdrawal are those of the moment of its request. */
function checkFrozen({ rails }: MerchantRooms, { id, settled }: Made, { fee_minor, platform_id, kept_as }: Row): void {
  assert.equal(fee_minor, WITHDRAWAL_FEE, id);
  const is_asked = settled.some((to) => to?.platform_id === platform_id && to?.kept_as === kept_as);
  assert.ok(is_asked, `${id} goes to ${platform_id}, where the account did not settle when it was asked for`);
  const is_sent = rails.attempts.has(id);
  if (is_sent) assert.equal(rails.kept.get(id), kept_as, `${id} was sent to another settlement account`);
}

async function checkBooks(merchant: Merchant): Promise<void> {
  const accounts = await readAccounts(merchant.rooms.ledger, merchant.names());
  const stands = accounts.map(({ code, ...balances }) => {
    const { credits_posted, debits_posted, debits_pending, credits_pending } = balances;
    return [code, credits_posted - debits_posted, debits_pending, credits_pending];
  });
  const wanted = accounts.map(({ code }) => {
    const { posted, debits_pending, credits_pending } = at(merchant.books, code);
    return [code, posted, debits_pending, credits_pending];
  });
  assert.deepEqual(stands, wanted);
}

/** The outbox of both rooms through the room of webhooks, twice and the newest first: one delivery for each event. */
async function checkAllTold({ rooms, account }: Merchant, seen: readonly Seen[]): Promise<void> {
  const sent = await Promise.all(
    [rooms.collections, rooms.payouts].map((pool) =>
      pool.query<{ payload: Buffer }>("select payload from outbox where account = $1 order by seq desc", [account]),
    ),
  );
  const events = sent.flatMap(({ rows }) => rows.flatMap(({ payload }) => eventOf(payload) ?? []));
  for (let turn = 0; turn < 2; turn += 1) {
    await insertDeliveries(rooms.webhooks, events, null);
  }
  const { rows } = await rooms.webhooks.query<{ operation_id: string; event: string; body: string }>(
    "select operation_id, event, body from deliveries where account = $1 order by operation_id, version",
    [account],
  );
  for (const one of seen) {
    const notices = rows.filter(({ operation_id }) => operation_id === one.id);
    checkTold(
      one,
      notices.map(({ event }) => event),
    );
    for (const { body } of notices) {
      assert.equal(JSON.parse(body).data.amount, String(one.amount_minor));
    }
    const last = notices.at(-1);
    const status = one.status === "refunded" && one.kind === "payment" ? "success" : one.status;
    if (last !== undefined) assert.equal(JSON.parse(last.body).data.status, status, one.id);
  }
  const known = new Set(seen.map(({ id }) => id));
  assert.ok(
    rows.every(({ operation_id }) => known.has(operation_id)),
    "nothing is told of what is not there",
  );
}

/** Whether money over another amount was heard before newer news. */
async function isOddBooked(rooms: MerchantRooms, { kind, id }: Seen): Promise<boolean> {
  if (kind === "transfer" || kind === "rebalance") return false;
  const pool = kind === "payment" || kind === "refund" ? rooms.collections : rooms.payouts;
  const { rows } = await pool.query<Heard>(
    `select source, rail_version, says from ${kind}_news where ${kind}_id = $1 and applied order by recorded_at`,
    [id],
  );
  checkHeard(id, rows);
  return rows.some(({ says }) => says === "mispay");
}

type Heard = { readonly source: string; readonly rail_version: bigint; readonly says: string };

/** News again, and older news after newer, change nothing; that it was accepted may be heard after anything. */
function checkHeard(id: string, applied: readonly Heard[]): void {
  let newest = 0n;
  for (const { source, rail_version, says } of applied) {
    if (source === "news" && says !== "accept")
      assert.ok(rail_version > newest, `${id} took ${says} into account again`);
    if (rail_version > newest) newest = rail_version;
  }
}
