// Rails as a stranger with a plan for each operation: how often it turns a call away, what it answers when it takes one, and
// what it says of it afterwards. It takes an operation once; whoever asks again hears its last word. What it says becomes
// news, which the model of one merchant delivers late, twice and in any order.

import { OperationNews } from "@cauri/proto/ts/cauri/events/v1/events";
import {
  AttemptOutcome,
  type CollectResponse,
  type RailsServiceService,
  SendKind,
  type SendRequest,
} from "@cauri/proto/ts/cauri/rails/v1/rails";
import type { Handlers } from "@cauri/rpc/server";

/** `odd` is a success over another amount; it moves nothing at the rail. `returned` comes after a success, of what went out. */
export type Word = "pending" | "success" | "failed" | "cancelled" | "returned" | "odd";

export type Plan = {
  /** Answers before the rail takes it: certainly nothing is there, or (lost) nobody knows, and nothing is. */
  readonly turned_away: readonly ("refused" | "unavailable" | "lost")[];
  /** The call is taken, and its answer says nothing. */
  readonly is_unknown: boolean;
  /** What it says, the first with its answer. */
  readonly words: readonly Word[];
};

/** What an odd success is over: no operation of the model has this amount. */
export const ODD_MINOR = 7n;

export type Attempt = {
  readonly references: Set<string>;
  /** As it was ordered last. */
  order: Order;
  /** Words said so far; none: it was not taken. */
  said: number;
  turned_away: number;
  /** The last call did not arrive, which only an asking tells. */
  is_lost: boolean;
  is_withheld: boolean;
  failure_code: string | undefined;
};

export type News = { readonly id: string; readonly payload: Uint8Array; heard: boolean };
type Order = Pick<SendRequest, "operationId" | "reference" | "amountMinor" | "platformId">;

const OUTCOMES = {
  pending: AttemptOutcome.PENDING,
  odd: AttemptOutcome.PENDING,
  success: AttemptOutcome.SUCCESS,
  failed: AttemptOutcome.FAILED,
  cancelled: AttemptOutcome.CANCELLED,
  returned: AttemptOutcome.RETURNED,
} as const satisfies Record<Word, AttemptOutcome>;

const UNKNOWN: CollectResponse = { outcome: AttemptOutcome.UNKNOWN, rail: "mtn_momo", version: 0n };

export class PlannedRails {
  readonly plans = new Map<string, Plan>();
  readonly attempts = new Map<string, Attempt>();
  readonly news: News[] = [];
  /** By operation that goes out, the id under which its destination was handed to the vault. */
  readonly kept = new Map<string, string>();

  handlers(): Partial<Handlers<typeof RailsServiceService>> {
    return {
      keepPayer: async () => ({ phone: "+22507*****00" }),
      keepDestination: async ({ operationId }) => this.#keep(operationId, operationId),
      copyDestination: async ({ operationId, keptAs }) => this.#keep(operationId, keptAs),
      collect: async (order) => this.#take(order),
      send: async (order) => {
        const { operationId: id, kind } = order;
        if (kind === SendKind.PAYOUT && !this.kept.has(id)) throw new Error(`nobody said where ${id} goes`);
        return this.#take(order);
      },
      withhold: async ({ order, failureCode }) => {
        if (order === undefined) throw new Error("a Withhold names no order");
        const attempt = this.#attemptOf(order);
        const is_possible = attempt.said === 0 && !attempt.is_lost && !attempt.is_withheld;
        if (is_possible) Object.assign(attempt, { is_withheld: true, failure_code: failureCode });
        return attempt.is_lost ? UNKNOWN : this.#known(order.operationId);
      },
      ask: async ({ operationId }) => this.#known(operationId),
    };
  }

  /** The rail says its next word, if it has one; the news of it wait to be heard. */
  speak(id: string): boolean {
    const attempt = this.attempts.get(id);
    const word = attempt === undefined || attempt.said === 0 ? undefined : this.#planOf(id).words[attempt.said];
    if (attempt === undefined || word === undefined) return false;
    attempt.said += 1;
    this.#tell(id, word, attempt.said);
    return true;
  }

  /** What it has said of an operation so far. */
  wordsOf(id: string): readonly Word[] {
    return this.#planOf(id).words.slice(0, this.attempts.get(id)?.said ?? 0);
  }

  #keep(id: string, kept_as: string) {
    this.kept.set(id, kept_as);
    return { type: "mobile_wallet", phone: "+22507*****00" };
  }

  #take(order: Order): CollectResponse {
    const { operationId: id, reference } = order;
    const attempt = this.#attemptOf(order);
    const { turned_away, is_unknown, words } = this.#planOf(id);
    if (attempt.said > 0 || attempt.is_withheld) return this.#known(id);
    const away = turned_away[attempt.turned_away];
    if (away !== undefined) {
      attempt.turned_away += 1;
      attempt.is_lost = away === "lost";
      if (attempt.is_lost) return UNKNOWN;
      const outcome = away === "refused" ? AttemptOutcome.REFUSED : AttemptOutcome.UNAVAILABLE;
      return { outcome, rail: "", version: 0n };
    }
    attempt.references.add(reference);
    attempt.is_lost = false;
    attempt.said = 1;
    this.#tell(id, words[0] ?? "pending", 1);
    return is_unknown ? UNKNOWN : this.#known(id);
  }

  #attemptOf(order: Order): Attempt {
    const { operationId: id } = order;
    const known = this.attempts.get(id) ?? {
      references: new Set<string>(),
      order,
      said: 0,
      turned_away: 0,
      is_lost: false,
      is_withheld: false,
      failure_code: undefined,
    };
    this.attempts.set(id, known);
    known.order = order;
    return known;
  }

  #known(id: string): CollectResponse {
    const attempt = this.attempts.get(id);
    const failureCode = attempt?.failure_code;
    if (attempt?.is_withheld === true) {
      return { outcome: AttemptOutcome.WITHHELD, rail: "", version: 0n, failureCode };
    }
    const word = this.wordsOf(id).at(-1);
    if (attempt === undefined || word === undefined) {
      return { outcome: AttemptOutcome.NOT_FOUND, rail: "", version: 0n };
    }
    return { outcome: OUTCOMES[word], rail: "mtn_momo", version: BigInt(attempt.said), ...this.#detailsOf(id, word) };
  }

  #tell(id: string, word: Word, version: number): void {
    const kind = word === "odd" ? "success" : word;
    const { failureCode = "", railAmountMinor, railCurrency = "" } = this.#detailsOf(id, word);
    const news = OperationNews.fromPartial({
      event: `operation.${kind}`,
      id,
      status: kind,
      version: BigInt(version),
      failureCode,
      railCurrency,
      rail: "mtn_momo",
      ...(railAmountMinor === undefined ? {} : { railAmountMinor }),
    });
    this.news.push({ id, payload: OperationNews.encode(news).finish(), heard: false });
  }

  #detailsOf(id: string, word: Word): Partial<CollectResponse> {
    if (word === "failed") return { failureCode: "account_blocked" };
    if (word !== "success" && word !== "odd") return {};
    const amount = word === "odd" ? ODD_MINOR : this.attempts.get(id)?.order.amountMinor;
    return { railCurrency: "XOF", ...(amount === undefined ? {} : { railAmountMinor: amount }) };
  }

  #planOf(id: string): Plan {
    const plan = this.plans.get(id);
    if (plan === undefined) throw new Error(`nothing is planned for ${id}`);
    return plan;
  }
}
