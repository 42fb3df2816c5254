// How long the past takes: builds books in batches of 1,000, then times verification (from the beginning, and going on
// from its marks), the counting of days, and balances as of an instant. `node services/ledger/src/verify.bench.ts [transfers]`

import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { testDatabase } from "@cauri/store/testing";
import { openAccounts } from "./account-store.ts";
import type { GroupOrder } from "./books.ts";
import { carryBalances } from "./carry-store.ts";
import { countDays } from "./day-store.ts";
import { startEngine } from "./engine.ts";
import { findAccount, readBalances } from "./past-store.ts";
import { group, order } from "./testing.ts";
import { verify } from "./verify.ts";

const TRANSFERS = Number(process.argv[2] ?? 1_000_000);
const ACCOUNTS = 10_000;
const CALLERS = 4;
const PER_CALL = 1_000;
const LOOKUPS = 1_000;

const database = await testDatabase("ledger", [join(import.meta.dirname, "../migrations")]);
const { pool } = database;
const codes = Array.from({ length: ACCOUNTS }, (_, n) => `merchant:acct_${n}:plt_a`);
await openAccounts(
  pool,
  [...codes, "float:plt_a"].map((code) => ({ code, asset_id: "ast_xof", book: "live" })),
);

function say(sentence: string): void {
  process.stdout.write(`${sentence}\n`);
}

async function timed<T>(what: string, work: () => Promise<T>): Promise<T> {
  const begun = performance.now();
  const result = await work();
  say(`${what}: ${((performance.now() - begun) / 1000).toFixed(2)} s`);
  return result;
}

/** One transfer in four is said to have happened an hour before: as rails' news does. */
function groupAt(n: number): GroupOrder {
  const to = codes[n % ACCOUNTS] ?? "";
  const effective_ms = n % 4 === 0 ? Date.UTC(2026, 0, 1 + (n % 28)) : null;
  const transfer = order("post", "", "float:plt_a", to, 5n, { id: randomUUID(), effective_ms });
  return group([transfer], { operation_id: `pay_${n >> 1}` });
}

await timed(`${TRANSFERS} transfers posted`, async () => {
  const engine = startEngine({ pool });
  let next = 0;
  const caller = async () => {
    while (next < TRANSFERS) {
      const from = next;
      next += PER_CALL;
      await engine.post(Array.from({ length: Math.min(PER_CALL, TRANSFERS - from) }, (_, k) => groupAt(from + k)));
    }
  };
  await Promise.all(Array.from({ length: CALLERS }, caller));
});
await timed("balances carried", async () => {
  while (await carryBalances(pool));
});
const whole = await timed("verify from the beginning", () => verify(pool));
say(`  ${whole.transfers} transfers, ${whole.problems.length} problems`);
for (const { sentence } of whole.problems) say(`  ${sentence}`);
await timed("verify going on from its marks", () => verify(pool, { resume: true }));
await timed("days counted", async () => {
  while (await countDays(pool));
});
for (const basis of ["recorded", "effective"] as const) {
  const times: number[] = [];
  for (let n = 0; n < LOOKUPS; n += 1) {
    const code = codes[(n * 7_919) % ACCOUNTS] ?? "";
    const account = await findAccount(pool, { code, asset_id: "ast_xof", book: "live" });
    if (account === null) throw new Error(`${code} is not open`);
    const begun = performance.now();
    await readBalances(pool, account, { before: new Date(Date.UTC(2026, 0, 1 + (n % 60), n % 24)), basis });
    times.push(performance.now() - begun);
  }
  times.sort((a, b) => a - b);
  say(`balance as of by ${basis} time: p50 ${times[LOOKUPS >> 1]?.toFixed(2)} ms, p99 ${times[990]?.toFixed(2)} ms`);
}
await database.close();
