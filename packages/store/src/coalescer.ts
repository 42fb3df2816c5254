// The coalescer: while one batch runs the next one gathers, so that many callers share the price of one statement and
// one commit, and a lone caller waits for nobody. It pushes back instead of queueing without end.
// The caller sorts a batch by key where its statement locks rows; the results come back in the order of the items.

import { setImmediate as answered } from "node:timers/promises";
import { here, type Runner } from "@cauri/trace/span";
import { Gap } from "./gap.ts";
import { isUnavailable } from "./pool.ts";

export type Coalescing<I, O> = {
  /** Does a whole batch; answers in the order of the items. An Error in an item's place fails that item alone. */
  run: (batch: I[]) => Promise<(O | Error)[]>;
  /** Items per batch: bounds the statement, and with it how long it holds its locks. */
  max_batch: number;
  /** Items that may wait while a batch runs; one more is refused with `Busy`. */
  max_waiting: number;
  /** An item that waited longer than this is refused with `Busy`: its caller has given up or soon will. */
  max_wait_ms?: number;
  /** Runs each item of a failed batch by itself, so that a broken one fails alone. Only where a repeat does no harm. */
  retry_alone?: boolean;
  /** Batches at the same time; 1 unless the statement gains from more. */
  lanes?: number;
  /**
   * Items that a batch beside another one needs to begin: fewer wait for more, or for the end of the one under way. The
   * second number is for a batch beside two, and so on; the last one for all that follow.
   */
  least_beside?: readonly number[];
  /**
   * For calls that come one by one, many at a time: while batches find company, each begins so long after the one before
   * it, or when it is full, so that more share its price. A lone caller, who would wait for nobody, does not wait.
   */
  gap_ms?: number;
  /** Hears the size of each batch, for the histogram of batch sizes. */
  observe?: (size: number) => void;
};

/** Too much is waiting: nothing was done with this item, and the caller's answer is 503. */
export class Busy extends Error {
  override readonly name = "Busy";
  readonly unavailable = true;
}

type Waiting<I, O> = {
  readonly item: I;
  readonly since: number;
  readonly resolve: (value: O) => void;
  readonly reject: (error: unknown) => void;
  /** In the span of whoever asked. */
  readonly inside: Runner;
};

export function coalesce<I, O>(options: Coalescing<I, O>): (item: I) => Promise<O> {
  const { run, max_batch, max_waiting, max_wait_ms = Number.POSITIVE_INFINITY } = options;
  const { lanes = 1, least_beside = [], gap_ms = 0 } = options;
  let waiting: Waiting<I, O>[] = [];
  let running = 0;
  let under_way = 0;
  const gap = new Gap(gap_ms);

  /** What a batch needs to begin beside so many others. */
  function leastBeside(others: number): number {
    return others === 0 ? 1 : (least_beside[others - 1] ?? least_beside.at(-1) ?? 1);
  }

  /** Takes the next batch off the queue and refuses what waited too long; the queue is in order of arrival. */
  function takeBatch(): Waiting<I, O>[] {
    const oldest = performance.now() - max_wait_ms;
    const fresh = waiting.findIndex((entry) => entry.since >= oldest);
    const stale = waiting.splice(0, fresh < 0 ? waiting.length : fresh);
    for (const entry of stale) entry.reject(new Busy("this waited too long for its turn"));
    const size = sizeOf(waiting.length + under_way);
    const batch = waiting.slice(0, size);
    waiting = waiting.slice(size);
    gap.begin(batch.length);
    return batch;
  }

  /** Lanes share evenly, as many as there is enough for: one that took all would leave the others nothing to overlap with. */
  function sizeOf(items: number): number {
    let among = lanes;
    while (among > 2 && items / among < leastBeside(among - 1)) among -= 1;
    return Math.min(max_batch, Math.max(leastBeside(among - 1), Math.ceil(items / among)));
  }

  async function work(): Promise<void> {
    while (waiting.length >= leastBeside(running - 1)) {
      if (waiting.length < max_batch) await gap.over();
      const batch = takeBatch();
      if (batch.length === 0) break;
      await settle(batch);
      // Callers who were just answered often come back at once: with them the next batch is half as large again.
      await answered();
    }
    running -= 1;
  }

  async function settle(batch: Waiting<I, O>[]): Promise<void> {
    options.observe?.(batch.length);
    under_way += batch.length;
    try {
      // A batch is part of its first caller's trace: it cannot be part of all.
      const inside = batch[0]?.inside ?? here();
      const results = await inside(() => run(batch.map((entry) => entry.item)));
      if (results.length !== batch.length) throw new Error(`${batch.length} items, ${results.length} results`);
      for (const [index, entry] of batch.entries()) {
        const result = results[index];
        if (result instanceof Error) entry.reject(result);
        else entry.resolve(result as O);
      }
    } catch (error) {
      // With the database away each would fail alike, one after another, for longer than anybody waits.
      const alone = options.retry_alone === true && batch.length > 1 && !isUnavailable(error);
      if (!alone) for (const entry of batch) entry.reject(error);
      else for (const entry of batch) await settle([entry]);
    } finally {
      under_way -= batch.length;
    }
  }

  return (item) =>
    new Promise<O>((resolve, reject) => {
      if (waiting.length >= max_waiting) {
        reject(new Busy("too much is waiting already"));
        return;
      }
      waiting.push({ item, since: performance.now(), resolve, reject, inside: here() });
      if (waiting.length >= max_batch) gap.end();
      if (running >= lanes || waiting.length < leastBeside(running)) return;
      running += 1;
      // A turn of the event loop later, so that calls which arrived by one read of a socket share the first batch.
      setImmediate(work);
    });
}

/** One coalescer for each owner (a pool, a client), made when it is first used and gone with it. */
export function coalescePer<K extends object, I, O>(
  open: (owner: K) => Coalescing<I, O>,
): (owner: K, item: I) => Promise<O> {
  const opened = new WeakMap<K, (item: I) => Promise<O>>();
  return (owner, item) => {
    const known = opened.get(owner);
    if (known !== undefined) return known(item);
    const made = coalesce(open(owner));
    opened.set(owner, made);
    return made(item);
  };
}
