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
import { AWAY, HOME } from "./merchant-model.ts";
import type { Plan } from "./merchant-rails.ts";
import { type MerchantRooms, openRooms } from "./merchant-rooms.ts";
import { step, wish } from "./merchant-wishes.ts";

const MERCHANTS = Number(process.env["CAURI_MERCHANTS"] ?? "25");
const SEED = process.env["CAURI_SEED"];
/** A mutant is only to be caught, not to be understood. */
const IS_MUTANT = process.env["CAURI_MUTANT"] !== undefined;
const PAID: Plan = { turned_away: [], is_unknown: false, words: ["success"] };

let rooms: MerchantRooms;
before(async () => {
  rooms = await openRooms();
});
after(() => rooms.close());

test(`one merchant: ${MERCHANTS} of them end as the model says`, { timeout: 3_600_000 }, async (t) => {
  // Most lives begin with something to give back; many have too little for all that they wish.
  const first = fc.array(
    wish.filter(({ kind }) => kind === "payment"),
    { maxLength: 4 },
  );
  const life = fc.record({
    first,
    funds: fc.bigInt({ min: 0n, max: 20_000n }),
    steps: fc.array(step, { minLength: 6, maxLength: 25 }),
    // Few may not withdraw at all.
    settles_on: fc.oneof({ weight: 8, arbitrary: fc.constantFrom(HOME, AWAY) }, fc.constant(null)),
    prices_withdrawals: fc.oneof({ weight: 8, arbitrary: fc.constant(true) }, fc.constant(false)),
  });
  // What the lives have come to, so that a run shows that it has tried something.
  const ends = new Map<string, number>();
  let interruptions = 0;
  await fc.assert(
    fc.asyncProperty(life, async ({ first: paid, funds, steps, settles_on, prices_withdrawals }) => {
      const merchant = new Merchant(rooms);
      await merchant.open(funds, settles_on, prices_withdrawals);
      const wishes = paid.map((one) => ({ ...one, plan: PAID }));
      await merchant.take({ do: "create", wishes, fate: null, swept: false });
      for (const one of steps) await merchant.take(one);
      await merchant.drain();
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
