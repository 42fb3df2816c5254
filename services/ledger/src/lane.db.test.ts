// The writer of a lane on real PostgreSQL: lost answers, and the order of batches that are decided again.

import assert from "node:assert/strict";
import { join } from "node:path";
import { after, test } from "node:test";
import type { Pool } from "@cauri/store/pool";
import { testDatabase } from "@cauri/store/testing";
import { readAccounts } from "./account-store.ts";
import type { GroupAnswer } from "./books.ts";
import { startEngine } from "./engine.ts";
import { LaneWriter, runBatch } from "./lane.ts";
import { FEES, FLOAT, hold, MERCHANT, openLane, own, post } from "./testing.ts";
import { verify } from "./verify.ts";

const database = await testDatabase("ledger", [join(import.meta.dirname, "../migrations")], { max: 12 });
const { pool } = database;
after(async () => {
  try {
    assert.deepEqual((await verify(pool)).problems, []);
  } finally {
    await database.close();
  }
});

let assets = 0;
/** A lane of its own for each test, with the usual accounts open. */
async function lane(): Promise<{ asset_id: string; lane_id: number }> {
  assets += 1;
  const asset_id = `ast_l${assets}`;
  return { asset_id, lane_id: await openLane(pool, asset_id) };
}

const resultsOf = (answers: readonly (GroupAnswer | Error)[]) =>
  answers.map((one) => (one instanceof Error ? assert.fail(one) : one.transfers.map(({ result }) => result).join()));

/** The pool, with something between each statement, told by its name or text, and its answer. */
function onEachQuery(between: (query: () => Promise<unknown>, statement: string) => Promise<unknown>): Pool {
  return new Proxy(pool, {
    get(target, name) {
      if (name !== "connect") return Reflect.get(target, name);
      return async () => {
        const client = await target.connect();
        const query = client.query.bind(client) as (...args: unknown[]) => Promise<unknown>;
        const changed = (first: string | { name: string }, ...rest: unknown[]) =>
          between(() => query(first, ...rest), typeof first === "string" ? first : first.name);
        return Object.assign(Object.create(client), { query: changed, release: () => client.release() });
      };
    },
  });
}

test("a commit whose answer was lost: the repeat answers that it stands, and books nothing more", async () => {
  const { asset_id, lane_id } = await lane();
  // The connection breaks after the commit has reached the server: what the caller sees is a fault, not an answer.
  const losing = onEachQuery(async (query, statement) => {
    const answer = await query();
    if (statement === "commit") throw new Error("Connection terminated unexpectedly");
    return answer;
  });
  const orders = own(asset_id, [post("a", FLOAT, MERCHANT, 5n), hold("h", MERCHANT, FLOAT, 2n)]);
  await assert.rejects(runBatch(losing, lane_id, [orders]), /Connection terminated/);
  assert.deepEqual(resultsOf(await startEngine({ pool }).post([orders])), ["exists,exists"]);
  const [merchant] = await readAccounts(pool, [{ code: MERCHANT, asset_id, book: "live" }]);
  assert.deepEqual([merchant?.credits_posted, merchant?.debits_pending], [5n, 2n]);
});

test("a lane that another replica has moved: what was remembered of it is forgotten, also of accounts that nobody names now", async () => {
  const { asset_id, lane_id } = await lane();
  const writer = new LaneWriter(pool, lane_id);
  const write = async (word: string, debit: string, credit: string, amount: bigint) => {
    const answers = await writer.post([own(asset_id, [post(word, debit, credit, amount)])]);
    assert.deepEqual(resultsOf(answers), ["ok"]);
  };
  await write("fund", FLOAT, MERCHANT, 10n);
  await startEngine({ pool }).post([own(asset_id, [post("rival", MERCHANT, FLOAT, 4n)])]);
  // It names an account that the writer doesn't remember, so the lane is read before it is tried.
  await write("fee", FLOAT, FEES, 1n);
  await write("back", MERCHANT, FLOAT, 1n);
  const [merchant] = await readAccounts(pool, [{ code: MERCHANT, asset_id, book: "live" }]);
  assert.deepEqual([merchant?.credits_posted, merchant?.debits_posted], [10n, 5n]);
});

test("a batch that is to be decided again: nobody who came after it is booked before it", async () => {
  const { asset_id, lane_id } = await lane();
  const writer = new LaneWriter(pool, lane_id);
  const rival = startEngine({ pool });
  const write = async (word: string, debit: string, credit: string, amount: bigint) => {
    const [answer] = await writer.post([own(asset_id, [post(word, debit, credit, amount)])]);
    return answer instanceof Error ? assert.fail(answer) : (answer?.transfers[0]?.result ?? assert.fail());
  };
  await writer.post([own(asset_id, [post("x", FLOAT, MERCHANT, 1n), post("y", MERCHANT, FEES, 1n)])]);
  for (let round = 0; round < 20; round += 1) {
    // Another replica moves the lane, so that what the writer remembers is worth nothing.
    await rival.post([own(asset_id, [post(`rival ${round}`, FLOAT, FEES, 1n)])]);
    const first = writer.post([
      own(asset_id, [post(`a${round}`, FLOAT, MERCHANT, 1n), post(`b${round}`, MERCHANT, FEES, 1n)]),
    ]);
    const funding = write(`fund ${round}`, FLOAT, MERCHANT, 5n);
    // In the very moment between the first one's answer and the second one's turn.
    const spending = first.then(() => write(`spend ${round}`, MERCHANT, FEES, 5n));
    assert.deepEqual(await Promise.all([funding, spending]), ["ok", "ok"]);
  }
});

test("a batch that is to be decided again: nobody is booked before one that was sent with it and has not heard yet", async () => {
  const { asset_id, lane_id } = await lane();
  // The second statement of those sent ahead hears its refusal only when the test says so.
  const late = Promise.withResolvers<void>();
  /** Below zero they are not counted. */
  let sent_ahead = -1;
  const slow = onEachQuery(async (query, statement) => {
    const answer = query();
    if (sent_ahead < 0 || statement !== "ledger_append") return answer;
    sent_ahead += 1;
    if (sent_ahead === 2) await Promise.allSettled([answer, late.promise]);
    return answer;
  });
  const writer = new LaneWriter(slow, lane_id);
  const write = (word: string, debit: string, credit: string, amount: bigint) =>
    writer.post([own(asset_id, [post(word, debit, credit, amount)])]);
  await write("x", FLOAT, MERCHANT, 1n);
  await write("y", MERCHANT, FEES, 1n);
  await startEngine({ pool }).post([own(asset_id, [post("rival", FLOAT, FEES, 1n)])]);
  sent_ahead = 0;
  // It reads every account anew, so that what comes after it could be decided at once.
  const first = writer.post([own(asset_id, [post("a", FLOAT, MERCHANT, 1n), post("b", MERCHANT, FEES, 1n)])]);
  const funding = write("fund", FLOAT, MERCHANT, 5n);
  assert.equal((await first).length, 1);
  const spending = write("spend", MERCHANT, FEES, 5n);
  late.resolve();
  const answers = [...(await funding), ...(await spending)].map((one) =>
    one instanceof Error ? assert.fail(one) : one,
  );
  assert.deepEqual(resultsOf(answers), ["ok", "ok"]);
});
