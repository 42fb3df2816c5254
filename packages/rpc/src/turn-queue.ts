// What one turn of the event loop brings leaves as one message. While a message is being written, what comes next waits
// for its end and goes together: whoever reads slowly gets fewer and larger messages.

/** So many bytes go in one message; a single item may be larger and then goes by itself. */
const MESSAGE_BYTES = 262_144;

type Batch<T> = { readonly items: T[]; bytes: number };

export class TurnQueue<T> {
  readonly #write: (items: readonly T[], written: () => void) => void;
  #batches: Batch<T>[] = [];
  #bytes = 0;
  #scheduled = false;
  #writing = false;

  /** `write` sends one message and calls back when the next one may follow. */
  constructor(write: (items: readonly T[], written: () => void) => void) {
    this.#write = write;
  }

  /** Bytes that wait. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Whether a message is being gathered that leaves at the end of this turn. */
  get gathering(): boolean {
    return this.#scheduled;
  }

  /** Nothing waits, and nothing is being written. */
  get idle(): boolean {
    return this.#batches.length === 0 && !this.#writing;
  }

  push(item: T, bytes: number): void {
    let last = this.#batches.at(-1);
    if (last === undefined || last.bytes + bytes > MESSAGE_BYTES) {
      last = { items: [], bytes: 0 };
      this.#batches.push(last);
    }
    last.items.push(item);
    last.bytes += bytes;
    this.#bytes += bytes;
    if (!this.#writing) this.#schedule();
  }

  /** Writes all that waits, without waiting for anything: the end of the queue. */
  flush(): void {
    for (const { items } of this.#take(this.#batches.length)) this.#write(items, () => {});
  }

  /** Forgets what waits. */
  drop(): void {
    this.#take(this.#batches.length);
  }

  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    setImmediate(() => {
      this.#scheduled = false;
      for (const { items } of this.#take(1)) {
        this.#writing = true;
        this.#write(items, this.#written);
      }
    });
  }

  readonly #written = () => {
    this.#writing = false;
    if (this.#batches.length > 0) this.#schedule();
  };

  #take(count: number): Batch<T>[] {
    const taken = this.#batches.splice(0, count);
    for (const { bytes } of taken) this.#bytes -= bytes;
    return taken;
  }
}
