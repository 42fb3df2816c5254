// A transfer as it was recorded, with its group and its operation; or the refusal that is remembered for its id.

import type { Queryable } from "@cauri/store/pool";
import type { Book, HoldState, Remembered, TransferKind, TransferState } from "./books.ts";
import { preferIndexes } from "./verify-store.ts";

/** Transfers of an operation that are told: far more than any operation of the house has. */
const MAX_OPERATION = 200;

export type BookedRow = {
  readonly transfer_id: string;
  readonly lane_id: number;
  readonly asset_id: string;
  readonly book: Book;
  readonly kind: TransferKind;
  readonly debit_code: string;
  readonly credit_code: string;
  readonly amount: bigint;
  readonly hold_id: string | null;
  readonly expires_at: Date | null;
  readonly effective_at: Date | null;
  readonly recorded_at: Date;
  readonly recorded_text: string;
  readonly operation_id: string;
  readonly group_id: string | null;
  readonly sequence: bigint;
  readonly position: number;
  /** Null for a refusal. */
  readonly state: TransferState | null;
  readonly refused: Remembered | null;
};

export type TransferAndKin = {
  readonly transfer: BookedRow;
  readonly group: readonly BookedRow[];
  readonly operation: readonly BookedRow[];
};

const COLUMNS = `t.transfer_id, t.lane_id, l.asset_id, l.book, t.kind, d.code as debit_code, c.code as credit_code, t.amount,
  t.hold_id, t.expires_at, t.effective_at, t.recorded_at, t.recorded_at::text as recorded_text, t.operation_id,
  t.sequence, t.position`;
const NAMES = `join lanes l using (lane_id) join accounts d on d.account_id = t.debit_id
  join accounts c on c.account_id = t.credit_id`;

const SELECT_TRANSFERS = `select ${COLUMNS}, t.group_id, null as refused, h.state as hold_state,
    h.state = 'held' and h.expires_at <= clock_timestamp() as is_due
  from transfers t ${NAMES} left join holds h on t.kind = 'hold' and h.hold_id = t.transfer_id`;
const SELECT_REFUSALS = `select ${COLUMNS}, null as group_id, t.result as refused, null as hold_state, false as is_due
  from refusals t ${NAMES}`;

type Taken = { readonly lane_id: number; readonly recorded_text: string; readonly position: number };
const SELECT_TAKEN = `select lane_id, recorded_at::text as recorded_text, position from taken_ids
  where transfer_id = $1::uuid`;
const BY_KEY = `where t.transfer_id = $1::uuid and t.lane_id = $2 and t.recorded_at = $3::timestamptz and t.position = $4`;

/** Null where the id is unknown. */
export async function readTransfer(tx: Queryable, transfer_id: string): Promise<TransferAndKin | null> {
  const [taken] = (await tx.query<Taken>(SELECT_TAKEN, [transfer_id])).rows;
  if (taken === undefined) return null;
  const key = [transfer_id, taken.lane_id, taken.recorded_text, taken.position];
  const [stands, refused] = await Promise.all([
    tx.query<Row>(`${SELECT_TRANSFERS} ${BY_KEY}`, key),
    tx.query<Row>(`${SELECT_REFUSALS} ${BY_KEY}`, key),
  ]);
  const row = stands.rows[0] ?? refused.rows[0];
  if (row === undefined) return null;
  await preferIndexes(tx);
  const [group, operation] = await Promise.all([
    // A group is of one batch, so its instant finds it without an index on groups.
    tx.query<Row>(
      `${SELECT_TRANSFERS} where t.lane_id = $1 and t.recorded_at = $2::timestamptz and t.group_id = $3::uuid
       order by t.position`,
      [row.lane_id, row.recorded_text, row.group_id],
    ),
    tx.query<Row>(
      `${SELECT_TRANSFERS} where t.operation_id = $1 and l.book = $2::book
       order by t.recorded_at, t.lane_id, t.position limit $3`,
      [row.operation_id, row.book, MAX_OPERATION],
    ),
  ]);
  return { transfer: bookedOf(row), group: group.rows.map(bookedOf), operation: operation.rows.map(bookedOf) };
}

type Row = Omit<BookedRow, "state"> & { readonly hold_state: HoldState | null; readonly is_due: boolean | null };

const STATES: Readonly<Record<Exclude<TransferKind, "hold">, TransferState>> = {
  post: "posted",
  capture: "captured",
  release: "released",
  expire: "expired",
};

function bookedOf({ hold_state, is_due, ...row }: Row): BookedRow {
  const state = row.kind === "hold" ? (is_due ? "expired" : hold_state) : STATES[row.kind];
  return { ...row, state: row.refused === null ? state : null };
}
