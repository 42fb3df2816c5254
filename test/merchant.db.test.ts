// The proof over one merchant's money: random creations of every kind, alone and at once, decisions of operators, rail news in
// any order, late, twice and contradicting each other; collections and payouts die before any of their effects, or lose an
// answer, and are started anew. After draining, ledger, views and webhooks are what the model says, and no hold is open in a
// final state. CAURI_MERCHANTS says how many merchants, CAURI_SEED which ones; `npm run prove` runs as many as one likes.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import fc from "fast-check";
import { verify } from "../services/ledger/src/verify.ts";
import { check } from "./merchant-check.ts";
import { Merchant } from "./merchant-life.ts";
import { type MerchantRooms, openRooms } from "./merchant-rooms.ts";
import { life } from "./merchant-wishes.ts";

const MERCHANTS = Number(process.env["CAURI_MERCHANTS"] ?? "25");
const SEED = process.env["CAURI_SEED"];
/** A mutant is only to be caught, not to be understood. */
const IS_MUTANT = process.env["CAURI_MUTANT"] !== undefined;

let rooms: MerchantRooms;
before(async () => {
  rooms = await openRooms();
});
after(() => rooms.close());

test(`one merchant: ${MERCHANTS} of them end as the model says`, { timeout: 3_600_000 }, async (t) => {
  // What the lives have come to, so that a run shows that it has tried something.
  const ends = new Map<string, number>();
  let interruptions = 0;
  await fc.assert(
    fc.asyncProperty(life, async ({ first, funds, opening, steps, settles_on, prices_withdrawals, hearing }) => {
      const merchant = new Merchant(rooms);
      await merchant.open(funds, settles_on, prices_withdrawals);
      for (const wishes of [first, opening]) await merchant.take({ do: "create", wishes, fate: null, swept: false });
      for (const one of steps) await merchant.take(one);
      await merchant.drain(hearing);
      for (const end of await check(merchant)) ends.set(end, (ends.get(end) ?? 0) + 1);
      interruptions += merchant.interruptions;
    }),
    { numRuns: MERCHANTS, endOnFailure: IS_MUTANT, ...(SEED === undefined ? {} : { seed: Number(SEED) }) },
  );
  const reached = [...ends].sort().map(([end, count]) => `${end} ${count}`);
  t.diagnostic(`${reached.join(", ")}; ${interruptions} interruptions`);
});

test("the books of all of them hold", { timeout: 600_000 }, async () => {
  assert.deepEqual((await verify(rooms.ledger)).problems, []);
});
