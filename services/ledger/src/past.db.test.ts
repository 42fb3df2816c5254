// Balances and statements as of any instant, against sums made in the plainest way: any times of recording, any
// effective times, days counted at any moment in between. The rows are written without the engine, which has one clock.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { transact } from "@cauri/store/pool";
import { testDatabase } from "@cauri/store/testing";
import fc from "fast-check";
import { openAccounts } from "./account-store.ts";
import { type Balances, type TransferKind, ZERO } from "./books.ts";
import { countDays, TAKE_STRETCH } from "./day-store.ts";
import {
  type Basis,
  type FoundAccount,
  findAccount,
  type Movement,
  type Place,
  pastSql,
  readBalances,
  readEntriesBefore,
  readLines,
} from "./past-store.ts";
import { differenceOf } from "./replay.ts";
import { statementLines } from "./statement.ts";
import { FEES, FLOAT } from "./testing.ts";
import { readClearing, readTrialBalance } from "./trial-store.ts";
import { preferIndexes } from "./verify-store.ts";

const database = await testDatabase("ledger", [join(import.meta.dirname, "../migrations")]);
const { pool } = database;
before(() => pool.query("select open_months('2026-01-01', '2026-03-01')"));
after(() => database.close());

const HOUR_MS = 3_600_000;
/** Histories of days from here cross the end of a month, and with it from one table to the next. */
const START_MS = Date.UTC(2026, 0, 28);
const SUSPENSE = "suspense:plt_a";
/** No account with a limit: the plain history looks at none. */
const COSTS = "costs:plt_a";
const CODES = [FLOAT, FEES, COSTS, SUSPENSE];
const BASES = ["recorded", "effective"] as const;
const SUMS = ["debits_pending", "debits_posted", "credits_pending", "credits_posted"] as const;

/** What a history asks for; `kind` beyond hold ends the oldest open hold, or posts where none is open. */
type Wish = {
  readonly kind: TransferKind;
  readonly amount: bigint;
  readonly effective_hours: number | null;
  readonly between: readonly [number, number];
};
type Step = { readonly after_minutes: number; readonly wishes: readonly Wish[]; readonly counts: boolean };

const histories: fc.Arbitrary<Step[]> = fc.array(
  fc.record({
    after_minutes: fc.integer({ min: 0, max: 1_800 }),
    wishes: fc.array(
      fc.record({
        kind: fc.constantFrom<TransferKind>("post", "post", "hold", "hold", "capture", "release", "expire"),
        amount: fc.bigInt({ min: 1n, max: 9n }),
        effective_hours: fc.option(fc.integer({ min: -60, max: 200 }), { freq: 2 }),
        between: fc.constantFrom([0, 2], [2, 1], [0, 3], [3, 2], [2, 0]),
      }),
      { minLength: 1, maxLength: 4 },
    ),
    counts: fc.boolean(),
  }),
  { minLength: 1, maxLength: 10 },
);

type Raw = {
  readonly code: string;
  readonly change: Balances;
  readonly recorded_us: number;
  readonly position: number;
  readonly effective_us: number;
};
type Hold = { readonly id: string; readonly debit: string; readonly credit: string; readonly amount: bigint };

type Played = { readonly accounts: ReadonlyMap<string, FoundAccount>; readonly raws: readonly Raw[] };

let runs = 0;

/** Writes the history into a lane of its own and returns the plain list of what it did. */
async function play(steps: readonly Step[]): Promise<Played> {
  runs += 1;
  const asset_id = `ast_${runs}`;
  const accounts = await openLane(asset_id);
  const raws: Raw[] = [];
  const after = new Map<string, Balances>();
  const open: Hold[] = [];
  let recorded_us = START_MS * 1000;
  for (const [index, { after_minutes, wishes, counts }] of steps.entries()) {
    // The microsecond keeps batches apart that follow each other within the same minute.
    recorded_us += after_minutes * 60_000_000 + 1;
    for (const [position, wish] of wishes.entries()) {
      const { id, kind, debit, credit, amount, hold, pending, posted } = meaning(wish, open);
      const effective_ms = wish.effective_hours === null ? null : START_MS + wish.effective_hours * HOUR_MS;
      const effective_us = effective_ms === null ? recorded_us : effective_ms * 1000;
      for (const [side, code] of [
        ["debits", debit],
        ["credits", credit],
      ] as const) {
        const change = { ...ZERO, [`${side}_pending`]: pending, [`${side}_posted`]: posted };
        raws.push({ code, change, recorded_us, position, effective_us });
        after.set(code, plus(after.get(code) ?? ZERO, change));
      }
      const names = [accounts.get(debit)?.account_id, accounts.get(credit)?.account_id];
      const lane_id = accounts.get(debit)?.lane_id;
      await pool.query(
        `insert into transfers (transfer_id, lane_id, sequence, position, kind, debit_id, credit_id, amount, hold_id,
           effective_at, group_id, operation_id, recorded_at)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $1, 'pay_1', ${INSTANT})`,
        [id, lane_id, index + 1, position, kind, ...names, amount, hold?.id ?? null, timeOf(effective_ms), recorded_us],
      );
      if (kind === "hold") {
        await pool.query(
          `insert into holds (hold_id, lane_id, debit_id, credit_id, amount, state, operation_id)
           values ($1, $2, $3, $4, $5, 'held', 'pay_1')`,
          [id, lane_id, ...names, amount],
        );
      }
      for (const code of [debit, credit]) {
        const sums = SUMS.map((name) => after.get(code)?.[name]);
        await pool.query(
          `insert into entries (account_id, position, lane_id, ${SUMS.join(", ")}, recorded_at)
           values ($1, $2, $3, $4, $5, $6, $7, to_timestamp(0) + $8 * interval '1 microsecond')`,
          [accounts.get(code)?.account_id, position, lane_id, ...sums, recorded_us],
        );
        await pool.query(
          `update accounts set debits_pending = $2, debits_posted = $3, credits_pending = $4, credits_posted = $5
           where account_id = $1`,
          [accounts.get(code)?.account_id, ...sums],
        );
      }
    }
    await writeBatch(accounts, index + 1, wishes.length, recorded_us);
    if (counts) while (await countDays(pool)) assert.ok(true);
  }
  return { accounts, raws };
}

const INSTANT = "to_timestamp(0) + $11 * interval '1 microsecond'";

async function openLane(asset_id: string): Promise<Map<string, FoundAccount>> {
  const names = CODES.map((code) => ({ asset_id, book: "live" as const, code }));
  await openAccounts(pool, names);
  const found = await Promise.all(names.map((name) => findAccount(pool, name)));
  return new Map(found.flatMap((account) => (account === null ? [] : [[account.code, account] as const])));
}

async function writeBatch(accounts: Played["accounts"], sequence: number, transfers: number, recorded_us: number) {
  const lane_id = accounts.get(FLOAT)?.lane_id;
  await pool.query(
    `insert into batches (lane_id, sequence, recorded_at, transfers, refusals, hash)
     values ($1, $2, to_timestamp(0) + $3 * interval '1 microsecond', $4, 0, sha256('')::bytea)`,
    [lane_id, sequence, recorded_us, transfers],
  );
  await pool.query("update lanes set sequence = $2 where lane_id = $1", [lane_id, sequence]);
}

function meaning({ kind, amount, between }: Wish, open: Hold[]) {
  const [debit = FLOAT, credit = COSTS] = between.map((place) => CODES[place] ?? FLOAT);
  const id = randomUUID();
  const ended = kind === "post" || kind === "hold" ? undefined : open.shift();
  if (ended !== undefined) {
    const part = amount < ended.amount ? amount : ended.amount;
    const posted = kind === "capture" ? part : 0n;
    const sums = { amount: kind === "capture" ? part : ended.amount, pending: -ended.amount, posted };
    return { id, kind, debit: ended.debit, credit: ended.credit, hold: ended, ...sums };
  }
  if (kind !== "hold") return { id, kind: "post", debit, credit, amount, hold: null, pending: 0n, posted: amount };
  open.push({ id, debit, credit, amount });
  return { id, kind, debit, credit, amount, hold: null, pending: amount, posted: 0n };
}

function timeOf(ms: number | null): string | null {
  return ms === null ? null : new Date(ms).toISOString();
}

function plus(a: Balances, b: Balances): Balances {
  const sums = SUMS.map((name) => [name, a[name] + b[name]]);
  return Object.fromEntries(sums) as Balances;
}

function sumBefore({ raws }: Played, code: string, before_ms: number, basis: Basis): Balances {
  return raws
    .filter((raw) => raw.code === code)
    .filter((raw) => (basis === "recorded" ? raw.recorded_us : raw.effective_us) < before_ms * 1000)
    .reduce((sum, raw) => plus(sum, raw.change), ZERO);
}

const instant = fc.integer({ min: -80 * 60, max: 320 * 60 }).map((minutes) => START_MS + minutes * 60_000);
const midnight = fc.integer({ min: -4, max: 14 }).map((days) => START_MS + days * 24 * HOUR_MS);

test("balances as of: at any instant and by either time they are the plain sums, whenever days were counted", async () => {
  await fc.assert(
    fc.asyncProperty(
      histories,
      fc.array(fc.oneof(instant, midnight), { minLength: 3, maxLength: 8 }),
      async (steps, at) => {
        const played = await play(steps);
        for (const account of played.accounts.values()) {
          for (const basis of BASES) {
            for (const ms of at) {
              const read = await readBalances(pool, account, { before: new Date(ms), basis });
              const wanted = sumBefore(played, account.code, ms, basis);
              assert.equal(differenceOf(read, wanted), null, `${account.code} ${basis} ${new Date(ms).toISOString()}`);
            }
          }
        }
        for (const basis of BASES) await checkTrial(played, at[0] ?? START_MS, basis);
      },
    ),
    { numRuns: 20 },
  );
});

async function checkTrial(played: Played, ms: number, basis: Basis): Promise<void> {
  const [first] = played.accounts.values();
  const filter = { asset_id: first?.asset_id ?? "", book: "live" as const };
  const [lane] = await readTrialBalance(pool, filter, { before: new Date(ms), basis });
  assert.equal(lane?.lines.length, CODES.length);
  for (const line of lane.lines) {
    const code = CODES.find((one) => one.split(":")[0] === line.kind) ?? "";
    assert.equal(differenceOf(line, sumBefore(played, code, ms, basis)), null, `${line.kind} ${basis}`);
  }
  const total = (name: keyof Balances) => lane.lines.reduce((sum, line) => sum + line[name], 0n);
  assert.equal(total("debits_posted"), total("credits_posted"));
  assert.equal(total("debits_pending"), total("credits_pending"));
}

test("statement: opening, lines and closing add up between any two instants, page by page, by either time", async () => {
  await fc.assert(
    fc.asyncProperty(histories, instant, fc.oneof(instant, midnight), async (steps, a, b) => {
      const played = await play(steps);
      const [from, to] = [new Date(Math.min(a, b)), new Date(Math.max(a, b) + 60_000)];
      for (const account of played.accounts.values()) {
        for (const basis of BASES) {
          const closing = await readBalances(pool, account, { before: to, basis });
          let last = await readBalances(pool, account, { before: from, basis });
          let place = null;
          let lines = 0;
          for (;;) {
            const page = await readLines(pool, account, { from, to, basis }, place, 3);
            const { last: reached, adds_up } = statementLines(last, page, closing);
            last = reached;
            lines += page.length;
            place = page.at(-1)?.place ?? null;
            if (page.length === 3) continue;
            assert.ok(adds_up, `${account.code} ${basis} from ${from.toISOString()} to ${to.toISOString()}`);
            break;
          }
          const time = basis === "recorded" ? "recorded_us" : "effective_us";
          const wanted = played.raws.filter(
            (raw) => raw.code === account.code && raw[time] >= from.getTime() * 1000 && raw[time] < to.getTime() * 1000,
          );
          assert.equal(lines, wanted.length);
        }
      }
    }),
    { numRuns: 20 },
  );
});

test("entries: newest first, page by page, each once and with the balances after it", async () => {
  await fc.assert(
    fc.asyncProperty(histories, fc.integer({ min: 1, max: 4 }), async (steps, size) => {
      const played = await play(steps);
      for (const account of played.accounts.values()) {
        const read: Movement[] = [];
        for (let place: Place | null = null; ; ) {
          const page: Movement[] = await readEntriesBefore(pool, account, place, size);
          read.push(...page);
          place = page.at(-1)?.place ?? null;
          if (page.length < size) break;
        }
        const wanted = played.raws.filter((raw) => raw.code === account.code).toReversed();
        assert.deepEqual(
          read.map((movement) => movement.change),
          wanted.map((raw) => raw.change),
        );
        for (const [index, movement] of read.entries()) {
          const before: Balances = read[index + 1]?.after ?? ZERO;
          assert.equal(differenceOf(movement.after, plus(before, movement.change)), null);
        }
      }
    }),
    { numRuns: 20 },
  );
});

test("clearing: an account that is not empty is listed with its oldest item, first in first out", async () => {
  const wish = (amount: bigint, between: readonly [number, number]): Wish => ({
    ...{ kind: "post", amount, effective_hours: null, between },
  });
  const step = (...wishes: Wish[]): Step => ({ after_minutes: 60, wishes, counts: false });
  // Into suspense 5, 7, 2; out of it 6: the first is settled, of the second one 6 are left.
  const played = await play([
    step(wish(5n, [0, 3])),
    step(wish(7n, [0, 3])),
    step(wish(6n, [3, 2])),
    step(wish(2n, [0, 3])),
  ]);
  const asset_id = played.accounts.get(FLOAT)?.asset_id ?? "";
  const [item, ...others] = await readClearing(pool, { asset_id, book: null }, 10);
  assert.deepEqual(others, []);
  assert.equal(item?.code, SUSPENSE);
  assert.equal(item.credits_posted - item.debits_posted, 8n);
  assert.equal(item.oldest_recorded_at.getTime(), START_MS + 2 * HOUR_MS);
  const settled = await play([step(wish(5n, [0, 3])), step(wish(5n, [3, 2]))]);
  const other = settled.accounts.get(FLOAT)?.asset_id ?? "";
  assert.deepEqual(await readClearing(pool, { asset_id: other, book: "live" }, 10), []);
});

type Plan = { "Relation Name"?: string; "Actual Loops": number; "Index Searches"?: number; Plans?: Plan[] };

test("as of an instant by recorded time: one look-up in the key of the month, whatever other months there are", async () => {
  const wishes: readonly Wish[] = [{ kind: "post", amount: 1n, effective_hours: null, between: [0, 2] }];
  const steps = Array.from({ length: 12 }, () => ({ after_minutes: 1_800, wishes, counts: false }));
  const { accounts } = await play(steps);
  for (const day of ["2026-01-30", "2026-02-09", "2026-02-20"]) {
    const text = `explain (analyze, format json) ${pastSql("recorded", "(select unnest($1::bigint[]) as account_id)")}`;
    const values = [[accounts.get(FLOAT)?.account_id], day];
    const { rows } = await pool.query<{ "QUERY PLAN": string | [{ Plan: Plan }] }>(text, values);
    const told = rows[0]?.["QUERY PLAN"] ?? "[]";
    const [explained] = typeof told === "string" ? (JSON.parse(told) as [{ Plan: Plan }]) : told;
    const read = scansOf(explained.Plan).filter((scan) => scan["Actual Loops"] > 0);
    const month = `entries_${day.slice(0, 7).replace("-", "_")}`;
    assert.deepEqual(
      read.map((scan) => [scan["Relation Name"], scan["Actual Loops"], scan["Index Searches"]]),
      [[month, 1, 1]],
    );
  }
});

function scansOf(plan: Plan): Plan[] {
  const below = (plan.Plans ?? []).flatMap(scansOf);
  return plan["Relation Name"]?.startsWith("entries") === true ? [plan, ...below] : below;
}

test("days: what a lane recorded since its mark is found by its own key, however much others wrote meanwhile", async () => {
  const plan = await transact(pool, async (tx) => {
    await preferIndexes(tx);
    const text = `explain ${TAKE_STRETCH}`.replace(/\$(\d)/g, (_, place: string) => STRETCH[Number(place) - 1] ?? "");
    return (await tx.query<{ "QUERY PLAN": string }>(text)).rows.map((row) => row["QUERY PLAN"]);
  });
  const scans = plan.flatMap((line, at) => (/ on (?:transfers|entries)_\d/.test(line) ? [plan[at + 1] ?? ""] : []));
  assert.ok(scans.length > 0, plan.join("\n"));
  for (const scan of scans) assert.match(scan, /Cond: \(\(lane_id = .*recorded_at > /, plan.join("\n"));
});

/** A lane that was last used a month ago. */
const STRETCH = ["1", "'2026-01-02'", "'2026-02-02'"];
