// The pace of a coalescer whose calls come one by one: batches that find company come apart, so that more share each.

/** So many batches in a row with one item each say that waiting finds nobody. */
const ALONE = 3;

export class Gap {
  readonly #gap_ms: number;
  #begun_at = Number.NEGATIVE_INFINITY;
  #alone = ALONE;
  #end = () => {};

  constructor(gap_ms: number) {
    this.#gap_ms = gap_ms;
  }

  /** A batch of this size begins. */
  begin(size: number): void {
    if (this.#gap_ms === 0) return;
    this.#begun_at = performance.now();
    this.#alone = size > 1 ? 0 : this.#alone + 1;
  }

  /** When the next one may begin: at once where batches find nobody. */
  over(): Promise<void> | undefined {
    if (this.#gap_ms === 0 || this.#alone >= ALONE) return undefined;
    const left_ms = this.#begun_at + this.#gap_ms - performance.now();
    if (left_ms <= 0) return undefined;
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, left_ms);
      this.#end = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  /** Nothing is left to wait for: the next batch is full. */
  end(): void {
    this.#end();
  }
}
