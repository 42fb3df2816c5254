// Rounds of work under way in this process. What a round has taken is due no more and not yet done: whoever finds nothing
// due, and must know that all is done, waits for them.

export type Rounds = {
  /** Runs one round; its answer and its fault are the caller's. */
  run<T>(work: () => Promise<T>): Promise<T>;
  /** Resolves when the rounds that are under way now have ended, well or not. */
  ended(): Promise<void>;
};

export function openRounds(): Rounds {
  const under_way = new Set<Promise<unknown>>();
  return {
    run: (work) => {
      const mine = work().finally(() => under_way.delete(mine));
      under_way.add(mine);
      return mine;
    },
    ended: async () => void (await Promise.allSettled(under_way)),
  };
}
