// Work in order within a lane, lanes side by side, and a bound over all: as an endpoint gets its deliveries.

export type Lanes = {
  /** Puts work at the end of its lane; resolves once there is room for more. Work never fails. */
  add(lane: string, work: () => Promise<void>): Promise<void>;
  /** Resolves when everything is done. */
  idle(): Promise<void>;
};

export function createLanes(most: number): Lanes {
  const ends = new Map<string, Promise<void>>();
  const unfinished = new Set<Promise<void>>();
  return {
    add: async (lane, work) => {
      const end = (ends.get(lane) ?? Promise.resolve()).then(work).then(() => {
        unfinished.delete(end);
        if (ends.get(lane) === end) ends.delete(lane);
      });
      ends.set(lane, end);
      unfinished.add(end);
      if (unfinished.size >= most) await Promise.race(unfinished);
    },
    idle: async () => {
      await Promise.all(unfinished);
    },
  };
}
