// The canonical form: what a hash covers must not depend on how it is written down.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import fc from "fast-check";
import type { TransferFields } from "./books.ts";
import { GENESIS, hashBatch } from "./chain.ts";

const text = fc.oneof(fc.string(), fc.constantFrom('a"', "b\\", "c\n", "é", "pay_01", ""));
const time = fc.option(fc.integer());

test("hash: covers the JSON of every value, whatever a tampered row holds", () => {
  fc.assert(
    fc.property(text, text, text, text, fc.option(text), time, time, fc.bigInt(), (...values) => {
      const [id, word, operation_id, code, hold_id, expires_ms, effective_ms, amount] = values;
      const fields: TransferFields = {
        ...{ lane_id: 1, kind: "post", debit_id: 1, credit_id: 2, amount, hold_id },
        ...{ expires_ms, effective_ms, operation_id },
      };
      const batch = {
        asset_id: "ast_xof",
        book: "live",
        sequence: 7n,
        recorded_us: 5,
        transfers: [{ id, word, fields }],
      };
      const hash = hashBatch({ ...batch, previous: GENESIS, refusals: [] }, (account) => `${code}${account}`);
      const row = [
        id,
        "post",
        `${code}1`,
        `${code}2`,
        `${amount}`,
        hold_id,
        expires_ms,
        effective_ms,
        operation_id,
        word,
      ];
      const lines = [["ast_xof", "live", "7", 5, 1], row].map((line) => JSON.stringify(line)).join("\n");
      assert.equal(hash.toString("hex"), createHash("sha256").update(GENESIS).update(lines).digest("hex"));
    }),
  );
});
