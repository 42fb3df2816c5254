// Withdrawal requests in SQL. Decisions are made one by one by people, so every statement is about one row; each write of a
// state names the state it came from, or someone else was first.

import { type OutgoingMove, type OutgoingTable, outgoingTable } from "@cauri/store/outgoing-table";
import type { Queryable, Tx } from "@cauri/store/pool";
import type { Withdrawal } from "./withdrawal.ts";

export type NewWithdrawal = Omit<
  Withdrawal,
  | "status"
  | "amount_minor"
  | "rail"
  | "rails"
  | "forced"
  | "description"
  | "decision_note"
  | "approval"
  | "failure_code"
  | "version"
  | "rail_version"
  | "created_at"
  | "updated_at"
  | "decided_at"
  | "paid_at"
>;

type Row = Omit<Withdrawal, "forced" | "description"> & { readonly n: bigint; readonly check_at: Date };

const shared = outgoingTable<Withdrawal>("withdrawal", (row) => withdrawalOf(row as unknown as Row));

/** Like every table of what goes out, but for what follows a person's decision instead of a draft. */
export const withdrawals: OutgoingTable<Withdrawal> = { ...shared, move: moveWithdrawals, takeDue: takeDueWithdrawals };

/** Recorded and in its list at once: it holds nothing, so it has no draft. */
export async function insertWithdrawal(tx: Tx, asked: NewWithdrawal): Promise<Withdrawal> {
  const { rows } = await tx.query<Row>(
    `insert into withdrawals (id, account, mode, n, reference, client_ref, status, requested_minor, fee_minor,
                              asset_id, currency, scale, from_platform_id, platform_id, merchant_name, note, metadata, destination,
                              kept_as, check_at, created_at, updated_at)
     select $1, $2, $3, t.n, $4, $5, 'requested', $6, $7, $8, $9, $10, $11, $12, $13, $14, $15::json, $16::json,
            $17, t.created_at, t.created_at, t.created_at
       from number_rows('withdrawal', array[$2::text], array[$3::text]) t
     returning *`,
    [
      asked.id,
      asked.account,
      asked.mode,
      asked.reference,
      asked.client_ref,
      asked.requested_minor,
      asked.fee_minor,
      asked.asset_id,
      asked.currency,
      asked.scale,
      asked.from_platform_id,
      asked.platform_id,
      asked.merchant_name,
      asked.note,
      asked.metadata === null ? null : JSON.stringify(asked.metadata),
      JSON.stringify(asked.destination),
      asked.kept_as,
    ],
  );
  return theOne(rows, asked.id);
}

/** Locks a request, so that one decision about it is made at a time. */
export async function lockWithdrawal(tx: Tx, id: string): Promise<Withdrawal> {
  const { rows } = await tx.query<Row>("select * from withdrawals where id = $1 for no key update", [id]);
  return theOne(rows, id);
}

/** Whether an approval of this name is under way. */
export async function isUnderWay(tx: Tx, operation_id: string): Promise<boolean> {
  const { rows } = await tx.query("select from claims where operation_id = $1 and state <> 'done'", [operation_id]);
  return rows.length > 0;
}

/** A further approval of a locked request begins. */
export async function beginApproval(
  tx: Tx,
  id: string,
  given: { readonly rails: readonly string[]; readonly note: string | null },
): Promise<Withdrawal> {
  const { rows } = await tx.query<Row>(
    `update withdrawals set approval = approval + 1, version = version + 1, rails = $2, decision_note = $3 where id = $1 returning *`,
    [id, given.rails, given.note],
  );
  return theOne(rows, id);
}

/** The approval was refused: nothing of its note stays. */
export async function endApproval(tx: Tx, id: string): Promise<void> {
  await tx.query(
    "update withdrawals set decision_note = null, version = version + 1 where id = $1 and status = 'requested'",
    [id],
  );
}

/** requested -> approved, once its holds stand; null: it was not requested any more. */
export async function writeApproved(tx: Tx, id: string, check_in_ms: number): Promise<Withdrawal | null> {
  const { rows } = await tx.query<Row>(
    `update withdrawals
        set status = 'approved', version = version + 1, decided_at = greatest(updated_at, now_of(account, mode)),
            updated_at = greatest(updated_at, now_of(account, mode)),
            check_at = now_of(account, mode) + $2 * interval '1 millisecond'
      where id = $1 and status = 'requested' returning *`,
    [id, check_in_ms],
  );
  return rows[0] === undefined ? null : withdrawalOf(rows[0]);
}

/** requested -> rejected, of a locked request. */
export async function writeRejected(tx: Tx, id: string, note: string | null): Promise<Withdrawal> {
  const { rows } = await tx.query<Row>(
    `update withdrawals
        set status = 'rejected', version = version + 1, decision_note = $2, decided_at = greatest(updated_at, now_of(account, mode)),
            updated_at = greatest(updated_at, now_of(account, mode))
      where id = $1 and status = 'requested' returning *`,
    [id, note],
  );
  return theOne(rows, id);
}

/** Moves withdrawals on, each from the state and version in which it was read; null: someone else was first. */
async function moveWithdrawals(tx: Tx, moves: readonly OutgoingMove<Withdrawal>[]): Promise<(Withdrawal | null)[]> {
  const moved: (Withdrawal | null)[] = [];
  for (const { operation: from, change } of moves) {
    const { rows } = await tx.query<Row>(
      `update withdrawals w
          set status = $4, version = w.version + 1, failure_code = $5, rail_version = greatest(w.rail_version, $6::bigint),
              rail = coalesce($7, w.rail), updated_at = greatest(w.updated_at, now_of(w.account, w.mode)),
              paid_at = case when $4 = 'paid' then coalesce(w.paid_at, greatest(w.updated_at, now_of(w.account, w.mode))) end
        where id = $1 and status = $2 and version = $3
       returning *`,
      [from.id, from.status, from.version, change.to, change.failure_code, change.rail_version, change.rail],
    );
    moved.push(rows[0] === undefined ? null : withdrawalOf(rows[0]));
  }
  return moved;
}

/**
 * Approved and processing ones to be looked after, of one account or of all; each is put off by `again_ms`, so that one
 * process at a time has it and a crash only delays it. They are few: each was approved by a person.
 */
async function takeDueWithdrawals(
  db: Queryable,
  options: { readonly limit: number; readonly again_ms: number; readonly account?: string },
): Promise<Withdrawal[]> {
  const { rows } = await db.query<Row>(
    `update withdrawals w set check_at = now_of(w.account, w.mode) + $2 * interval '1 millisecond'
      where w.id in (select q.id from withdrawals q
                      where q.status in ('approved', 'processing') and ($3::text is null or q.account = $3)
                        and q.check_at <= now_of(q.account, q.mode)
                      limit $1 for no key update skip locked)
     returning *`,
    [options.limit, options.again_ms, options.account ?? null],
  );
  return rows.map(withdrawalOf);
}

function theOne(rows: readonly Row[], id: string): Withdrawal {
  const [row] = rows;
  if (row === undefined) throw new Error(`withdrawal ${id} is not as it was read under its lock`);
  return withdrawalOf(row);
}

function withdrawalOf({ n: _n, check_at: _check_at, ...withdrawal }: Row): Withdrawal {
  return { ...withdrawal, forced: false, description: null };
}
