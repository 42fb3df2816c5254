// The proof over one merchant's money: random creations of every kind, alone and at once, rail news in any order, late, twice
// and contradicting each other; collections and payouts die before any of their effects, or lose an answer, and are started
// anew. After draining, ledger, views and webhooks are what the model says, and no hold is open in a final state.
// CAURI_MERCHANTS says how many merchants, CAURI_SEED which ones; `npm run prove` runs as many as one likes.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { newId } from "@cauri/money/ids";
import { transferOf } from "@cauri/money/posting";
import { isRefusal, type Refusal } from "@cauri/money/refusal";
import { houseCaller } from "@cauri/rpc/caller";
import { transact } from "@cauri/store/pool";
import fc from "fast-check";
import { createPayment } from "../services/collections/src/create.ts";
import { createRefund } from "../services/collections/src/refund-create.ts";
import { openAccounts, readAccounts } from "../services/ledger/src/account-store.ts";
import { verify } from "../services/ledger/src/verify.ts";
import { createPayout } from "../services/payouts/src/create.ts";
import { createRebalance, createTransfer } from "../services/payouts/src/movement-create.ts";
import { insertDeliveries } from "../services/webhooks/src/delivery-store.ts";
import { insertEndpoint } from "../services/webhooks/src/endpoint-store.ts";
import { eventOf } from "../services/webhooks/src/events.ts";
import {
  AWAY,
  at,
  type Books,
  book,
  checkRefunds,
  checkTold,
  HOME,
  type Kind,
  receiverOf,
  restingStates,
  type Seen,
} from "./merchant-model.ts";
import type { News, Plan } from "./merchant-rails.ts";
import { hear, interrupted, type MerchantRooms, openRooms, type Process, sweepAll } from "./merchant-rooms.ts";
import { type Step, step, type Wish, wish } from "./merchant-wishes.ts";

const MERCHANTS = Number(process.env["CAURI_MERCHANTS"] ?? "25");
const SEED = process.env["CAURI_SEED"];

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
  const steps = fc.array(step, { minLength: 6, maxLength: 22 });
  const life = fc.record({ first, funds: fc.bigInt({ min: 0n, max: 20_000n }), steps });
  await fc.assert(
    fc.asyncProperty(life, async ({ first: paid, funds, steps: taken }) => {
      const merchant = new Merchant(funds);
      await merchant.open();
      const wishes = paid.map((one) => ({ ...one, plan: PAID }));
      await merchant.take({ do: "create", wishes, fate: null });
      for (const one of taken) await merchant.take(one);
      await merchant.drain();
      await merchant.check();
    }),
    { numRuns: MERCHANTS, ...(SEED === undefined ? {} : { seed: Number(SEED) }) },
  );
  const reached = [...ends].sort().map(([end, count]) => `${end} ${count}`);
  t.diagnostic(`${reached.join(", ")}; ${interruptions} interruptions`);
});

test("the books of all of them hold", { timeout: 600_000 }, async () => {
  assert.deepEqual((await verify(rooms.ledger)).problems, []);
});

type Made = Wish & { readonly id: string; answer: "created" | "refused" | "unknown"; readonly target: string };

let serial = 1_790_000_000_000;
const PREFIXES = { payment: "pay", payout: "po", refund: "re", transfer: "tr", rebalance: "rb" } as const;
/** What the lives have come to, so that a run shows that it has tried something. */
const ends = new Map<string, number>();
let interruptions = 0;
/** Refusals upon which nothing stays. */
const FINAL = ["insufficient_funds", "precondition_failed", "invalid_request"];
/** Answers of a request that may be sent again. */
const PASSING = ["upstream_error", "temporarily_unavailable", "concurrent_request"];

/** One life: its accounts and its asset are its own, so that its books are too. */
class Merchant {
  readonly account = newId("acct", ++serial);
  readonly asset_id = `ast_${this.account.slice(-12).toLowerCase()}`;
  readonly made: Made[] = [];
  readonly books: Books = new Map();
  readonly funds: bigint;

  constructor(funds: bigint) {
    this.funds = funds;
  }

  async open(): Promise<void> {
    await openAccounts(rooms.ledger, this.#names());
    if (this.funds > 0n) {
      const credit = `merchant:${this.account}:${HOME}`;
      const { ledger } = rooms.start(null).payouts;
      const posting = transferOf(this.account, "funds", {
        kind: "post",
        debit: `float:${HOME}`,
        credit,
        amount_minor: this.funds,
      });
      await ledger.spend(
        { id: this.account, account: this.account, mode: "test" },
        { asset_id: this.asset_id, postings: [posting] },
      );
      at(this.books, `float:${HOME}`).posted -= this.funds;
      at(this.books, credit).posted += this.funds;
    }
    const endpoint = { operation_id: newId("whk", ++serial), account: this.account, url: "https://shop.test/" };
    await transact(rooms.webhooks, (tx) =>
      insertEndpoint(tx, {
        ...endpoint,
        description: null,
        subscribed_events: [],
        standard_headers: false,
        secret_sealed: Buffer.from("sealed"),
      }),
    );
  }

  async take(step: Step): Promise<void> {
    switch (step.do) {
      case "create": {
        const process = rooms.start(step.fate);
        const wanted = step.wishes.flatMap((one) => this.#plan(one));
        await Promise.all(wanted.map((one) => this.#ask(process, one)));
        return;
      }
      case "retry": {
        const again = this.made.filter(({ answer, named_by }) => answer !== "refused" && named_by === "key");
        const one = again[step.which % Math.max(1, again.length)];
        if (one !== undefined) await this.#ask(rooms.start(step.fate), one);
        return;
      }
      case "sweep":
        return await sweepAll(rooms, rooms.start(step.fate));
      case "speak": {
        const one = this.made[step.which % Math.max(1, this.made.length)];
        if (one !== undefined) rooms.rails.speak(one.id);
        return;
      }
      case "hear": {
        const told = this.#news();
        if (told.length === 0) return;
        const batch = step.which.map((which) => told[which % told.length] as News);
        await hear(rooms.start(step.fate), batch);
      }
    }
  }

  /** Everything that is open goes on, every word is said and heard; then all of it once more, the newest first. */
  async drain(): Promise<void> {
    const process = rooms.start(null);
    await sweepAll(rooms, process);
    for (const { id } of this.made) while (rooms.rails.speak(id));
    for (const news of this.#news()) if (!news.heard) await hear(process, [news]);
    await sweepAll(rooms, process);
    for (const news of this.#news().reverse()) await hear(process, [news]);
    await sweepAll(rooms, process);
  }

  async check(): Promise<void> {
    const seen = await this.#see();
    for (const one of this.made) {
      const stands = seen.some(({ id }) => id === one.id);
      if (one.answer !== "unknown") assert.equal(stands, one.answer === "created", `${one.id}: ${one.answer}`);
    }
    for (const one of seen) {
      const said = one.kind === "transfer" || one.kind === "rebalance" ? [] : rooms.rails.wordsOf(one.id);
      const states = restingStates(one.kind, said);
      assert.ok(states.includes(one.status), `${one.id} is ${one.status} after ${said.join(", ")}, not ${states}`);
      assert.ok((rooms.rails.attempts.get(one.id)?.references.size ?? 0) <= 1, `${one.id} was sent twice`);
      const end = `${one.kind} ${one.status}`;
      ends.set(end, (ends.get(end) ?? 0) + 1);
      book(this.books, this.account, one, said, await isOddBooked(one));
    }
    checkRefunds(seen);
    await this.#checkBooks();
    await this.#checkTold(seen);
    for (const pool of [rooms.collections, rooms.payouts]) {
      const { rows } = await pool.query("select operation_id from claims where account = $1 and state <> 'done'", [
        this.account,
      ]);
      assert.deepEqual(rows, [], "nothing is left running");
    }
  }

  /** What a wish asks for; a refund without a payment to give back is none. */
  #plan(wish: Wish): Made[] {
    const payments = this.made.filter(({ kind }) => kind === "payment");
    const target = wish.kind === "refund" ? payments[wish.of % Math.max(1, payments.length)]?.id : "";
    if (target === undefined) return [];
    const one: Made = { ...wish, id: newId(PREFIXES[wish.kind], ++serial), answer: "unknown", target };
    rooms.rails.plans.set(one.id, wish.plan);
    this.made.push(one);
    return [one];
  }

  async #ask(process: Process, one: Made): Promise<void> {
    const is_done = await interrupted(async () => {
      const answer = await this.#create(process, one);
      if (!isRefusal(answer)) one.answer = "created";
      else if (FINAL.includes(answer.refused)) one.answer = "refused";
      else assert.ok(PASSING.includes(answer.refused), `${one.id}: ${answer.refused} ${answer.message}`);
    });
    if (!is_done) interruptions += 1;
  }

  #create(process: Process, one: Made): Promise<object | Refusal> {
    const { id, kind, amount_minor: amountMinor, named_by, target, is_partial } = one;
    const named = named_by === "client_ref" ? { clientRef: `ref-${id.slice(-20)}` } : {};
    const key = named_by === "key" ? { idempotency_key: id } : {};
    const caller = { ...houseCaller(this.account, "test", `req-${id}`), ...key, operation: id };
    const money = { amountMinor, assetId: this.asset_id, platformId: HOME, ...named };
    switch (kind) {
      case "payment":
        return createPayment(process.collections, { ...money, payer: { phone: "+2250504030200" } }, caller);
      case "refund": {
        const part = is_partial ? { amountMinor } : {};
        return createRefund(process.collections.refunding, { paymentId: target, ...part, ...named }, caller);
      }
      case "payout":
        return createPayout(process.payouts, { ...money, destination: WALLET }, caller);
      case "transfer":
        return createTransfer(process.payouts, { ...money, destinationAccountId: receiverOf(this.account) }, caller);
      case "rebalance": {
        const ends = { fromPlatformId: HOME, toPlatformId: AWAY };
        return createRebalance(process.payouts, { amountMinor, assetId: this.asset_id, ...ends, ...named }, caller);
      }
    }
  }

  /** Every operation that the merchant's lists show; drafts are nobody's. */
  async #see(): Promise<Seen[]> {
    const look = async (kind: Kind, more: string) => {
      const pool = kind === "payment" || kind === "refund" ? rooms.collections : rooms.payouts;
      const { rows } = await pool.query<Omit<Seen, "kind">>(
        `select id, status, amount_minor, ${more} from ${kind}s where account = $1 and n is not null`,
        [this.account],
      );
      const { rows: heads } = await pool.query<{ n: bigint }>(
        "select n from list_heads where account = $1 and kind = $2",
        [this.account, kind],
      );
      assert.equal(heads[0]?.n ?? 0n, BigInt(rows.length), "lists have no gaps");
      const open = rows.filter(({ status }) => status === "draft" || status === "initiated");
      assert.deepEqual(open, [], "what is open at nobody's rail was finished or given up");
      return rows.map((row) => ({ ...row, kind }));
    };
    return (
      await Promise.all([
        look("payment", "fee_minor, refunded_minor"),
        look("refund", "0::bigint as fee_minor, payment_id"),
        look("payout", "fee_minor"),
        look("transfer", "0::bigint as fee_minor"),
        look("rebalance", "0::bigint as fee_minor"),
      ])
    ).flat();
  }

  async #checkBooks(): Promise<void> {
    const accounts = await readAccounts(rooms.ledger, this.#names());
    const stands = accounts.map(({ code, ...balances }) => {
      const { credits_posted, debits_posted, debits_pending, credits_pending } = balances;
      return [code, credits_posted - debits_posted, debits_pending, credits_pending];
    });
    const wanted = accounts.map(({ code }) => {
      const { posted, debits_pending, credits_pending } = at(this.books, code);
      return [code, posted, debits_pending, credits_pending];
    });
    assert.deepEqual(stands, wanted);
  }

  /** The outbox of both rooms through the room of webhooks, twice and the newest first: one delivery for each event. */
  async #checkTold(seen: readonly Seen[]): Promise<void> {
    const sent = await Promise.all(
      [rooms.collections, rooms.payouts].map((pool) =>
        pool.query<{ payload: Buffer }>("select payload from outbox where account = $1 order by seq desc", [
          this.account,
        ]),
      ),
    );
    const events = sent.flatMap(({ rows }) => rows.flatMap(({ payload }) => eventOf(payload) ?? []));
    for (let turn = 0; turn < 2; turn += 1) {
      await transact(rooms.webhooks, (tx) => insertDeliveries(tx, events));
    }
    const { rows } = await rooms.webhooks.query<{ operation_id: string; event: string; body: string }>(
      "select operation_id, event, body from deliveries where account = $1 order by operation_id, version",
      [this.account],
    );
    for (const one of seen) {
      const notices = rows.filter(({ operation_id }) => operation_id === one.id);
      checkTold(
        one,
        notices.map(({ event }) => event),
      );
      for (const { body } of notices) {
        assert.equal(JSON.parse(body).data.amount, String(one.amount_minor));
      }
      const last = notices.at(-1);
      const status = one.status === "refunded" && one.kind === "payment" ? "success" : one.status;
      if (last !== undefined) assert.equal(JSON.parse(last.body).data.status, status, one.id);
    }
    const known = new Set(seen.map(({ id }) => id));
    assert.ok(
      rows.every(({ operation_id }) => known.has(operation_id)),
      "nothing is told of what is not there",
    );
  }

  #news(): News[] {
    const mine = new Set(this.made.map(({ id }) => id));
    return rooms.rails.news.filter(({ id }) => mine.has(id));
  }

  #names() {
    const codes = [
      ...[HOME, AWAY].map((platform) => `merchant:${this.account}:${platform}`),
      `merchant:${receiverOf(this.account)}:${HOME}`,
      "fees",
      ...["float", "suspense", "interplatform"].flatMap((name) => [`${name}:${HOME}`, `${name}:${AWAY}`]),
    ];
    return codes.map((code) => ({ code, asset_id: this.asset_id, book: "test" as const }));
  }
}

const PAID: Plan = { turned_away: [], is_unknown: false, words: ["success"] };
const WALLET = { type: "mobile_wallet", phone: "+2250504030200" };

/** Whether money over another amount was heard before newer news; old news after newer change nothing. */
async function isOddBooked({ kind, id }: Seen): Promise<boolean> {
  if (kind === "transfer" || kind === "rebalance") return false;
  const pool = kind === "payout" ? rooms.payouts : rooms.collections;
  const { rowCount } = await pool.query(
    `select from ${kind}_news where ${kind}_id = $1 and says = 'mispay' and applied`,
    [id],
  );
  return rowCount !== 0;
}
