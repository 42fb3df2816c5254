// One life of a merchant on the real rooms: its accounts and its asset are its own, so that its books are too. It keeps what
// it asked for, and what the operators' decisions about its withdrawals may have come to, for the checks of `merchant-check.ts`.

import assert from "node:assert/strict";
import { newId } from "@cauri/money/ids";
import { transferOf } from "@cauri/money/posting";
import { isRefusal, type Refusal } from "@cauri/money/refusal";
import { houseCaller } from "@cauri/rpc/caller";
import { transact } from "@cauri/store/pool";
import { createPayment } from "../services/collections/src/create.ts";
import { createRefund } from "../services/collections/src/refund-create.ts";
import { openAccounts, readAccounts } from "../services/ledger/src/account-store.ts";
import { createPayout } from "../services/payouts/src/create.ts";
import { createRebalance, createTransfer } from "../services/payouts/src/movement-create.ts";
import { cancelPayout } from "../services/payouts/src/operate.ts";
import { createWithdrawal } from "../services/payouts/src/withdrawal-create.ts";
import { approveWithdrawal, rejectWithdrawal } from "../services/payouts/src/withdrawal-decide.ts";
import { insertEndpoint } from "../services/webhooks/src/endpoint-store.ts";
import { AWAY, at, type Books, type Decided, HOME, receiverOf } from "./merchant-model.ts";
import type { News } from "./merchant-rails.ts";
import {
  hear,
  interrupted,
  lookAfter,
  type MerchantRooms,
  PAYOUT_FEE_BPS,
  type Process,
  type Settling,
  sweepAll,
} from "./merchant-rooms.ts";
import type { Hearing, Step, Verdict, Wish } from "./merchant-wishes.ts";

export type Made = Wish & {
  readonly id: string;
  readonly target: string;
  answer: "created" | "refused" | "unknown";
  /** Of a withdrawal: what may have been decided, and where the account settled whenever it was asked for. */
  readonly decided: Set<Decided>;
  readonly settled: Settling["to"][];
};

let serial = 1_790_000_000_000;
const PREFIXES = {
  payment: "pay",
  payout: "po",
  refund: "re",
  withdrawal: "wr",
  transfer: "tr",
  rebalance: "rb",
} as const;
/** Refusals upon which nothing stays. */
const FINAL = ["insufficient_funds", "precondition_failed", "invalid_request"];
/** Answers of a request that may be sent again. */
const PASSING = ["upstream_error", "temporarily_unavailable", "concurrent_request"];
/** A plan may turn this many calls away, one look each. */
const LOOKS = 3;
/** A sweep takes as long as a few steps of a creation: some of these come between any two. */
const TAKE_OVERS = 4;
const WALLET = { type: "mobile_wallet", phone: "+2250504030200" };

export class Merchant {
  readonly account = newId("acct", ++serial);
  readonly asset_id = `ast_${this.account.slice(-12).toLowerCase()}`;
  readonly made: Made[] = [];
  readonly books: Books = new Map();
  readonly rooms: MerchantRooms;
  interruptions = 0;

  constructor(rooms: MerchantRooms) {
    this.rooms = rooms;
  }

  async open(funds: bigint, settles_on: string | null, prices_withdrawals: boolean): Promise<void> {
    const { rooms, account, asset_id } = this;
    rooms.settling.set(account, { prices_withdrawals, to: settles_on === null ? null : settlementOn(settles_on) });
    await openAccounts(rooms.ledger, this.names());
    if (funds > 0n) {
      const [debit, credit] = [`float:${HOME}`, `merchant:${account}:${HOME}`];
      const { ledger } = rooms.start(null).payouts;
      const posting = transferOf(account, "funds", { kind: "post", debit, credit, amount_minor: funds });
      await ledger.spend({ id: account, account, mode: "test" }, { asset_id, postings: [posting] });
      at(this.books, debit).posted -= funds;
      at(this.books, credit).posted += funds;
    }
    await transact(rooms.webhooks, (tx) =>
      insertEndpoint(tx, {
        operation_id: newId("whk", ++serial),
        account,
        url: "https://shop.test/",
        description: null,
        subscribed_events: [],
        standard_headers: false,
        secret_sealed: Buffer.from("sealed"),
      }),
    );
  }

  async take(step: Step): Promise<void> {
    const { rooms } = this;
    switch (step.do) {
      case "create": {
        const process = rooms.start(step.fate);
        const wanted = step.wishes.flatMap((one) => this.#plan(one));
        const alone = wanted.length === 1 && !step.swept;
        const asking = wanted.map((one) => this.#ask(process, one, alone));
        await Promise.all([...asking, this.#takeOver(step.swept)]);
        return;
      }
      case "retry": {
        const again = this.made.filter(({ answer, named_by }) => answer !== "refused" && named_by === "key");
        const one = pick(again, step.which);
        if (one === undefined) return;
        await Promise.all([this.#ask(rooms.start(step.fate), one, !step.swept), this.#takeOver(step.swept)]);
        return;
      }
      case "decide": {
        const requests = this.made.filter(({ kind, answer }) => kind === "withdrawal" && answer !== "refused");
        const one = pick(requests, step.which);
        if (one === undefined) return;
        const process = rooms.start(step.fate);
        const alone = step.says.length === 1 && !step.swept;
        const deciding = step.says.map((verdict) => this.#decide(process, one, verdict, alone));
        await Promise.all([...deciding, this.#takeOver(step.swept)]);
        return;
      }
      case "cancel": {
        const one = pick(this.#of("payout"), step.which);
        if (one === undefined) return;
        const { payouts } = rooms.start(step.fate);
        await this.#uninterrupted(async () => void (await cancelPayout(payouts, one.id, `cancel-${one.id}`)));
        return;
      }
      case "settle": {
        const known = rooms.settling.get(this.account) ?? assert.fail();
        rooms.settling.set(this.account, { ...known, to: settlementOn(step.platform_id) });
        return;
      }
      case "sweep":
        return await sweepAll(rooms, rooms.start(step.fate));
      case "look":
        return await lookAfter(rooms, rooms.start(step.fate), this.account);
      case "speak": {
        const one = pick(this.made, step.which);
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

  /** Everything that is open goes on, every word is said and heard. */
  async drain({ is_backwards, is_repeated }: Hearing): Promise<void> {
    const { rooms } = this;
    const process = rooms.start(null);
    await sweepAll(rooms, process);
    for (let looks = 0; looks < LOOKS; looks += 1) await lookAfter(rooms, process, this.account);
    for (const { id } of this.made) while (rooms.rails.speak(id));
    const news = is_backwards ? this.#news().reverse() : this.#news();
    for (const one of news) if (!one.heard) await hear(process, [one]);
    await sweepAll(rooms, process);
    if (!is_repeated) return;
    for (const one of this.#news().reverse()) await hear(process, [one]);
    await sweepAll(rooms, process);
  }

  /** Every account of the books that its money may touch. */
  names() {
    const codes = [
      ...[HOME, AWAY].map((platform) => `merchant:${this.account}:${platform}`),
      `merchant:${receiverOf(this.account)}:${HOME}`,
      "fees",
      ...["float", "suspense", "interplatform"].flatMap((name) => [`${name}:${HOME}`, `${name}:${AWAY}`]),
    ];
    return codes.map((code) => ({ code, asset_id: this.asset_id, book: "test" as const }));
  }

  /** What a wish asks for; a refund without a payment to give back is none. */
  #plan(wish: Wish): Made[] {
    const target = wish.kind === "refund" ? pick(this.#of("payment"), wish.of)?.id : "";
    if (target === undefined) return [];
    const id = newId(PREFIXES[wish.kind], ++serial);
    const one: Made = { ...wish, id, target, answer: "unknown", decided: new Set(["requested"]), settled: [] };
    this.rooms.rails.plans.set(one.id, wish.plan);
    this.made.push(one);
    return [one];
  }

  async #ask(process: Process, one: Made, alone: boolean): Promise<void> {
    one.settled.push(this.rooms.settling.get(this.account)?.to ?? null);
    const available = await this.#available();
    await this.#uninterrupted(async () => {
      const answer = await this.#create(process, one);
      if (!isRefusal(answer)) {
        one.answer = "created";
        return;
      }
      if (FINAL.includes(answer.refused)) one.answer = "refused";
      else assert.ok(PASSING.includes(answer.refused), `${one.id}: ${answer.refused} ${answer.message}`);
      // The ledger remembers a refusal that nobody heard: only a first answer tells of this balance.
      const is_telling = answer.refused === "insufficient_funds" && alone && one.settled.length === 1;
      if (is_telling && one.kind !== "refund") assert.ok(available < costOf(one), `${one.id} was refused its money`);
    });
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
      case "withdrawal":
        return createWithdrawal(process.payouts, money, caller);
      case "transfer":
        return createTransfer(process.payouts, { ...money, destinationAccountId: receiverOf(this.account) }, caller);
      case "rebalance": {
        const ends = { fromPlatformId: HOME, toPlatformId: AWAY };
        return createRebalance(process.payouts, { amountMinor, assetId: this.asset_id, ...ends, ...named }, caller);
      }
    }
  }

  /** Sweeps beside what is under way, each time as if every lease had just run out. */
  async #takeOver(wanted: boolean): Promise<void> {
    for (let turn = 0; wanted && turn < TAKE_OVERS; turn += 1) await sweepAll(this.rooms, this.rooms.start(null));
  }

  /** A decision, and what its answer leaves possible; one alone is refused for want of funds only where they are wanting. */
  async #decide(process: Process, one: Made, verdict: Verdict, alone: boolean): Promise<void> {
    const { id, decided } = one;
    const is_approval = verdict === "approve";
    const [wanted, other]: readonly [Decided, Decided] = is_approval
      ? ["approved", "rejected"]
      : ["rejected", "approved"];
    const was_open = decided.size === 1 && decided.has("requested");
    const available = await this.#available();
    // Until its answer is heard it may have been made.
    if (decided.has("requested")) decided.add(wanted);
    await this.#uninterrupted(async () => {
      const answer = is_approval
        ? await approveWithdrawal(process.payouts, { id }, `decide-${id}`)
        : await rejectWithdrawal(process.payouts, { id });
      if (!isRefusal(answer)) {
        narrow(one, wanted);
        if (alone && was_open && is_approval) assert.ok(available >= one.amount_minor, `${id} was overdrawn`);
      } else if (answer.refused === "precondition_failed") narrow(one, other);
      else if (answer.refused === "not_found") assert.notEqual(one.answer, "created", id);
      else if (answer.refused === "insufficient_funds") {
        assert.ok(is_approval, `${id} costs nothing to reject`);
        if (alone) narrow(one, "requested");
        if (alone) assert.ok(available < one.amount_minor, `${id} was refused its money`);
      } else assert.ok(PASSING.includes(answer.refused), `${id}: ${answer.refused} ${answer.message}`);
    });
  }

  /** What the merchant can use at home now, read from the books. */
  async #available(): Promise<bigint> {
    const [mine] = await readAccounts(this.rooms.ledger, this.names().slice(0, 1));
    if (mine === undefined) throw new Error("the merchant has no account");
    return mine.credits_posted - mine.debits_posted - mine.debits_pending;
  }

  async #uninterrupted(work: () => Promise<void>): Promise<void> {
    if (!(await interrupted(work))) this.interruptions += 1;
  }

  #of(kind: Made["kind"]): Made[] {
    return this.made.filter((one) => one.kind === kind);
  }

  #news(): News[] {
    const mine = new Set(this.made.map(({ id }) => id));
    return this.rooms.rails.news.filter(({ id }) => mine.has(id));
  }
}

/** Each setting of a settlement account has an entry of its own in the vault. */
function settlementOn(platform_id: string) {
  return { platform_id, kept_as: newId("acct", ++serial) };
}

/** An answer says what stands, which must have been possible. */
function narrow({ id, decided }: Made, to: Decided): void {
  assert.ok(decided.has(to), `${id} is ${to}, not ${[...decided].join(" or ")}`);
  decided.clear();
  decided.add(to);
}

/** What it takes from the balance, the fee of a payout on top. */
function costOf({ kind, amount_minor }: Made): bigint {
  return kind === "payout" ? amount_minor + (amount_minor * PAYOUT_FEE_BPS + 5_000n) / 10_000n : amount_minor;
}

function pick<T>(some: readonly T[], which: number): T | undefined {
  return some[which % Math.max(1, some.length)];
}
