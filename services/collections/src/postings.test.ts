import assert from "node:assert/strict";
import test from "node:test";
import { deriveUuid, newId } from "@cauri/money/ids";
import type { PostingGroup } from "@cauri/money/posting";
import { groupsOf, suspenseGroup } from "./postings.ts";

const PAYMENT = {
  id: newId("pay", 1_790_000_000_000),
  account: "acct_x",
  platform_id: "plt_a",
  asset_id: "ast_xof",
  amount_minor: 1500n,
  fee_minor: 23n,
};

function written(groups: readonly PostingGroup[]): string[] {
  return groups.map(({ postings }) =>
    postings.map(({ kind, debit, credit, amount_minor }) => `${kind} ${debit}>${credit} ${amount_minor}`).join(" + "),
  );
}

test("postings: each step is what the table of the ledger's page says", () => {
  assert.deepEqual(written(groupsOf(PAYMENT, "hold")), ["hold float:plt_a>merchant:acct_x:plt_a 1500"]);
  assert.deepEqual(written(groupsOf(PAYMENT, "capture")), ["capture > 0 + post merchant:acct_x:plt_a>fees 23"]);
  assert.deepEqual(written(groupsOf(PAYMENT, "release")), ["release > 0"]);
  assert.deepEqual(written(groupsOf(PAYMENT, "post_late")), [
    "post float:plt_a>merchant:acct_x:plt_a 1500 + post merchant:acct_x:plt_a>fees 23",
  ]);
  assert.deepEqual(written([suspenseGroup(PAYMENT, { amount_minor: 7n, asset_id: "ast_ghs" })]), [
    "post float:plt_a>suspense:plt_a 7",
  ]);
});

test("postings: from initiated the hold comes first, under its one id", () => {
  for (const step of ["hold_capture", "hold_release"] as const) {
    const [first, second] = groupsOf(PAYMENT, step);
    assert.deepEqual(first, groupsOf(PAYMENT, "hold")[0]);
    assert.equal(second?.postings[0]?.hold_id, deriveUuid(PAYMENT.id, "hold"));
  }
});

test("postings: a fee of zero has no leg", () => {
  assert.deepEqual(written(groupsOf({ ...PAYMENT, fee_minor: 0n }, "capture")), ["capture > 0"]);
});

test("postings: ids of the steps differ and repeat", () => {
  const ids = () =>
    (["hold", "capture", "release", "post_late"] as const)
      .flatMap((step) => groupsOf(PAYMENT, step))
      .flatMap(({ postings }) => postings.map(({ id }) => id));
  assert.equal(new Set(ids()).size, ids().length);
  assert.deepEqual(ids(), ids());
});
