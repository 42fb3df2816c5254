// Refunds in SQL: the first rows, written under the lock of their payments; all else is what every table of outgoing
// operations has. What a refund reserves of its payment, and what it has given back, is written in its own transactions.

import { move } from "@cauri/money/moves";
import { isRefusal, type Refusal } from "@cauri/money/refusal";
import { nowBy } from "@cauri/store/clock";
import { appendEvents } from "@cauri/store/outbox";
import { type OutgoingTable, outgoingTable } from "@cauri/store/outgoing-table";
import type { Tx } from "@cauri/store/pool";
import { type Payment, paymentMoves } from "./payment.ts";
import { decideRefund, type Refund } from "./refund.ts";
import { countRefunds, lockPayments, type RefundCount } from "./store.ts";
import { eventOf } from "./view.ts";

/** What the merchant asks for; the rest follows from the payment. */
export type NewRefund = Pick<
  Refund,
  "id" | "account" | "mode" | "reference" | "client_ref" | "payment_id" | "reason" | "metadata"
> & {
  /** Undefined: what remains. */
  readonly amount_minor: bigint | undefined;
};

type Row = Omit<Refund, "fee_minor" | "forced" | "description" | "gives_back"> & {
  readonly n: bigint | null;
  readonly check_at: Date;
  readonly payment_reference: string;
};

const table: OutgoingTable<Refund> = outgoingTable("refund", (row) => refundOf(row as unknown as Row));

export const refunds: OutgoingTable<Refund> = {
  ...table,
  async move(tx, moves) {
    const rows = await table.move(tx, moves);
    const ended = rows.filter((row, at) => row !== null && isOpen(moves[at]?.operation) && !isOpen(row));
    await countEnded(
      tx,
      ended.filter((row) => row !== null),
    );
    return rows;
  },
  async erase(tx, id) {
    const erased = await table.erase(tx, id);
    if (erased !== null) await countEnded(tx, [erased]);
    return erased;
  },
};

/** Drafts with their part of the payment reserved, in the order in which they were given; a refusal where none is left. */
export async function insertRefunds(tx: Tx, drafts: readonly NewRefund[]): Promise<(Refund | Refusal)[]> {
  const payments = await lockPayments(
    tx,
    drafts.map(({ payment_id }) => payment_id),
  );
  const decided = drafts.map((draft) => {
    const payment = payments.get(draft.payment_id);
    const amount_minor = decideRefund(payment, draft.amount_minor);
    if (payment === undefined || isRefusal(amount_minor)) return amount_minor as Refusal;
    // The next draft of this payment finds what this one takes.
    payments.set(payment.id, { ...payment, refunding_minor: payment.refunding_minor + amount_minor });
    return { draft, payment, amount_minor };
  });
  const accepted = decided.flatMap((one) => (isRefusal(one) ? [] : [one]));
  const inserted = await insertAll(tx, accepted);
  await countRefunds(
    tx,
    accepted.map(({ payment, amount_minor }) => ({ payment_id: payment.id, reserved: amount_minor, given_back: 0n })),
  );
  return decided.map((one) => {
    if (isRefusal(one)) return one;
    const refund = inserted.get(one.draft.id);
    if (refund === undefined) throw new Error("an insert of refunds returned no row");
    return refund;
  });
}

type Accepted = { readonly draft: NewRefund; readonly payment: Payment; readonly amount_minor: bigint };

async function insertAll(tx: Tx, accepted: readonly Accepted[]): Promise<Map<string, Refund>> {
  if (accepted.length === 0) return new Map();
  const { rows } = await tx.query<Row>(
    `insert into refunds (
       id, account, mode, reference, client_ref, payment_id, payment_reference, status, amount_minor, asset_id, currency,
       scale, platform_id, rails, merchant_name, reason, metadata, check_at, created_at, updated_at)
     select d.id, d.account, d.mode, d.reference, d.client_ref, d.payment_id, d.payment_reference, 'draft', d.amount_minor,
            d.asset_id, d.currency, d.scale, d.platform_id, d.rails, d.merchant_name, d.reason, d.metadata,
            ${nowBy("c")}, ${nowBy("c")}, ${nowBy("c")}
       from json_to_recordset($1::json) as d (
         id text, account text, mode text, reference text, client_ref text, payment_id text, payment_reference text,
         amount_minor bigint, asset_id text, currency text, scale smallint, platform_id text, rails text[],
         merchant_name text, reason text, metadata json)
       left join clocks c on c.account = d.account and d.mode = 'test'
     returning *`,
    [JSON.stringify(accepted.map(inJson))],
  );
  return new Map(rows.map((row) => [row.id, refundOf(row)]));
}

/** A JSON number would not hold every amount of a bigint. Only the rail that collected can give back. */
function inJson({ draft, payment, amount_minor }: Accepted): object {
  const { asset_id, currency, scale, platform_id, merchant_name, rail, rails, reference } = payment;
  return {
    ...draft,
    ...{ asset_id, currency, scale, platform_id, merchant_name },
    amount_minor: String(amount_minor),
    payment_reference: reference,
    rails: rail === null ? rails : [rail],
  };
}

/** What ended refunds had reserved is free again, or given back; a payment that is given back whole has become refunded. */
async function countEnded(tx: Tx, ended: readonly Refund[]): Promise<void> {
  if (ended.length === 0) return;
  const counts = ended.map(
    ({ payment_id, amount_minor, status }): RefundCount => ({
      payment_id,
      reserved: -amount_minor,
      given_back: status === "success" ? amount_minor : 0n,
    }),
  );
  const { event } = move(paymentMoves, "success", "refund") ?? { event: null };
  if (event === null) throw new Error("the table of payments tells nothing of a full refund");
  const refunded = await countRefunds(tx, counts);
  await appendEvents(
    tx,
    refunded.map((payment) => eventOf(payment, "payment.refunded")),
  );
}

function isOpen(refund: Refund | undefined | null): boolean {
  return refund !== undefined && refund !== null && ["draft", "initiated", "pending"].includes(refund.status);
}

function refundOf({ n: _n, check_at: _check_at, payment_reference, ...refund }: Row): Refund {
  return {
    ...refund,
    fee_minor: 0n,
    forced: true,
    description: null,
    gives_back: { operation_id: refund.payment_id, reference: payment_reference },
  };
}
