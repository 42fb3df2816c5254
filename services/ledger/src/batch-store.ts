// The engine's SQL: the state of one batch in, read under its lock, in one round trip: every statement is sent without
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
  Remembered,
  TransferFields,
  TransferKind,
} from "./books.ts";
import type { NormalSide } from "./chart.ts";
import type { BookState } from "./decide.ts";

/** Due holds that the sweeper expires in one batch. */
export const SWEEP_LIMIT = 1_000;

/** The state of what the groups name, and the lane as locked: its last batch. */
export type Reading = { readonly state: BookState; readonly previous: PreviousBatch | null };
export type PreviousBatch = { readonly sequence: bigint; readonly head: Buffer; readonly recorded_us: number };

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
  text: `select asset_id, book, sequence, head, ${micros("now")} as now_us,
      case when sequence > 0 then ${micros("recorded_at")} else 0 end as recorded_us
    from lanes, greatest(clock_timestamp(), recorded_at + interval '1 microsecond') as now where lane_id = $1`,
};

const ACCOUNT_COLUMNS = `account_id, code, normal_side, no_overdraft,
  debits_pending, debits_posted, credits_pending, credits_posted`;

const READ_ACCOUNTS: Prepared = {
  name: "ledger_read_accounts",
  text: `select ${ACCOUNT_COLUMNS} from balances where lane_id = $1 and code = any($2::text[])`,
};

// What a subquery finds is handed on as an array: few ids, looked up in an index, whatever the planner thinks of their
// number. A join may be planned as a scan of all accounts or holds.
const READ_HOLD_ACCOUNTS: Prepared = {
  name: "ledger_read_hold_accounts",
  text: `select ${ACCOUNT_COLUMNS} from balances where account_id = any(array(
    select unnest(array[debit_id, credit_id]) from holds where lane_id = $2 and hold_id = any($1::uuid[])))`,
};

const HOLD_COLUMNS = `h.hold_id, h.lane_id, l.asset_id, l.book, h.debit_id, h.credit_id, h.amount,
  ${millis("h.expires_at")} as expires_ms, h.state, h.captured, h.operation_id`;

const READ_HOLDS: Prepared = {
  name: "ledger_read_holds",
  text: `select ${HOLD_COLUMNS} from holds h join lanes l using (lane_id) where h.hold_id = any($1::uuid[])`,
};

// A second more than is due: the batch's time may be ahead of the clock by what a clock set back took away.
const DUE = "e.lane_id = $1 and e.expires_at <= clock_timestamp() + interval '1 second'";
const TOUCHED = "array(select account_id from accounts where lane_id = $1 and no_overdraft and code = any($2::text[]))";

const READ_DUE_TOUCHED: Prepared = {
  name: "ledger_read_due_touched",
  text: `select ${HOLD_COLUMNS} from holds h join lanes l using (lane_id) where h.hold_id = any(array(
    select e.hold_id from expiring_holds e where e.debit_id = any(${TOUCHED}) and ${DUE}
    union
    select e.hold_id from expiring_holds e where e.credit_id = any(${TOUCHED}) and ${DUE}))`,
};

const READ_DUE_LANE: Prepared = {
  name: "ledger_read_due_lane",
  text: `select ${HOLD_COLUMNS} from holds h join lanes l using (lane_id) where h.hold_id = any(array(
    select e.hold_id from expiring_holds e where ${DUE} order by e.expires_at limit ${SWEEP_LIMIT}))`,
};

const KNOWN_COLUMNS = `t.transfer_id, t.lane_id, t.kind, t.debit_id, t.credit_id, t.amount, t.hold_id,
  ${millis("t.expires_at")} as expires_ms, ${millis("t.effective_at")} as effective_ms, t.operation_id,
  ${micros("t.recorded_at")} as recorded_us`;

const READ_TAKEN: Prepared = {
  name: "ledger_read_taken",
  text: `select transfer_id from taken_ids where transfer_id = any($1::uuid[])`,
};

// Where each id is recorded tells its month and its row's key in it; the rows themselves have no index of their ids.
const recordedAs = (table: string) => `taken_ids i join ${table} t on t.lane_id = i.lane_id
    and t.recorded_at = i.recorded_at and t.position = i.position and t.transfer_id = i.transfer_id
    where i.transfer_id = any($1::uuid[])`;

const READ_KNOWN: Prepared = {
  name: "ledger_read_known",
  text: `select ${KNOWN_COLUMNS}, null as refused from ${recordedAs("transfers")}
    union all
    select ${KNOWN_COLUMNS}, result::text from ${recordedAs("refusals")}`,
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
  const [lanes, accounts, holdAccounts, holds, dueHolds, taken] = await Promise.all([
    tx.prepared<LaneRow>(READ_LANE, [lane_id]),
    tx.prepared<AccountRow>(READ_ACCOUNTS, [lane_id, codes]),
    named.holds.size > 0 ? tx.prepared<AccountRow>(READ_HOLD_ACCOUNTS, [hold_ids, lane_id]) : null,
    named.holds.size > 0 ? tx.prepared<HoldRow>(READ_HOLDS, [hold_ids]) : null,
    due === "lane"
      ? tx.prepared<HoldRow>(READ_DUE_LANE, [lane_id])
      : tx.prepared<HoldRow>(READ_DUE_TOUCHED, [lane_id, codes]),
    named.ids.size > 0 ? tx.prepared<TakenRow>(READ_TAKEN, [pgTextArray([...named.ids])]) : null,
    locked,
  ]);
  const accountById = new Map<number, Account>();
  for (const row of [...accounts.rows, ...(holdAccounts?.rows ?? [])]) addAccount(accountById, row);
  const holdById = new Map<string, Hold>();
  for (const row of [...(holds?.rows ?? []), ...dueHolds.rows]) holdById.set(row.hold_id, holdOf(row));
  await readMissingAccounts(tx, accountById, dueHolds.rows);
  const known = await readKnown(tx, taken?.rows ?? []);
  const laneRow = lanes.rows[0];
  const state: BookState = {
    lane: laneRow === undefined ? null : { lane_id, asset_id: laneRow.asset_id, book: laneRow.book },
    now_us: Number(laneRow?.now_us ?? 0n),
    accounts: [...accountById.values()],
    holds: [...holdById.values()],
    known,
  };
  if (laneRow === undefined) return { state, previous: null };
  const { sequence, head, recorded_us } = laneRow;
  return { state, previous: { sequence, head, recorded_us: Number(recorded_us) } };
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
  const text = `select ${ACCOUNT_COLUMNS} from balances where account_id = any($1::bigint[])`;
  const { rows } = await tx.query<AccountRow>(text, [pgNumArray(ids)]);
  for (const row of rows) addAccount(accounts, row);
}

/** One more round trip where there are repeats: most batches have none, and this one meets every month's tables. */
async function readKnown(tx: Tx, taken: readonly TakenRow[]): Promise<Map<string, Known>> {
  if (taken.length === 0) return new Map();
  const ids = pgTextArray(taken.map((row) => row.transfer_id));
  const { rows } = await tx.prepared<KnownRow>(READ_KNOWN, [ids]);
  return new Map(rows.map((row) => [row.transfer_id, knownOf(row)]));
}

type TakenRow = { transfer_id: string };
type LaneRow = { asset_id: string; book: Book; sequence: bigint; head: Buffer; recorded_us: bigint; now_us: bigint };
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
