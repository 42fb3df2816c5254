// Where something may be due: what a process knows without asking the database.

/** The whole queue is looked at so often: for retries that have become due and for what another replica left. */
const LOOK_MS = 250;
/** A look waits this many times as long as the last one took, so that many endpoints never cost more than a tenth. */
const LOOK_REST = 9;
/** Endpoints that one claim looks at; the others' turn is the next one. */
const ENDPOINTS_PER_CLAIM = 250;

/**
 * The endpoints that something may be due at, so that a claim looks at these and not at all: those of new events, those of
 * ended attempts where something was left waiting, and from time to time those of the whole queue. A hint too many costs
 * a look, one too few a quarter of a second.
 */
export function openHints(readWaiting: () => Promise<readonly bigint[]>) {
  let hot = new Set<bigint>();
  /** Where something waited when it was last looked at, perhaps for an attempt under way to end. */
  const waiting = new Set<bigint>();
  /** Where something came to wait since hints were taken for a claim: that one may not have seen it. */
  const news = new Set<bigint>();
  let look_at = 0;
  const note = (endpoints: readonly bigint[]) => {
    for (const id of endpoints) {
      waiting.add(id);
      news.add(id);
    }
  };
  const add = (endpoints: readonly bigint[]) => {
    for (const id of endpoints) hot.add(id);
    note(endpoints);
  };
  return {
    add,
    /** Something waits there for an attempt under way to end. */
    note,
    /** Of these endpoints those where something waited when that was last heard of, once each. */
    waitingAt: (endpoints: readonly bigint[]): bigint[] => [...new Set(endpoints)].filter((id) => waiting.has(id)),
    /** An attempt has ended there; tells whether a claim may find something now, there or where the room was too small. */
    ended(id: bigint): boolean {
      if (waiting.has(id)) hot.add(id);
      return hot.size > 0;
    },
    /** Of the endpoints that a claim has looked at only these had something waiting, and where it came since. */
    claimed(asked: readonly bigint[], had: readonly bigint[]) {
      for (const id of asked) if (!news.has(id)) waiting.delete(id);
      for (const id of had) waiting.add(id);
    },
    lookSoon() {
      look_at = 0;
    },
    async look() {
      const began = performance.now();
      if (began < look_at) return;
      look_at = began + LOOK_MS;
      add(await readWaiting());
      const took = performance.now() - began;
      // Whoever asked for a look meanwhile gets it.
      if (look_at > 0) look_at = began + Math.max(LOOK_MS, took * LOOK_REST);
    },
    /** Those whose turn it is, the oldest hint first. */
    take(): bigint[] {
      news.clear();
      const endpoints = [...hot].slice(0, ENDPOINTS_PER_CLAIM);
      if (endpoints.length === hot.size) hot = new Set();
      else for (const id of endpoints) hot.delete(id);
      return endpoints;
    },
  };
}
