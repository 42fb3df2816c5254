// What the room's database tests stand on: a house on a real database, before a ledger that can be made to fail. The
// ledger here keeps only what was asked of it; the real one is met in the stories.

import assert from "node:assert/strict";
import { hmacOfSecret } from "@cauri/money/api-key";
import { systemClock } from "@cauri/money/clock";
import { isRefusal, type Refusal } from "@cauri/money/refusal";
import type { Account, Key, ResolvedKey } from "@cauri/proto/ts/cauri/accounts/v1/accounts";
import { type TestDatabase, testDatabase } from "@cauri/store/testing";
import { approveAccount, createAccount } from "./account-service.ts";
import type { House } from "./house.ts";
import { createKey, resolve } from "./key-service.ts";
import type { Ledger } from "./ledger.ts";
import { sweep } from "./sweep.ts";

const PEPPER = "a pepper for tests";
const SILENT = { info() {}, warn() {}, error() {} };

/** A house of its own, with the house's ledger accounts opened, and the usual steps of a test. */
export type TestHouse = {
  readonly db: TestDatabase;
  readonly ledger: FakeLedger;
  readonly house: House;
  signUp(name?: string): Promise<Account>;
  approved(): Promise<Account>;
  newKey(accountId: string, scopes?: string[]): Promise<Key>;
  resolveSecret(secret: string | undefined): Promise<ResolvedKey>;
  eventsOf(account: string): Promise<{ subject: string; payload: Buffer }[]>;
};

export async function openTestHouse(): Promise<TestHouse> {
  const db = await testDatabase("accounts", [`${import.meta.dirname}/../migrations`]);
  const ledger = new FakeLedger();
  const house: House = {
    pool: db.pool,
    ledger: ledger as unknown as Ledger,
    rails: { keepDestination: async ({ destination }) => maskless(destination) },
    pepper: PEPPER,
    live: "",
    clock: systemClock,
    log: SILENT,
    wakeSweeper: () => {},
    drain: async () => ({ done: 0n }),
  };
  await sweep(house);
  const signUp = async (name = "Baobab") =>
    good(await createAccount(house, { name, country: "CI", email: "ops@baobab.ci" }));
  return {
    db,
    ledger,
    house,
    signUp,
    approved: async () => good(await approveAccount(house, { accountId: (await signUp()).accountId })),
    newKey: async (accountId, scopes = []) =>
      good(await createKey(house, { accountId, mode: "test", scopes, name: "till" })),
    resolveSecret: async (secret) =>
      good(await resolve(house, { hmac: hmacOfSecret(secret ?? assert.fail("no secret"), PEPPER) })),
    eventsOf: async (account) => {
      const text = "select subject, payload from outbox where account = $1 order by seq";
      return (await db.pool.query<{ subject: string; payload: Buffer }>(text, [account])).rows;
    },
  };
}

/** Rails as far as this room needs it: what it masks is met in the stories. */
function maskless(destination: { readonly type: string } | undefined): { type: string; phone: string } {
  return { type: destination?.type ?? "", phone: "+22507*****00" };
}

/** Remembers what is open, what was posted and what a merchant's live books hold. */
export class FakeLedger {
  readonly open = new Set<string>();
  readonly posted = new Map<string, { credit: string; amount: bigint }>();
  readonly live_totals = new Map<string, bigint>();
  calls = 0;
  broken = false;
  /** Runs while a call is under way: where a race is made. */
  meanwhile: () => Promise<unknown> = async () => {};

  async openAccounts({ accounts }: { accounts: { code: string; assetId: string; book: number }[] }) {
    await this.#arrive();
    for (const { code, assetId, book } of accounts) this.open.add(`${code}/${assetId}/${book}`);
    return { opened: accounts.length };
  }
  async getMerchantTotals({ accountId }: { accountId: string }) {
    await this.#arrive();
    return { postedMinor: this.live_totals.get(accountId) ?? 0n, pendingMinor: 0n };
  }
  async post({
    groups,
  }: {
    groups: { assetId: string; book: number; transfers: { id: string; creditCode: string; amountMinor: bigint }[] }[];
  }) {
    await this.#arrive();
    for (const group of groups) {
      for (const transfer of group.transfers) {
        const credit = `${transfer.creditCode}/${group.assetId}/${group.book}`;
        assert.ok(this.open.has(credit), `${credit} is not open`);
        this.posted.set(transfer.id, { credit, amount: transfer.amountMinor });
      }
    }
    return { groups: groups.map(() => ({ accepted: true, transfers: [] })) };
  }
  async getAccounts({ accounts }: { accounts: { code: string; assetId: string; book: number }[] }) {
    await this.#arrive();
    const [{ code, assetId, book } = { code: "", assetId: "", book: 0 }] = accounts;
    let creditsPostedMinor = 0n;
    for (const { credit, amount } of this.posted.values())
      if (credit === `${code}/${assetId}/${book}`) creditsPostedMinor += amount;
    return { accounts: [{ creditsPostedMinor, debitsPostedMinor: 0n, debitsPendingMinor: 0n }] };
  }
  async #arrive() {
    this.calls += 1;
    if (this.broken) throw new Error("the ledger is down");
    await this.meanwhile();
  }
}

export function good<T>(answer: T | Refusal): T {
  if (isRefusal(answer)) assert.fail(`refused: ${answer.refused} ${answer.field ?? ""} ${answer.message}`);
  return answer;
}

export function refusedWith(answer: unknown, reason: string, field?: string): Refusal {
  if (!isRefusal(answer)) assert.fail("was not refused");
  assert.deepEqual([answer.refused, answer.field], [reason, field], answer.message);
  return answer;
}
