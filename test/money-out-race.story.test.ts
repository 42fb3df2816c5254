// 200 payouts, transfers and refunds at once on a balance for 50 of them: exactly what fits succeeds, and the ledger's own
// entries show that the balance was never below zero.

import assert from "node:assert/strict";
import { test } from "node:test";
import { balance, fund, merchant, operate, paymentBody, payoutBody } from "./house.ts";

const CALLS = 200;
const FITTING = 50;
/** With the payout's fee of 1 % each call takes the same from the balance. */
const AMOUNT = 10_000;
const TAKEN = 10_100;

test("200 at once on a balance for 50: 50 succeed, 150 are refused, never below zero", async () => {
  const [from, to] = [await merchant("Race"), await merchant("Race receiver")];
  const options = [{ name: "internal_transfers", on: true }];
  await operate("cauri.accounts.v1.AccountService/SetAccount", { account_id: from.account_id, options });
  // One large payment whose parts are refunded; what it brings is paid out again, so that the balance is for 50.
  const large = paymentBody("14", { amount_minor: 2_000_000 });
  const payment = (await from.test.post("/v1/payments", large)).body;
  const brought = { amount_minor: payment.net_minor, asset_id: "ast_xof", platform_id: "plt_mtn_ci" };
  const emptied = { ...brought, destination_account_id: to.account_id };
  assert.equal((await from.test.post("/v1/transfers", emptied)).status, 201);
  const before = (await balance(from.test)).available_minor;
  assert.equal(before, 0);
  await fund(from.account_id, FITTING * TAKEN);
  const transfer = { amount_minor: TAKEN, asset_id: "ast_xof", platform_id: "plt_mtn_ci" };
  const answers = await Promise.all(
    Array.from({ length: CALLS }, (_, at) => {
      if (at % 3 === 0) return from.test.post("/v1/payouts", payoutBody("04", { amount_minor: AMOUNT }));
      if (at % 3 === 1) return from.test.post("/v1/refunds", { payment_id: payment.id, amount_minor: TAKEN });
      return from.test.post("/v1/transfers", { ...transfer, destination_account_id: to.account_id });
    }),
  );
  const created = answers.filter(({ status }) => status === 201);
  const refused = answers.filter(({ status, body }) => status === 422 && body.error.code === "insufficient_funds");
  assert.deepEqual([created.length, refused.length], [FITTING, CALLS - FITTING]);
  const counted = (object: string) => created.filter(({ body }) => body.object === object).length;
  const [payouts, refunds, transfers] = [counted("payout"), counted("refund"), counted("transfer")];
  assert.equal((await from.test.get("/v1/payouts")).body.total, payouts);
  assert.equal((await from.test.get("/v1/refunds")).body.total, refunds);
  assert.equal((await from.test.get("/v1/transfers")).body.total, transfers + 1);
  const { available_minor, reserved_minor } = await balance(from.test);
  assert.deepEqual([available_minor, reserved_minor], [0, (payouts + refunds) * TAKEN]);
  const book = { code: `merchant:${from.account_id}:plt_mtn_ci`, asset_id: "ast_xof", book: "BOOK_TEST", limit: 500 };
  const { data } = await operate("cauri.ledger.v1.BooksService/ListEntries", book);
  assert.ok(data.length > FITTING);
  for (const { after, transferId } of data) {
    assert.ok(BigInt(after.availableMinor ?? 0) >= 0n, `${transferId} left ${after.availableMinor}`);
  }
});
