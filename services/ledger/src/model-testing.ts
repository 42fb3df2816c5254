// For tests: a ledger in the plainest TypeScript, written from the design's model alone and sharing nothing with the
// engine but its nouns. It copies the whole state per group and has no notion of a batch; the engine must answer the same.

import type {
  Balances,
  Book,
  GroupAnswer,
  GroupOrder,
  Hold,
  HoldState,
  Result,
  TransferAnswer,
  TransferOrder,
} from "./books.ts";

type ModelAccount = {
  code: string;
  credit_normal: boolean;
  flagged: boolean;
  balances: Record<keyof Balances, bigint>;
};
type ModelHold = Pick<Hold, "amount" | "expires_ms"> & {
  lane: string;
  debit: string;
  credit: string;
  state: HoldState;
};
type ModelRecord = { lane: string; operation: string; order: TransferOrder; refused: Result | null; at_us: number };
/** One side of a transfer that stands, and the posted balances after it: pending ones follow an expiry's own time. */
export type ModelEntry = { account: string; id: string; debits_posted: bigint; credits_posted: bigint };
type ModelState = {
  entries: ModelEntry[];
  accounts: Map<string, ModelAccount>;
  holds: Map<string, ModelHold>;
  records: Map<string, ModelRecord>;
};

const LIMIT = 2n ** 63n - 1n;
const REMEMBERED = ["insufficient_funds", "exceeds_hold", "balance_overflow"];

export class Model {
  state: ModelState = { entries: [], accounts: new Map(), holds: new Map(), records: new Map() };

  open(asset_id: string, book: Book, code: string): void {
    const flagged = /^(merchant|pot):/.test(code);
    const credit_normal = !/^(float|costs|receivable):/.test(code);
    const balances = { debits_pending: 0n, debits_posted: 0n, credits_pending: 0n, credits_posted: 0n };
    this.state.accounts.set(`${asset_id}/${book}/${code}`, { code, credit_normal, flagged, balances });
  }

  /** Frees whatever is due at once: everywhere, or in one lane, since no clock is shared by two of them. */
  expire(now_us: number, lane?: string): void {
    for (const hold of this.state.holds.values()) {
      if (lane !== undefined && hold.lane !== lane) continue;
      if (hold.state !== "held" || hold.expires_ms === null || hold.expires_ms * 1000 > now_us) continue;
      hold.state = "expired";
      add(this.state, hold.lane, hold.debit, "debits_pending", -hold.amount);
      add(this.state, hold.lane, hold.credit, "credits_pending", -hold.amount);
    }
  }

  post(group: GroupOrder, now_us: number, options: { lane_time?: boolean } = {}): GroupAnswer {
    const lane = `${group.asset_id}/${group.book}`;
    const where = options.lane_time === true ? lane : undefined;
    this.expire(now_us, where);
    const results: Result[] = group.transfers.map((order) => this.#certain(lane, group, order));
    const before = structuredClone(this.state);
    if (!results.some((result) => result !== "exists" && result !== "ok")) {
      for (const [index, order] of group.transfers.entries()) {
        if (results[index] === "exists") continue;
        const result = this.#apply(lane, order, now_us);
        results[index] = result;
        if (result !== "ok") {
          const full = this.#resolve(lane, order);
          this.state = before;
          if (REMEMBERED.includes(result) || result.startsWith("hold_already_")) {
            this.#record(lane, group, full, result, now_us);
          }
          break;
        }
        this.#record(lane, group, this.#resolve(lane, order), null, now_us);
      }
    }
    const stands = results.every((result) => result === "exists" || result === "ok");
    const answers = results.map((result) => (!stands && result === "ok" ? "group_refused" : result));
    this.expire(now_us, where);
    return {
      accepted: stands,
      transfers: group.transfers.map((order, index) => this.#answer(order, answers[index] ?? "ok")),
    };
  }

  #certain(lane: string, group: GroupOrder, order: TransferOrder): Result {
    const record = this.state.records.get(order.id);
    if (record !== undefined) {
      const asked = JSON.stringify(this.#resolve(lane, order, record.order), text);
      const same = record.lane === lane && record.operation === group.operation_id;
      if (!same || asked !== JSON.stringify(record.order, text)) return "exists_differently";
      return record.refused ?? "exists";
    }
    const codes = [order.debit_code, order.credit_code].filter((code) => code !== null);
    if (codes.some((code) => !this.state.accounts.has(`${lane}/${code}`))) return "account_unknown";
    const hold = this.state.holds.get(order.hold_id ?? "");
    if (hold !== undefined && hold.lane.split("/")[0] !== group.asset_id) return "asset_mismatch";
    if (hold !== undefined && hold.lane !== lane) return "book_mismatch";
    return "ok";
  }

  /** The order with what it left out: codes and amount of its hold, or of the record of a hold that was refused with it. */
  #resolve(lane: string, order: TransferOrder, record?: TransferOrder): TransferOrder {
    if (order.kind === "post" || order.kind === "hold") return order;
    const found = this.state.holds.get(order.hold_id ?? "");
    const hold = found?.lane === lane ? found : undefined;
    // A code is a check of the caller's own, and none is no check: also where a refused hold's id was used again between others.
    const debit_code = order.debit_code ?? record?.debit_code ?? hold?.debit ?? null;
    const credit_code = order.credit_code ?? record?.credit_code ?? hold?.credit ?? null;
    const whole = hold?.amount ?? record?.amount ?? 0n;
    return { ...order, debit_code, credit_code, amount: order.amount === 0n ? whole : order.amount };
  }

  #apply(lane: string, order: TransferOrder, now_us: number): Result {
    this.expire(now_us);
    if (order.kind === "capture" || order.kind === "release") return this.#end(lane, order);
    const [debit, credit] = [order.debit_code ?? "", order.credit_code ?? ""];
    const side = order.kind === "hold" ? "pending" : "posted";
    add(this.state, lane, debit, `debits_${side}`, order.amount);
    add(this.state, lane, credit, `credits_${side}`, order.amount);
    const accounts = [debit, credit].flatMap((code) => this.state.accounts.get(`${lane}/${code}`) ?? []);
    if (accounts.some((account) => account.flagged && this.#available(account) < 0n)) return "insufficient_funds";
    for (const { balances: b } of accounts) {
      if (b.debits_pending + b.debits_posted > LIMIT || b.credits_pending + b.credits_posted > LIMIT) {
        return "balance_overflow";
      }
    }
    if (order.kind === "hold") {
      const { amount, expires_ms } = order;
      this.state.holds.set(order.id, { lane, debit, credit, amount, expires_ms, state: "held" });
    }
    return "ok";
  }

  #end(lane: string, order: TransferOrder): Result {
    const hold = this.state.holds.get(order.hold_id ?? "");
    if (hold === undefined) return "hold_unknown";
    if ((order.debit_code ?? hold.debit) !== hold.debit || (order.credit_code ?? hold.credit) !== hold.credit) {
      return "hold_unknown";
    }
    if (hold.state !== "held") return `hold_already_${hold.state}`;
    const amount = order.amount === 0n ? hold.amount : order.amount;
    if (amount > hold.amount) return "exceeds_hold";
    hold.state = order.kind === "capture" ? "captured" : "released";
    add(this.state, lane, hold.debit, "debits_pending", -hold.amount);
    add(this.state, lane, hold.credit, "credits_pending", -hold.amount);
    if (order.kind === "capture") {
      add(this.state, lane, hold.debit, "debits_posted", amount);
      add(this.state, lane, hold.credit, "credits_posted", amount);
    }
    return "ok";
  }

  #available(account: ModelAccount): bigint {
    const { debits_pending, debits_posted, credits_pending, credits_posted } = account.balances;
    return account.credit_normal
      ? credits_posted - debits_posted - debits_pending
      : debits_posted - credits_posted - credits_pending;
  }

  #record(lane: string, group: GroupOrder, order: TransferOrder, refused: Result | null, at_us: number): void {
    this.state.records.set(order.id, { lane, operation: group.operation_id, order, refused, at_us });
    if (refused !== null) return;
    for (const code of [order.debit_code, order.credit_code]) {
      const account = `${lane}/${code}`;
      const balances = this.state.accounts.get(account)?.balances;
      if (balances === undefined) continue;
      const { debits_posted, credits_posted } = balances;
      this.state.entries.push({ account, id: order.id, debits_posted, credits_posted });
    }
  }

  #answer(order: TransferOrder, result: Result): TransferAnswer {
    const record = this.state.records.get(order.id);
    const told = record !== undefined && !["exists_differently", "group_refused", "account_unknown"].includes(result);
    if (!told) return { result, state: null, recorded_us: null };
    const ended = { post: "posted", capture: "captured", release: "released" } as const;
    const state = order.kind === "hold" ? (this.state.holds.get(order.id)?.state ?? null) : ended[order.kind];
    return { result, state: record.refused === null ? state : null, recorded_us: record.at_us };
  }
}

function add(state: ModelState, lane: string, code: string, column: keyof Balances, amount: bigint): void {
  const account = state.accounts.get(`${lane}/${code}`);
  if (account !== undefined) account.balances[column] += amount;
}

function text(_: string, value: unknown): unknown {
  return typeof value === "bigint" ? `${value}` : value;
}
