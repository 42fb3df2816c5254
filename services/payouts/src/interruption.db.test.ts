// A process dies before each of its effects in turn; whoever comes after it, and also two who come at once, must end
// where an undisturbed run ends, with the money sent under one reference.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { applyOutgoingNews } from "@cauri/events/outgoing-follow";
import { isRefusal } from "@cauri/money/refusal";
import { AttemptOutcome } from "@cauri/proto/ts/cauri/rails/v1/rails";
import { createPayout, payoutKind } from "./create.ts";
import { cancelPayout } from "./operate.ts";
import { callerOf, good, mortal, openTestRoom, payoutRequest, payoutState, type TestRoom } from "./testing.ts";

let room: TestRoom;
before(async () => {
  room = await openTestRoom();
});
after(() => room.close());

/** What the rail says to the call, and the news that follow it. */
type Story = {
  readonly name: string;
  readonly script: TestRoom["rails"]["script"];
  readonly news: (id: string) => Uint8Array[];
};

const PAID = { railAmountMinor: 10_000n, railCurrency: "XOF" };
const STORIES: readonly Story[] = [
  {
    name: "accepted, then paid",
    script: () => ({ outcome: AttemptOutcome.PENDING }),
    news: (id) => [room.rails.say(id, "success")],
  },
  {
    name: "accepted, then refused, then paid all the same",
    script: () => ({ outcome: AttemptOutcome.PENDING }),
    news: (id) => [room.rails.say(id, "failed", { failureCode: "payee_not_found" }), room.rails.say(id, "success")],
  },
  {
    name: "paid at once, then returned",
    script: () => ({ outcome: AttemptOutcome.SUCCESS, ...PAID }),
    news: (id) => [room.rails.say(id, "returned")],
  },
  {
    name: "accepted, then returned, which is heard before its success",
    script: () => ({ outcome: AttemptOutcome.PENDING }),
    news: (id) => [room.rails.say(id, "returned")],
  },
  {
    name: "failed at once",
    script: () => ({ outcome: AttemptOutcome.FAILED, failureCode: "limit_exceeded" }),
    news: () => [],
  },
  {
    name: "unknown, then found paid",
    script: () => ({ outcome: AttemptOutcome.UNKNOWN }),
    news: (id) => [room.rails.say(id, "success")],
  },
  {
    name: "another amount at first, then its own",
    script: () => ({ outcome: AttemptOutcome.SUCCESS, ...PAID, railAmountMinor: 7n }),
    news: (id) => [room.rails.say(id, "success")],
  },
  {
    name: "news overtake the answer",
    script: async ({ operationId }) => {
      await room.tellNews(room.rails.say(operationId, "success"));
      return { outcome: AttemptOutcome.PENDING };
    },
    news: () => [],
  },
];

async function undisturbed(story: Story) {
  room.rails.script = story.script;
  const { rooms, effects } = mortal(room.rooms, Number.POSITIVE_INFINITY);
  const { operation } = good(
    await createPayout(rooms, payoutRequest(), callerOf("po", { idempotency_key: story.name })),
  );
  const count = effects();
  const begun = await payoutState(room, operation.id);
  for (const news of story.news(operation.id)) await room.tellNews(news);
  const end = await payoutState(room, operation.id);
  assert.equal(end.books.held, 0, "no hold is left open at rest");
  return { count, begun, end };
}

/** Who comes after the dead process. The gateway's repeat carries the operation's id and takes over at once. */
const SUCCESSORS = {
  swept: () => room.sweep(),
  retried: async (again: () => Promise<unknown>) => void (await again()),
  "swept and retried at once": async (again: () => Promise<unknown>) => {
    await Promise.all([room.sweep(), again()]);
    await room.sweep();
  },
} as const;

for (const story of STORIES) {
  for (const [how, goOn] of Object.entries(SUCCESSORS)) {
    test(`create_payout, interrupted anywhere and ${how}: ${story.name}`, async () => {
      const { count, begun, end } = await undisturbed({ ...story, name: `${story.name} ${how}` });
      assert.ok(count >= 6, `${count} effects`);
      for (let dies_before = 1; dies_before <= count; dies_before += 1) {
        room.rails.script = story.script;
        const caller = callerOf("po", { idempotency_key: `${how} ${story.name} ${dies_before}` });
        const id = caller.operation ?? "";
        await assert.rejects(createPayout(mortal(room.rooms, dies_before).rooms, payoutRequest(), caller), /dead/);
        const again = () => createPayout(room.rooms, payoutRequest(), caller);
        await goOn(again);
        // Nothing was written yet: nothing is there, and the retry is the first request.
        if ((await room.claimOf(id)) === undefined) good(await again());
        assert.deepEqual(await payoutState(room, id), begun, `died before effect ${dies_before} of ${count}`);
        for (const news of story.news(id)) await room.tellNews(news, news);
        assert.deepEqual(await payoutState(room, id), end, `died before effect ${dies_before} of ${count}`);
        const replay = good(await again());
        assert.equal(replay.operation.id, id, "run twice, it is one payout");
      }
    });
  }

  test(`create_payout without key and client_ref, interrupted anywhere and swept: ${story.name}`, async () => {
    const { count, begun } = await undisturbed({ ...story, name: `${story.name}, unnamed` });
    for (let dies_before = 1; dies_before <= count; dies_before += 1) {
      room.rails.script = story.script;
      const caller = callerOf("po");
      const id = caller.operation ?? "";
      await assert.rejects(createPayout(mortal(room.rooms, dies_before).rooms, payoutRequest(), caller), /dead/);
      await room.sweep();
      const state = await payoutState(room, id);
      if (state.claim === undefined) {
        // Nobody could ever ask for it: released and erased, and nothing was sent.
        assert.deepEqual(state, {
          ...begun,
          status: null,
          failure_code: null,
          books: NOTHING,
          events: [],
          sent: 0,
          claim: undefined,
        });
      } else assert.deepEqual(state, begun, `died before effect ${dies_before} of ${count}`);
    }
  });

  test(`news, interrupted anywhere and delivered again: ${story.name}`, async () => {
    const { end } = await undisturbed({ ...story, name: `${story.name}, news` });
    for (let dies_before = 1; dies_before <= 6; dies_before += 1) {
      room.rails.script = story.script;
      const caller = callerOf("po", { idempotency_key: `news ${story.name} ${dies_before}` });
      const { id } = good(await createPayout(room.rooms, payoutRequest(), caller)).operation;
      const { rooms } = mortal(room.rooms, dies_before);
      for (const payload of story.news(id)) {
        await applyOutgoingNews(payoutKind, rooms, [{ payload }]).catch((error: unknown) =>
          assert.match(String(error), /dead/),
        );
        await Promise.all([room.tellNews(payload, payload), room.tellNews(payload)]);
      }
      assert.deepEqual(await payoutState(room, id), end, `died before effect ${dies_before}`);
    }
  });
}

const NOTHING = { moved: {}, held: 0 };

test("create_payout: too little money is refused wherever the first try died, and nothing stays", async () => {
  const request = payoutRequest({ amountMinor: 1_900_000_000n, clientRef: "too-much" });
  for (let dies_before = 1; dies_before <= 8; dies_before += 1) {
    const caller = callerOf("po", { idempotency_key: `poor ${dies_before}` });
    await createPayout(mortal(room.rooms, dies_before).rooms, request, caller).catch(() => {});
    await room.sweep();
    const answer = await createPayout(room.rooms, request, caller);
    assert.ok(isRefusal(answer) && answer.refused === "insufficient_funds");
    const state = await payoutState(room, caller.operation ?? "");
    assert.deepEqual([state.status, state.books, state.claim, state.sent], [null, NOTHING, undefined, 0]);
  }
});

test("cancel_payout, interrupted anywhere and repeated, while its merchant retries: cancelled once, released", async () => {
  for (let dies_before = 1; dies_before <= 5; dies_before += 1) {
    room.rails.script = () => ({ outcome: AttemptOutcome.UNAVAILABLE });
    const caller = callerOf("po", { idempotency_key: `cancel ${dies_before}` });
    const id = caller.operation ?? "";
    assert.ok(isRefusal(await createPayout(room.rooms, payoutRequest(), caller)));
    await cancelPayout(mortal(room.rooms, dies_before).rooms, id, "req").catch((error) =>
      assert.match(`${error}`, /dead/),
    );
    const retry = () => createPayout(room.rooms, payoutRequest(), caller);
    await Promise.all([cancelPayout(room.rooms, id, "req"), cancelPayout(room.rooms, id, "req"), retry()]);
    await room.sweep();
    assert.deepEqual(await payoutState(room, id), {
      status: "cancelled",
      failure_code: null,
      books: NOTHING,
      events: ["payout.cancelled"],
      claim: "done",
      sent: 0,
    });
  }
});

test("create_payout: nobody came back for ten minutes: withheld, failed, released, and a retry finds it so", async () => {
  for (let dies_before = 1; dies_before <= 6; dies_before += 1) {
    room.rails.script = () => ({ outcome: AttemptOutcome.REFUSED });
    const caller = callerOf("po", { idempotency_key: `given up ${dies_before}` });
    const id = caller.operation ?? "";
    assert.ok(isRefusal(await createPayout(room.rooms, payoutRequest(), caller)));
    await room.sweep(mortal(room.rooms, dies_before).rooms).catch(() => {});
    await room.sweep();
    const { status, failure_code, books, events, sent } = await payoutState(room, id);
    assert.deepEqual([status, failure_code, books, sent], ["failed", "operator_unavailable", NOTHING, 0]);
    assert.deepEqual(events, ["payout.failed"]);
    room.rails.script = () => ({ outcome: AttemptOutcome.PENDING });
    assert.equal(good(await createPayout(room.rooms, payoutRequest(), caller)).operation.status, "failed");
  }
});

test("news: a return that is heard without its success ends as one that was heard after it", async () => {
  const stateAfter = async (key: string, ...says: ("success" | "returned")[]) => {
    room.rails.script = () => ({ outcome: AttemptOutcome.PENDING });
    const caller = callerOf("po", { idempotency_key: key });
    const { id } = good(await createPayout(room.rooms, payoutRequest(), caller)).operation;
    for (const word of says) await room.tellNews(room.rails.say(id, word));
    return await payoutState(room, id);
  };
  const usual = await stateAfter("in order", "success", "returned");
  assert.deepEqual([usual.status, usual.events], ["refunded", ["payout.success", "payout.refunded"]]);
  assert.deepEqual(await stateAfter("alone", "returned"), usual);
  assert.deepEqual(await stateAfter("late", "returned", "success"), usual);
});

test("news: money that left after a failure and came back stands nowhere in the end, in whatever order it is heard", async () => {
  const stateAfter = async (key: string, ...order: (0 | 1 | 2)[]) => {
    room.rails.script = () => ({ outcome: AttemptOutcome.PENDING });
    const caller = callerOf("po", { idempotency_key: key });
    const { id } = good(await createPayout(room.rooms, payoutRequest(), caller)).operation;
    const said = [room.rails.say(id, "failed"), room.rails.say(id, "success"), room.rails.say(id, "returned")];
    for (const at of order) await room.tellNews(...said.slice(at, at + 1));
    const { status, books, events } = await payoutState(room, id);
    return [status, books, events];
  };
  const failed = ["failed", NOTHING, ["payout.failed"]];
  assert.deepEqual(await stateAfter("failed, late, back", 0, 1, 2), failed);
  assert.deepEqual(await stateAfter("failed, back, late", 0, 2, 1, 2, 1), failed);
});

test("create_payout: one of which nobody knows whether it arrived is looked after at once, others after two minutes", async () => {
  for (const [outcome, least_s, most_s] of [
    // A second after its answer, which a busy machine may take its time for.
    [AttemptOutcome.UNKNOWN, 1, 60],
    [AttemptOutcome.PENDING, 120, 120],
  ] as const) {
    room.rails.script = () => ({ outcome });
    const caller = callerOf("po", { idempotency_key: `look ${least_s}` });
    const { id } = good(await createPayout(room.rooms, payoutRequest(), caller)).operation;
    const { rows } = await room.db.pool.query<{ status: string; seconds: number }>(
      `select status, extract(epoch from check_at - created_at)::float8 as seconds from payouts where id = $1`,
      [id],
    );
    const { status, seconds = 0 } = rows[0] ?? {};
    assert.equal(status, "pending");
    assert.ok(seconds >= least_s && seconds <= most_s, `${seconds} s`);
  }
});
