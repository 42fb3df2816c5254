import assert from "node:assert/strict";
import { test } from "node:test";
import type { PostingGroup } from "@cauri/money/posting";
import { type PostRequest, TransferResult, TransferState } from "@cauri/proto/ts/cauri/ledger/v1/ledger";
import { type LedgerClient, openPoster } from "./posting.ts";

const groupOf = (id: string): PostingGroup => ({
  asset_id: "ast_xof",
  postings: [
    { id, hold_id: "", kind: "post", debit: "float:plt_a", credit: "merchant:acct_a:plt_a", amount_minor: 5n },
  ],
});

/** A ledger that says when it booked what: the number of the call and the place in it. */
function tellingLedger() {
  const calls: PostRequest[] = [];
  const post = async (request: PostRequest) => {
    const call = calls.push(request);
    return {
      groups: request.groups.map((_, place) => ({
        accepted: true,
        transfers: [
          { result: TransferResult.OK, state: TransferState.POSTED, recordedAt: new Date(call * 1000 + place) },
        ],
      })),
    };
  };
  return { calls, client: { post } as unknown as LedgerClient };
}

test("poster: operations of one moment share a call, and each hears its own groups' answers", async () => {
  const { calls, client } = tellingLedger();
  const post = openPoster(client);
  const orders = ["a", "b", "c", "d", "e"].map((name, index) => ({
    operation: { id: `pay_${name}`, account: "acct_a", mode: "live" as const },
    groups: Array.from({ length: index + 1 }, (_, n) => groupOf(`${name}${n}`)),
  }));
  const answers = await Promise.all(orders.map((order) => post(order)));
  assert.ok(calls.length < orders.length, `${calls.length} calls`);
  const sent = calls.flatMap(({ groups }, index) =>
    groups.map((group, place) => [group.operationId, (index + 1) * 1000 + place] as const),
  );
  for (const [index, { operation }] of orders.entries()) {
    assert.deepEqual(
      answers[index]?.map(({ transfers }) => transfers[0]?.recordedAt?.getTime()),
      sent.filter(([id]) => id === operation.id).map(([, at]) => at),
    );
    assert.equal(answers[index]?.length, index + 1);
  }
});
