// The rate limit as the doors see it: one batch in flight to the shared log, refusals remembered until their time, and
// a fair share per gateway for as long as the shared log cannot be trusted. It never makes an outage.

import type { Log } from "@cauri/rpc/log";
import { gauge, observeBatch } from "@cauri/rpc/metrics";
import { coalesce } from "@cauri/store/coalescer";
import { admitCalls, type RateRule, wholeSeconds } from "./rate-log.ts";
import type { StoreAnswer, StoreAnswers } from "./rate-store.ts";

/** A call that passes within this time is held instead of refused. */
export const HOLD_MS = 250;
/**
 * Calls of one statement. More would be no cheaper each, and all who were answered by one statement go on together: with
 * every client in one batch the edge, the services and PostgreSQL would wait for each other in turn.
 */
const MAX_BATCH = 16;
/** How many calls may wait for the next one. */
const MAX_WAITING = 10_000;
/** Under load a statement begins so long after the one before it: alone each check costs as much as ten that share one. */
const GAP_MS = 10;
/** A store that takes longer is asked again after the pause. */
const STORE_TIMEOUT_MS = 1_000;
const STORE_PAUSE_MS = 1_000;
const SWEEP_MS = 10_000;

export type Verdict =
  | { readonly admitted: true; readonly delay_ms: number; readonly left: number; readonly reset_s: number }
  | { readonly admitted: false; readonly left: 0; readonly reset_s: number };

export type Limiter = {
  readonly rule: RateRule;
  check(key_id: string): Promise<Verdict>;
  stop(): void;
};

export type LimiterNews = {
  /** Hears whether decisions are exact now (false: each gateway admits its share). */
  exact(is_exact: boolean): void;
  /** Hears the size of each batch. */
  batch(size: number): void;
  failed(error: unknown): void;
};

export type LimiterOptions = {
  readonly rule: RateRule;
  /** Gateways that share the limit while the store cannot. */
  readonly replicas: number;
  readonly ask: (keys: readonly string[], calls: readonly number[]) => Promise<StoreAnswers>;
  readonly news: LimiterNews;
  /** Milliseconds of a clock that never steps. */
  readonly now?: () => number;
  /** A store that takes longer than this is away for now. */
  readonly store_timeout_ms?: number;
};

export function createLimiter(options: LimiterOptions): Limiter {
  const limiter = new SharedLimiter(options);
  return {
    rule: options.rule,
    check: (key_id) => limiter.check(key_id),
    stop: () => limiter.stop(),
  };
}

class SharedLimiter {
  readonly #rule: RateRule;
  /** What this gateway may admit alone. */
  readonly #share: RateRule;
  readonly #ask: LimiterOptions["ask"];
  readonly #news: LimiterNews;
  readonly #now: () => number;
  readonly #store_timeout_ms: number;
  readonly #own = new LocalLogs();
  /** Key -> the instant from which a call passes again. */
  readonly #denied = new Map<string, number>();
  readonly #decide: (key_id: string) => Promise<StoreAnswer>;
  readonly #sweep: NodeJS.Timeout;
  #born_at: string | undefined;
  #share_until = Number.NEGATIVE_INFINITY;
  #away_until = Number.NEGATIVE_INFINITY;

  constructor({ rule, replicas, ask, news, now = () => performance.now(), store_timeout_ms }: LimiterOptions) {
    this.#store_timeout_ms = store_timeout_ms ?? STORE_TIMEOUT_MS;
    this.#rule = rule;
    this.#share = { ...rule, limit: Math.max(1, Math.floor(rule.limit / replicas)) };
    this.#ask = ask;
    this.#news = news;
    this.#now = now;
    const run = (batch: string[]) => this.#runBatch(batch);
    this.#decide = coalesce({ run, max_batch: MAX_BATCH, max_waiting: MAX_WAITING, gap_ms: GAP_MS });
    this.#sweep = setInterval(() => this.#forget(), SWEEP_MS).unref();
  }

  stop(): void {
    clearInterval(this.#sweep);
  }

  async check(key_id: string): Promise<Verdict> {
    const now_ms = this.#now();
    const until = this.#denied.get(key_id);
    // The time is computed anew for each answer, although the shared log is not asked again.
    if (until !== undefined && until > now_ms) return refused(until + this.#rule.hold_ms - now_ms);
    const local = now_ms < this.#share_until ? this.#own.admit(key_id, now_ms, this.#share) : null;
    if (local !== null && !local.admitted) return local;
    const told = await this.#askStore(key_id);
    // The store went away under this very call: the gateway's own share decides.
    if (told === null) return local ?? this.#own.admit(key_id, this.#now(), this.#share);
    const [delay_ms] = told.delays;
    if (delay_ms === undefined) {
      this.#denied.set(key_id, this.#now() + told.next_ms - this.#rule.hold_ms);
      return refused(told.next_ms);
    }
    if (local === null) this.#own.note(key_id, this.#now() + delay_ms, this.#rule.limit);
    return {
      admitted: true,
      delay_ms: Math.max(delay_ms, local?.delay_ms ?? 0),
      left: Math.max(0, Math.min(told.free, local?.left ?? told.free)),
      reset_s: wholeSeconds(told.next_ms),
    };
  }

  async #askStore(key_id: string): Promise<StoreAnswer | null> {
    if (this.#now() < this.#away_until) return null;
    try {
      return await this.#decide(key_id);
    } catch (error) {
      if (this.#now() >= this.#away_until) this.#news.failed(error);
      this.#away_until = this.#now() + STORE_PAUSE_MS;
      this.#distrust(this.#rule.window_ms);
      return null;
    }
  }

  async #runBatch(batch: string[]): Promise<StoreAnswer[]> {
    // Those that waited while a statement found the store away do not each wait for it in turn.
    if (this.#now() < this.#away_until) throw new Error("the store of the rate limit is away");
    this.#news.batch(batch.length);
    const counts = new Map<string, number>();
    for (const key of batch) counts.set(key, (counts.get(key) ?? 0) + 1);
    // Sorted: two gateways lock the rows of the same keys in the same order.
    const keys = [...counts.keys()].sort();
    const calls = keys.map((key) => counts.get(key) ?? 0);
    const told = await withTimeout(this.#ask(keys, calls), this.#store_timeout_ms);
    this.#noticeLoss(told);
    return handOut(batch, new Map(told.answers.map((answer, index) => [keys[index] ?? "", answer])));
  }

  #noticeLoss({ born_at, age_ms }: StoreAnswers): void {
    if (born_at === this.#born_at) return;
    // Contents older than a window are trusted: whoever was admitted before them has passed by.
    if (this.#born_at !== undefined) this.#distrust(this.#rule.window_ms);
    else if (age_ms < this.#rule.window_ms) this.#distrust(this.#rule.window_ms - age_ms);
    this.#born_at = born_at;
  }

  /** From now on, for a while, the shared log does not know everything: each gateway counts its own as well. */
  #distrust(for_ms: number): void {
    this.#share_until = Math.max(this.#share_until, this.#now() + for_ms);
    this.#news.exact(false);
  }

  #forget(): void {
    const now_ms = this.#now();
    this.#own.forget(now_ms - this.#rule.window_ms);
    for (const [key, until] of this.#denied) if (until <= now_ms) this.#denied.delete(key);
    if (now_ms >= this.#share_until && now_ms >= this.#away_until) this.#news.exact(true);
  }
}

/** What operators see of the limiter: whether it is exact, how large its batches are, and each loss of the store. */
export function limiterNews(log: Log): LimiterNews {
  const exact = gauge(
    "cauri_rate_limit_exact",
    "1 while the shared log decides, 0 while each gateway admits its share.",
  );
  exact.set(1);
  return {
    exact: (is_exact) => exact.set(is_exact ? 1 : 0),
    batch: (size) => observeBatch("rate_limit", size),
    failed: (error) => log.warn({ err: error }, "the store of the rate limit is away: each gateway admits its share"),
  };
}

/** A limit that one process keeps by itself, for what has no key: unknown keys, by client address. */
export function createLocalLimiter(rule: RateRule, now = () => performance.now()): (name: string) => Verdict {
  const logs = new LocalLogs();
  setInterval(() => logs.forget(now() - rule.window_ms), SWEEP_MS).unref();
  return (name) => logs.admit(name, now(), rule);
}

/** The admissions of this process, by key. */
class LocalLogs {
  readonly #logs = new Map<string, number[]>();

  admit(key: string, now_ms: number, rule: RateRule): Verdict {
    const { log, delays, free, next_ms } = admitCalls(this.#logs.get(key) ?? [], 1, now_ms, rule);
    const [delay_ms] = delays;
    if (delay_ms === undefined) return refused(next_ms);
    this.#logs.set(key, [...log]);
    return { admitted: true, delay_ms, left: free, reset_s: wholeSeconds(next_ms) };
  }

  /** Remembers an admission that the shared log granted, should that log be lost within a window. */
  note(key: string, at_ms: number, limit: number): void {
    const log = this.#logs.get(key);
    if (log === undefined) {
      this.#logs.set(key, [at_ms]);
      return;
    }
    log.push(Math.max(at_ms, log.at(-1) ?? at_ms));
    if (log.length > limit) log.shift();
  }

  forget(before_ms: number): void {
    for (const [key, log] of this.#logs) if ((log.at(-1) ?? before_ms) <= before_ms) this.#logs.delete(key);
  }
}

/** The j-th call of a key in a batch gets the j-th delay; what is left after it counts those behind it in. */
function handOut(batch: readonly string[], told: ReadonlyMap<string, StoreAnswer>): StoreAnswer[] {
  const given = new Map<string, number>();
  return batch.map((key) => {
    const answer = told.get(key);
    if (answer === undefined) throw new Error("the rate limit left a key unanswered");
    const place = given.get(key) ?? 0;
    given.set(key, place + 1);
    const delay_ms = answer.delays[place];
    if (delay_ms === undefined) return { ...answer, delays: [] };
    const behind = answer.delays.length - place - 1;
    return { delays: [delay_ms], free: delay_ms > 0 ? 0 : answer.free + behind, next_ms: answer.next_ms };
  });
}

function refused(wait_ms: number): Verdict {
  return { admitted: false, left: 0, reset_s: wholeSeconds(wait_ms) };
}

async function withTimeout<T>(promise: Promise<T>, timeout_ms: number): Promise<T> {
  const { promise: late, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(new Error(`no answer within ${timeout_ms} ms`)), timeout_ms);
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
    promise.catch(() => {});
  }
}
