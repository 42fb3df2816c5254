// The proof: random histories on real PostgreSQL, answer for answer those of the plain model, and books that add up.
// CAURI_HISTORIES says how many, CAURI_SEED which ones; `npm run prove` runs as many as one likes.

import assert from "node:assert/strict";
import { randomInt, randomUUID } from "node:crypto";
import { join } from "node:path";
import { after, test } from "node:test";
import { startLoop } from "@cauri/store/sweeper";
import { testDatabase } from "@cauri/store/testing";
import fc from "fast-check";
import { openAccounts, readAccounts } from "./account-store.ts";
import type { TransferOrder } from "./books.ts";
import { carryBalances } from "./carry-store.ts";
import { startEngine } from "./engine.ts";
import { type Bench, openHistories, runHistory } from "./histories-testing.ts";
import { FLOAT, group, histories, order } from "./testing.ts";
import { verify } from "./verify.ts";

const HISTORIES = Number(process.env["CAURI_HISTORIES"] ?? "2000");
const SEED = process.env["CAURI_SEED"];
/** Side by side in lanes of their own: enough to keep the database busy while each waits for its answers. */
const AT_ONCE = 50;

const database = await testDatabase("ledger", [join(import.meta.dirname, "../migrations")], { max: 16 });
const { pool } = database;
const bench: Bench = { pool, engines: [startEngine({ pool }), startEngine({ pool })] };
// Beside all of them, so that what is read is now in the rows, now in the entries and now in both.
const faults: unknown[] = [];
const carry = startLoop({
  ...{ name: "carry", every_ms: 100, work: () => carryBalances(pool) },
  log: { error: (fault) => void faults.push(fault) },
});
after(async () => {
  await carry.stop();
  await database.close();
});

test(`histories: ${HISTORIES} of them are answered as the plain model answers them`, {
  timeout: 3_600_000,
}, async () => {
  let run = 0;
  const history = histories({ words: 10, steps: 8, start_ms: 0 });
  await fc.assert(
    fc.asyncProperty(fc.array(history, { minLength: AT_ONCE, maxLength: AT_ONCE }), async (many) => {
      const named = many.map((steps) => {
        run += 1;
        return { name: `${run}`, steps };
      });
      const started = await openHistories(pool, named);
      await Promise.all(started.map((one) => runHistory(bench, one)));
    }),
    {
      numRuns: Math.ceil(HISTORIES / AT_ONCE),
      // A failure is shrunk by hand from its seed: smaller histories have other times, which are half of the matter.
      endOnFailure: true,
      ...(SEED === undefined ? {} : { seed: Number(SEED) }),
    },
  );
  for (const engine of bench.engines) while (await engine.sweep());
});

test("two replicas: under load on the same accounts they leave the books that one would have left", async () => {
  const asset_id = "ast_load";
  const codes = Array.from({ length: 20 }, (_, index) => `merchant:acct_${index}:plt_a`);
  const names = [FLOAT, ...codes].map((code) => ({ code, asset_id, book: "live" as const }));
  await openAccounts(pool, names);
  const post = async (place: number, one: TransferOrder) => {
    const [answer] = (await bench.engines[place % 2 === 0 ? 0 : 1].post([group([one], { asset_id })])) ?? [];
    return answer?.accepted === true;
  };
  const wanted = new Map<string, bigint>();
  const count = (code: string, amount: bigint) => wanted.set(code, (wanted.get(code) ?? 0n) + amount);
  const orderOf = (kind: "post" | "hold", debit: string, credit: string, amount: bigint) => ({
    ...order(kind, "", debit, credit, amount),
    id: randomUUID(),
  });
  const caller = async (place: number) => {
    for (let n = 0; n < 40; n += 1) {
      const [debit = FLOAT, credit = FLOAT] = [codes[randomInt(20)], codes[randomInt(20)]];
      const amount = BigInt(randomInt(1, 30));
      const funding = orderOf("post", FLOAT, debit, amount);
      if (await post(place + n, funding)) count(debit, amount);
      if (debit === credit) continue;
      const held = orderOf("hold", debit, credit, amount);
      if (!(await post(place + n + 1, held))) continue;
      const part = BigInt(randomInt(1, Number(amount) + 1));
      const end = { ...order("capture", "", null, null, part, { hold_id: held.id }), id: randomUUID() };
      // Both replicas are asked to end it at once: one captures, the other hears that it exists.
      const accepted = await Promise.all([post(place, end), post(place + 1, end)]);
      assert.deepEqual(accepted, [true, true]);
      count(debit, -part);
      count(credit, part);
    }
  };
  await Promise.all(Array.from({ length: 24 }, (_, place) => caller(place)));
  for (const { code, credits_posted, debits_posted, debits_pending } of await readAccounts(pool, names)) {
    assert.equal(debits_pending, 0n);
    if (code !== FLOAT) assert.equal(credits_posted - debits_posted, wanted.get(code) ?? 0n, code);
  }
});

test("verify: the books of all of them hold", { timeout: 600_000 }, async () => {
  await carry.stop();
  assert.deepEqual((await verify(pool)).problems, []);
  assert.deepEqual(faults, []);
});
