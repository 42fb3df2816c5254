// The engine's SQL: the state of one batch in, its effects out. Two round trips: every statement is sent without
// waiting for the one before it, set-based, and prepared once per connection.

import { pgNumArray, pgTextArray } from "@cauri/store/arrays";
import type { Prepared, Tx } from "@cauri/store/pool";
import type {
  Account,
  Balances,
  Book,
  GroupOrder,
  Hold,
  HoldState,
  Known,
  Lane,
  Remembered,
  TransferFields,
  TransferKind,
} from "./books.ts";
import type { NormalSide } from "./chart.ts";
import type { BookState, Effects } from "./decide.ts";

/** Due holds that the sweeper expires in one batch. */
export const SWEEP_LIMIT = 1_000;

/** The lane as locked, and the state of what the groups name. */
export type Reading = { readonly state: BookState; readonly lane: LaneHead | null };
export type LaneHead = {
  readonly sequence: bigint;
  readonly head: Buffer;
  /** The batch's time as PostgreSQL wrote it, so that it goes back unchanged. */
  readonly recorded_at: string;
};

/** Whether due holds are looked for on the accounts that the groups touch, or in the whole lane. */
export type Due = "touched" | "lane";

const MICROS = "(extract(epoch from %) * 1000000)::bigint";
const micros = (column: string) => MICROS.replace("%", column);
const millis = (column: string) => `(extract(epoch from ${column}) * 1000)::bigint`;

const LOCK_LANE: Prepared = {
  name: "ledger_lock_lane",
  text: "select from lanes where lane_id = $1 for update",
};

// A statement of its own after the lock, so that the clock is read when the lane is ours, not when we began to wait.
const READ_LANE: Prepared = {
  name: "ledger_read_lane",
  text: `select asset_id, book, sequence, head, now::text as recorded_at, ${micros("now")} as now_us
    from lanes, greatest(clock_timestamp(), recorded_at + interval '1 microsecond') as now where lane_id = $1`,
};

const ACCOUNT_COLUMNS = `account_id, code, normal_side, no_overdraft,
  debits_pending, debits_posted, credits_pending, credits_posted`;

const READ_ACCOUNTS: Prepared = {
  name: "ledger_read_accounts",
  text: `select ${ACCOUNT_COLUMNS} from accounts where lane_id = $1 and code = any($2::text[])`,
};

const READ_HOLD_ACCOUNTS: Prepared = {
  name: "ledger_read_hold_accounts",
  text: `select ${ACCOUNT_COLUMNS} from accounts where account_id in (
    select unnest(array[debit_id, credit_id]) from holds where lane_id = $2 and hold_id = any($1::uuid[]))`,
};

const HOLD_COLUMNS = `h.hold_id, h.lane_id, l.asset_id, l.book, h.debit_id, h.credit_id, h.amount,
  ${millis("h.expires_at")} as expires_ms, h.state, h.captured, h.operation_id`;

const READ_HOLDS: Prepared = {
  name: "ledger_read_holds",
  text: `select ${HOLD_COLUMNS} from holds h join lanes l using (lane_id) where h.hold_id = any($1::uuid[])`,
};

// A second more than is due: the batch's time may be ahead of the clock by what a clock set back took away.
const DUE = "e.lane_id = $1 and e.expires_at <= clock_timestamp() + interval '1 second'";
const TOUCHED = "select account_id from accounts where lane_id = $1 and no_overdraft and code = any($2::text[])";

const READ_DUE_TOUCHED: Prepared = {
  name: "ledger_read_due_touched",
  text: `select ${HOLD_COLUMNS} from holds h join lanes l using (lane_id) where h.hold_id in (
    select e.hold_id from expiring_holds e join (${TOUCHED}) t on e.debit_id = t.account_id where ${DUE}
    union
    select e.hold_id from expiring_holds e join (${TOUCHED}) t on e.credit_id = t.account_id where ${DUE})`,
};

const READ_DUE_LANE: Prepared = {
  name: "ledger_read_due_lane",
  text: `select ${HOLD_COLUMNS} from holds h join lanes l using (lane_id) where h.hold_id in (
    select e.hold_id from expiring_holds e where ${DUE} order by e.expires_at limit ${SWEEP_LIMIT})`,
};

const KNOWN_COLUMNS = `transfer_id, lane_id, kind, debit_id, credit_id, amount, hold_id,
  ${millis("expires_at")} as expires_ms, ${millis("effective_at")} as effective_ms, operation_id,
  ${micros("recorded_at")} as recorded_us`;

const READ_KNOWN: Prepared = {
  name: "ledger_read_known",
  text: `select ${KNOWN_COLUMNS}, null as refused from transfers where transfer_id = any($1::uuid[])
    union all
    select ${KNOWN_COLUMNS}, result::text from refusals where transfer_id = any($1::uuid[])`,
};

const APPEND_BATCH: Prepared = {
  name: "ledger_append_batch",
  text: `with head as (
      update lanes set sequence = $2, head = $3, recorded_at = $4::timestamptz where lane_id = $1 returning lane_id)
    insert into batches (lane_id, sequence, recorded_at, transfers, refusals, hash)
    select lane_id, $2::bigint, $4::timestamptz, $5::integer, $6::integer, $3::bytea from head`,
};

const TRANSFER_ARRAYS = `$4::uuid[], $5::transfer_kind[], $6::bigint[], $7::bigint[], $8::bigint[], $9::uuid[],
  $10::timestamptz[], $11::timestamptz[], $12::text[]`;
const TRANSFER_NAMES = `transfer_id, kind, debit_id, credit_id, amount, hold_id, expires_at, effective_at, operation_id`;

const APPEND_TRANSFERS: Prepared = {
  name: "ledger_append_transfers",
  text: `insert into transfers (lane_id, sequence, recorded_at, ${TRANSFER_NAMES}, group_id, position)
    select $1::integer, $2::bigint, $3::timestamptz, ${TRANSFER_NAMES}, group_id, n - 1
    from unnest(${TRANSFER_ARRAYS}, $13::uuid[]) with ordinality as t (${TRANSFER_NAMES}, group_id, n)`,
};

const APPEND_REFUSALS: Prepared = {
  name: "ledger_append_refusals",
  text: `insert into refusals (lane_id, sequence, recorded_at, ${TRANSFER_NAMES}, result, position)
    select $1::integer, $2::bigint, $3::timestamptz, ${TRANSFER_NAMES}, result, n - 1
    from unnest(${TRANSFER_ARRAYS}, $13::remembered_refusal[]) with ordinality as t (${TRANSFER_NAMES}, result, n)`,
};

const APPEND_ENTRIES: Prepared = {
  name: "ledger_append_entries",
  text: `insert into entries (lane_id, recorded_at, account_id, position, transfer_id,
      debits_pending, debits_posted, credits_pending, credits_posted)
    select $1::integer, $2::timestamptz, * from unnest($3::bigint[], $4::integer[], $5::uuid[],
      $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[])`,
};

const UPDATE_ACCOUNTS: Prepared = {
  name: "ledger_update_accounts",
  text: `update accounts a set debits_pending = n.dp, debits_posted = n.d, credits_pending = n.cp, credits_posted = n.c,
      updated_at = $1::timestamptz
    from unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[]) as n (id, dp, d, cp, c)
    where a.account_id = n.id`,
};

const APPEND_HOLDS: Prepared = {
  name: "ledger_append_holds",
  text: `insert into holds (lane_id, hold_id, debit_id, credit_id, amount, expires_at, state, captured, operation_id)
    select $1::integer, * from unnest($2::uuid[], $3::bigint[], $4::bigint[], $5::bigint[], $6::timestamptz[],
      $7::hold_state[], $8::bigint[], $9::text[])`,
};

const APPEND_EXPIRING: Prepared = {
  name: "ledger_append_expiring",
  text: `insert into expiring_holds (lane_id, hold_id, debit_id, credit_id, amount, expires_at)
    select $1::integer, * from unnest($2::uuid[], $3::bigint[], $4::bigint[], $5::bigint[], $6::timestamptz[])`,
};

const END_HOLDS: Prepared = {
  name: "ledger_end_holds",
  text: `update holds h set state = n.state, captured = n.captured
    from unnest($1::uuid[], $2::hold_state[], $3::bigint[]) as n (id, state, captured)
    where h.hold_id = n.id and h.state = 'held'`,
};

const DELETE_EXPIRING: Prepared = {
  name: "ledger_delete_expiring",
  text: "delete from expiring_holds where hold_id = any($1::uuid[])",
};

/** First round trip: takes the lane, then reads what the groups name. A lane that was never opened has id 0. */
export async function readState(
  tx: Tx,
  lane_id: number,
  groups: readonly GroupOrder[],
  due: Due = "touched",
): Promise<Reading> {
  const named = namesOf(groups);
  const codes = pgTextArray([...named.codes]);
  const hold_ids = pgTextArray([...named.holds]);
  const locked = tx.prepared(LOCK_LANE, [lane_id]);
  const [lanes, accounts, holdAccounts, holds, dueHolds, known] = await Promise.all([
    tx.prepared<LaneRow>(READ_LANE, [lane_id]),
    tx.prepared<AccountRow>(READ_ACCOUNTS, [lane_id, codes]),
    named.holds.size > 0 ? tx.prepared<AccountRow>(READ_HOLD_ACCOUNTS, [hold_ids, lane_id]) : null,
    named.holds.size > 0 ? tx.prepared<HoldRow>(READ_HOLDS, [hold_ids]) : null,
    due === "lane"
      ? tx.prepared<HoldRow>(READ_DUE_LANE, [lane_id])
      : tx.prepared<HoldRow>(READ_DUE_TOUCHED, [lane_id, codes]),
    named.ids.size > 0 ? tx.prepared<KnownRow>(READ_KNOWN, [pgTextArray([...named.ids])]) : null,
    locked,
  ]);
  const accountById = new Map<number, Account>();
  for (const row of [...accounts.rows, ...(holdAccounts?.rows ?? [])]) addAccount(accountById, row);
  const holdById = new Map<string, Hold>();
  for (const row of [...(holds?.rows ?? []), ...dueHolds.rows]) holdById.set(row.hold_id, holdOf(row));
  await readMissingAccounts(tx, accountById, dueHolds.rows);
  const laneRow = lanes.rows[0];
  const state: BookState = {
    lane: laneRow === undefined ? null : { lane_id, asset_id: laneRow.asset_id, book: laneRow.book },
    now_us: Number(laneRow?.now_us ?? 0n),
    accounts: [...accountById.values()],
    holds: [...holdById.values()],
    known: new Map(known?.rows.map((row) => [row.transfer_id, knownOf(row)])),
  };
  return { state, lane: laneRow ?? null };
}

/** Second round trip, sent with the commit: nothing here waits for an answer. */
export function writeEffects(tx: Tx, lane: Lane, head: LaneHead, hash: Buffer, effects: Effects): void {
  const { transfers, entries, refusals, new_holds, ended_holds, balances } = effects;
  const { lane_id } = lane;
  const sequence = head.sequence + 1n;
  const stamp = [lane_id, sequence, head.recorded_at];
  send(tx, APPEND_BATCH, [lane_id, sequence, hash, head.recorded_at, transfers.length, refusals.length]);
  if (transfers.length > 0) {
    const group_ids = pgTextArray(transfers.map((transfer) => transfer.group_id));
    send(tx, APPEND_TRANSFERS, [...stamp, ...fieldArrays(transfers), group_ids]);
    const booked = entries.map((entry) => transfers[entry.position]?.id ?? null);
    send(tx, APPEND_ENTRIES, [
      ...[lane_id, head.recorded_at],
      pgNumArray(entries.map((entry) => entry.account_id)),
      pgNumArray(entries.map((entry) => entry.position)),
      pgTextArray(booked),
      ...balanceArrays(entries.map((entry) => entry.after)),
    ]);
    send(tx, UPDATE_ACCOUNTS, [
      head.recorded_at,
      pgNumArray([...balances.keys()]),
      ...balanceArrays([...balances.values()]),
    ]);
  }
  if (refusals.length > 0) {
    const results = pgTextArray(refusals.map((refusal) => refusal.result));
    send(tx, APPEND_REFUSALS, [...stamp, ...fieldArrays(refusals), results]);
  }
  writeHolds(tx, lane_id, new_holds, ended_holds);
}

/** The lane of an asset and book, or null where none was opened yet. */
export async function findLane(tx: Pick<Tx, "query">, asset_id: string, book: Book): Promise<number | null> {
  const text = "select lane_id from lanes where asset_id = $1 and book = $2::book";
  const { rows } = await tx.query<{ lane_id: number }>(text, [asset_id, book]);
  return rows[0]?.lane_id ?? null;
}

/** Lanes with a hold whose time is over. */
export async function lanesWithDueHolds(tx: Pick<Tx, "query">): Promise<number[]> {
  const due = "select from expiring_holds e where e.lane_id = l.lane_id and e.expires_at <= clock_timestamp()";
  const { rows } = await tx.query<{ lane_id: number }>(`select lane_id from lanes l where exists (${due})`);
  return rows.map((row) => row.lane_id);
}

function writeHolds(tx: Tx, lane_id: number, new_holds: readonly Hold[], ended_holds: readonly Hold[]): void {
  const columns = (holds: readonly Hold[]) => [
    pgTextArray(holds.map((hold) => hold.hold_id)),
    pgNumArray(holds.map((hold) => hold.debit_id)),
    pgNumArray(holds.map((hold) => hold.credit_id)),
    pgNumArray(holds.map((hold) => hold.amount)),
    timeArray(holds.map((hold) => hold.expires_ms)),
  ];
  const states = (holds: readonly Hold[]) => [
    pgTextArray(holds.map((hold) => hold.state)),
    pgNumArray(holds.map((hold) => hold.captured)),
  ];
  if (new_holds.length > 0) {
    const operations = pgTextArray(new_holds.map((hold) => hold.operation_id));
    send(tx, APPEND_HOLDS, [lane_id, ...columns(new_holds), ...states(new_holds), operations]);
    const expiring = new_holds.filter((hold) => hold.expires_ms !== null && hold.state === "held");
    if (expiring.length > 0) send(tx, APPEND_EXPIRING, [lane_id, ...columns(expiring)]);
  }
  if (ended_holds.length > 0) {
    const ids = pgTextArray(ended_holds.map((hold) => hold.hold_id));
    send(tx, END_HOLDS, [ids, ...states(ended_holds)]);
    const expiring = ended_holds.filter((hold) => hold.expires_ms !== null).map((hold) => hold.hold_id);
    if (expiring.length > 0) send(tx, DELETE_EXPIRING, [pgTextArray(expiring)]);
  }
}

/** The commit waits for every statement and throws what one of them threw, so none is awaited here. */
function send(tx: Tx, statement: Prepared, values: readonly unknown[]): void {
  void tx.prepared(statement, values);
}

function namesOf(groups: readonly GroupOrder[]): { ids: Set<string>; codes: Set<string>; holds: Set<string> } {
  const names = { ids: new Set<string>(), codes: new Set<string>(), holds: new Set<string>() };
  for (const group of groups) {
    for (const order of group.transfers) {
      names.ids.add(order.id);
      if (order.debit_code !== null) names.codes.add(order.debit_code);
      if (order.credit_code !== null) names.codes.add(order.credit_code);
      if (order.hold_id !== null) names.holds.add(order.hold_id);
      // A hold that is known already answers with what became of it.
      if (order.kind === "hold") names.holds.add(order.id);
    }
  }
  return names;
}

/** A third round trip, only when holds fell due: their other account may be one that no group names. */
async function readMissingAccounts(tx: Tx, accounts: Map<number, Account>, due: readonly HoldRow[]): Promise<void> {
  const ids = due.flatMap((row) => [Number(row.debit_id), Number(row.credit_id)]).filter((id) => !accounts.has(id));
  if (ids.length === 0) return;
  const text = `select ${ACCOUNT_COLUMNS} from accounts where account_id = any($1::bigint[])`;
  const { rows } = await tx.query<AccountRow>(text, [pgNumArray(ids)]);
  for (const row of rows) addAccount(accounts, row);
}

function fieldArrays(rows: readonly { readonly id: string; readonly fields: TransferFields }[]): string[] {
  return [
    pgTextArray(rows.map((row) => row.id)),
    pgTextArray(rows.map((row) => row.fields.kind)),
    pgNumArray(rows.map((row) => row.fields.debit_id)),
    pgNumArray(rows.map((row) => row.fields.credit_id)),
    pgNumArray(rows.map((row) => row.fields.amount)),
    pgTextArray(rows.map((row) => row.fields.hold_id)),
    timeArray(rows.map((row) => row.fields.expires_ms)),
    timeArray(rows.map((row) => row.fields.effective_ms)),
    pgTextArray(rows.map((row) => row.fields.operation_id)),
  ];
}

function balanceArrays(balances: readonly Balances[]): string[] {
  return [
    pgNumArray(balances.map((one) => one.debits_pending)),
    pgNumArray(balances.map((one) => one.debits_posted)),
    pgNumArray(balances.map((one) => one.credits_pending)),
    pgNumArray(balances.map((one) => one.credits_posted)),
  ];
}

function timeArray(times: readonly (number | null)[]): string {
  return pgTextArray(times.map((ms) => (ms === null ? null : new Date(ms).toISOString())));
}

type LaneRow = LaneHead & { asset_id: string; book: Book; now_us: bigint };
type AccountRow = Balances & { account_id: bigint; code: string; normal_side: NormalSide; no_overdraft: boolean };
type HoldRow = {
  hold_id: string;
  lane_id: number;
  asset_id: string;
  book: Book;
  debit_id: bigint;
  credit_id: bigint;
  amount: bigint;
  expires_ms: bigint | null;
  state: HoldState;
  captured: bigint;
  operation_id: string;
};
type KnownRow = {
  transfer_id: string;
  lane_id: number;
  kind: TransferKind;
  debit_id: bigint;
  credit_id: bigint;
  amount: bigint;
  hold_id: string | null;
  expires_ms: bigint | null;
  effective_ms: bigint | null;
  operation_id: string;
  recorded_us: bigint;
  refused: Remembered | null;
};

function addAccount(accounts: Map<number, Account>, row: AccountRow): void {
  const account_id = Number(row.account_id);
  const { code, normal_side, no_overdraft, debits_pending, debits_posted, credits_pending, credits_posted } = row;
  const balances = { debits_pending, debits_posted, credits_pending, credits_posted };
  accounts.set(account_id, { account_id, code, normal_side, no_overdraft, balances });
}

function holdOf(row: HoldRow): Hold {
  const { hold_id, lane_id, asset_id, book, amount, state, captured, operation_id } = row;
  const accounts = { debit_id: Number(row.debit_id), credit_id: Number(row.credit_id) };
  const lane = { lane_id, asset_id, book };
  return { hold_id, lane, ...accounts, amount, expires_ms: toNumber(row.expires_ms), state, captured, operation_id };
}

function knownOf(row: KnownRow): Known {
  const { lane_id, kind, amount, hold_id, operation_id, refused } = row;
  const accounts = { debit_id: Number(row.debit_id), credit_id: Number(row.credit_id) };
  const times = { expires_ms: toNumber(row.expires_ms), effective_ms: toNumber(row.effective_ms) };
  const fields: TransferFields = { lane_id, kind, ...accounts, amount, hold_id, ...times, operation_id };
  return { fields, refused, recorded_us: Number(row.recorded_us) };
}

function toNumber(value: bigint | null): number | null {
  return value === null ? null : Number(value);
}
