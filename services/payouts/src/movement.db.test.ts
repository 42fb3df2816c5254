// A transfer or rebalance whose process dies before each of its effects in turn: it is always finished, once.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { merchantCode } from "@cauri/money/posting";
import { isRefusal } from "@cauri/money/refusal";
import { register } from "@cauri/rpc/metrics";
import { createRebalance, createTransfer } from "./movement-create.ts";
import { listSeen } from "./movement-store.ts";
import type { PayoutRooms } from "./service.ts";
import { ACCOUNT, callerOf, good, MTN, mortal, ORANGE, openTestRoom, RECEIVER, type TestRoom } from "./testing.ts";

let room: TestRoom;
before(async () => {
  room = await openTestRoom();
});
after(() => room.close());

const [OURS, THEIRS] = [merchantCode(ACCOUNT, MTN), merchantCode(RECEIVER, MTN)];
const AMOUNT = 10_000;

const KINDS = {
  transfer: {
    prefix: "tr",
    create: (rooms: PayoutRooms, caller: ReturnType<typeof callerOf>, amountMinor = BigInt(AMOUNT)) =>
      createTransfer(
        rooms,
        { amountMinor, assetId: "ast_xof", platformId: MTN, destinationAccountId: RECEIVER },
        caller,
      ),
    moved: { [OURS]: -AMOUNT, [THEIRS]: AMOUNT },
  },
  rebalance: {
    prefix: "rb",
    create: (rooms: PayoutRooms, caller: ReturnType<typeof callerOf>, amountMinor = BigInt(AMOUNT)) =>
      createRebalance(rooms, { amountMinor, assetId: "ast_xof", fromPlatformId: MTN, toPlatformId: ORANGE }, caller),
    moved: {
      [OURS]: -AMOUNT,
      [`interplatform:${MTN}`]: AMOUNT,
      [`interplatform:${ORANGE}`]: -AMOUNT,
      [merchantCode(ACCOUNT, ORANGE)]: AMOUNT,
    },
  },
} as const;

for (const kind of ["transfer", "rebalance"] as const) {
  const { prefix, create, moved } = KINDS[kind];
  const listed = async (account = ACCOUNT) => {
    const query = { account, mode: "test", page: 1, per_page: 100 } as const;
    return (await listSeen(room.db.pool, kind, query)).rows.map(({ id }) => id);
  };

  const counted = async () => {
    const text = await register.getSingleMetricAsString("cauri_movements_done_total");
    return Number(new RegExp(`kind="${kind}"} (\\d+)`).exec(text)?.[1] ?? 0);
  };

  for (const named of [true, false]) {
    test(`create_${kind}${named ? "" : " without a key"}, interrupted anywhere: swept and retried at once`, async () => {
      const { rooms, effects } = mortal(room.rooms, Number.POSITIVE_INFINITY);
      good(await create(rooms, callerOf(prefix)));
      const count = effects();
      const uncounted = (await listed()).length - (await counted());
      for (let dies_before = 1; dies_before <= count; dies_before += 1) {
        const caller = callerOf(prefix, named ? { idempotency_key: `${kind} ${dies_before}` } : {});
        const id = caller.operation ?? "";
        await create(mortal(room.rooms, dies_before).rooms, caller).catch((error) => assert.match(`${error}`, /dead/));
        await Promise.all([room.sweep(), create(room.rooms, caller), create(room.rooms, caller)]);
        await room.sweep();
        assert.deepEqual(room.ledger.booksOf(id), { moved, held: 0 }, `died before effect ${dies_before} of ${count}`);
        assert.equal(await room.claimOf(id), "done");
        assert.equal((await listed()).filter((one) => one === id).length, 1);
        if (kind === "transfer") assert.equal((await listed(RECEIVER)).filter((one) => one === id).length, 1);
      }
      assert.equal((await listed()).length - (await counted()), uncounted, "each is counted once");
    });
  }

  test(`create_${kind}: beyond the balance is refused wherever the first try died, and nothing stays`, async () => {
    const before = (await listed()).length;
    for (let dies_before = 1; dies_before <= 6; dies_before += 1) {
      const caller = callerOf(prefix, { idempotency_key: `poor ${kind} ${dies_before}` });
      await create(mortal(room.rooms, dies_before).rooms, caller, 2_000_000_000n).catch(() => {});
      await room.sweep();
      const answer = await create(room.rooms, caller, 2_000_000_000n);
      assert.ok(isRefusal(answer) && answer.refused === "insufficient_funds");
      assert.equal(await room.claimOf(caller.operation ?? ""), undefined);
    }
    assert.equal((await listed()).length, before);
  });
}
