// One timer for many deadlines. It stands at the soonest of them and looks at all when it rings: a call that is answered in
// time, as nearly all are, has then cost one comparison.

/** Deadlines that lie closer together than this ring once. */
const LEAST_MS = 5;

export class Expiry {
  readonly #expire: (now: number) => number;
  #at = Number.POSITIVE_INFINITY;
  #timer: NodeJS.Timeout | undefined;

  /** `expire` ends what is due by then and tells the soonest of what is left, Infinity when nothing is. */
  constructor(expire: (now: number) => number) {
    this.#expire = expire;
  }

  /** Sees to it that `expire` is called when that time has come; times are those of `performance.now()`. */
  watch(at: number): void {
    if (at < this.#at) this.#arm(at);
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#at = Number.POSITIVE_INFINITY;
  }

  #arm(at: number): void {
    clearTimeout(this.#timer);
    this.#at = at;
    this.#timer = setTimeout(() => this.#ring(), Math.max(LEAST_MS, Math.ceil(at - performance.now())));
    // What waits keeps its connection open, and with it the process.
    this.#timer.unref();
  }

  #ring(): void {
    this.#at = Number.POSITIVE_INFINITY;
    const next = this.#expire(performance.now());
    if (next < this.#at) this.#arm(next);
  }
}
