// The chain of a lane: each batch's SHA-256 covers the hash before it and the canonical form of all that the batch
// recorded, so a changed, missing or reordered row of the past is found by recomputing.

import { createHash } from "node:crypto";
import type { TransferFields } from "./books.ts";

const PLAIN = /^[\w.:-]*$/;

/** The head of a lane without any batch. */
export const GENESIS = Buffer.alloc(32);

/** A recorded row in the order of its batch; `word` is the group's id of a transfer, the result of a refusal. */
export type ChainRow = { readonly id: string; readonly word: string; readonly fields: TransferFields };

export type ChainBatch = {
  readonly previous: Uint8Array;
  readonly asset_id: string;
  readonly book: string;
  readonly sequence: bigint;
  readonly recorded_us: number;
  readonly transfers: readonly ChainRow[];
  readonly refusals: readonly ChainRow[];
};

/** The hash of a batch. Codes stand for accounts, so that an account which is renamed breaks the chain as well. */
export function hashBatch(batch: ChainBatch, codeOf: (account_id: number) => string): Buffer {
  const header = [batch.asset_id, batch.book, String(batch.sequence), batch.recorded_us, batch.transfers.length];
  const lines = [JSON.stringify(header)];
  for (const row of batch.transfers) lines.push(canonical(row, codeOf));
  for (const row of batch.refusals) lines.push(canonical(row, codeOf));
  return createHash("sha256").update(batch.previous).update(lines.join("\n")).digest();
}

/**
 * The JSON of a row's values, written by hand because it is most of what a batch computes. What is plain text to JSON is
 * all that the ledger ever writes; whatever else a tampered row holds is escaped, so there is one way to write a row.
 */
function canonical({ id, word, fields }: ChainRow, codeOf: (account_id: number) => string): string {
  const { kind, debit_id, credit_id, amount, hold_id, expires_ms, effective_ms, operation_id } = fields;
  const accounts = `${quote(codeOf(debit_id))},${quote(codeOf(credit_id))}`;
  const hold = hold_id === null ? "null" : quote(hold_id);
  return `[${quote(id)},"${kind}",${accounts},"${amount}",${hold},${expires_ms},${effective_ms},${quote(operation_id)},${quote(word)}]`;
}

function quote(text: string): string {
  return PLAIN.test(text) ? `"${text}"` : JSON.stringify(text);
}
