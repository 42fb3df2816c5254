// The engine: callers of one lane are coalesced into batches, and each batch is one transaction of two round trips:
// lane and state in, the pure decision, effects and commit out. Any number of engines may run on one database.

import { coalesce } from "@cauri/store/coalescer";
import { isUnavailable, type Pool, transact } from "@cauri/store/pool";
import { type Due, findLane, lanesWithDueHolds, readState, SWEEP_LIMIT, writeEffects } from "./batch-store.ts";
import type { Book, GroupAnswer, GroupOrder } from "./books.ts";
import { hashBatch } from "./chain.ts";
import { type Decision, decide, isEmpty } from "./decide.ts";
import { changeQueue, countAnswers, observeBatchSize, observeCommit, observeLaneWait } from "./numbers.ts";

/** Groups per batch: where a batch of this size spends its time in rows and no longer in its commit. */
const MAX_BATCH = 1_000;
/** Transfers per transaction: bounds how long it keeps the lane, whatever the groups' sizes. */
const MAX_TRANSFERS = 2_000;
/** Groups that may wait in a lane: about half a second of work, and far less than a caller's patience. */
const MAX_WAITING = 10_000;
/** A caller's deadline is 8 s: who waited this long gets his 503 while he still listens. */
const MAX_WAIT_MS = 4_000;

/** Of a batch whose ids another lane takes: each repetition knows at least one more of them. */
const MAX_ATTEMPTS = 3;
const UNIQUE_VIOLATION = "23505";

export type EngineOptions = { readonly pool: Pool; readonly max_waiting?: number };

export type Engine = {
  /**
   * Answers groups one by one, in their order within a lane. Throws Busy when too much waits, and whatever the database
   * throws: some of the groups may stand then. Repeating is always safe.
   */
  post(groups: readonly GroupOrder[]): Promise<GroupAnswer[]>;
  /** Expires due holds that no transfer touches; true when there may be more. */
  sweep(): Promise<boolean>;
};

type Queue = (group: GroupOrder) => Promise<GroupAnswer>;

export function startEngine({ pool, max_waiting = MAX_WAITING }: EngineOptions): Engine {
  const queues = new Map<string, Promise<Queue | null>>();

  /** Lanes are never deleted, so what was found stays true; what was not found may be opened at any time. */
  async function findQueue(asset_id: string, book: Book): Promise<Queue> {
    const key = `${book}/${asset_id}`;
    // Shared while it is on its way: a thousand first callers of a lane ask once and get one queue.
    const asked = queues.get(key) ?? openQueue(pool, asset_id, book, max_waiting);
    queues.set(key, asked);
    const forget = () => queues.get(key) === asked && queues.delete(key);
    const queue = await asked.catch((error: unknown) => {
      forget();
      throw error;
    });
    if (queue !== null) return queue;
    forget();
    // Nothing can be booked where no lane is, but an id may be known from another one.
    return async (group) => (await runBatch(pool, 0, [group])).answers[0] ?? unanswered();
  }

  return {
    async post(groups) {
      changeQueue(groups.length);
      try {
        const found = await Promise.all(groups.map(({ asset_id, book }) => findQueue(asset_id, book)));
        // All in one go, so that no other caller's groups come between and the order is kept.
        return await Promise.all(groups.map((group, index) => found[index]?.(group) ?? unanswered()));
      } finally {
        changeQueue(-groups.length);
      }
    },
    async sweep() {
      let more = false;
      for (const lane_id of await lanesWithDueHolds(pool)) {
        const { effects } = await runBatch(pool, lane_id, [], "lane");
        more ||= effects.transfers.length >= SWEEP_LIMIT;
      }
      return more;
    },
  };
}

async function openQueue(pool: Pool, asset_id: string, book: Book, max_waiting: number): Promise<Queue | null> {
  const lane_id = await findLane(pool, asset_id, book);
  if (lane_id === null) return null;
  return coalesce<GroupOrder, GroupAnswer>({
    run: (groups) => runAll(pool, lane_id, groups),
    max_batch: MAX_BATCH,
    max_waiting,
    max_wait_ms: MAX_WAIT_MS,
    observe: observeBatchSize,
  });
}

/** A coalesced batch in transactions of bounded size, in its order. */
async function runAll(pool: Pool, lane_id: number, groups: readonly GroupOrder[]): Promise<(GroupAnswer | Error)[]> {
  const answers: (GroupAnswer | Error)[] = [];
  for (const chunk of chunksOf(groups)) answers.push(...(await runChunk(pool, lane_id, chunk)));
  return answers;
}

/**
 * A batch that fails is run again group by group, so that a broken one fails alone. Not so when the database itself is
 * away: nobody would fare better, and each would wait for its own time-out.
 */
async function runChunk(
  pool: Pool,
  lane_id: number,
  chunk: readonly GroupOrder[],
  attempt = 1,
): Promise<(GroupAnswer | Error)[]> {
  try {
    return [...(await runBatch(pool, lane_id, chunk)).answers];
  } catch (error) {
    // Another lane has taken an id between our reading and our writing: now it is there to be read.
    if (isTaken(error) && attempt < MAX_ATTEMPTS) return await runChunk(pool, lane_id, chunk, attempt + 1);
    if (chunk.length === 1 || isUnavailable(error)) return chunk.map(() => asError(error));
  }
  const answers: (GroupAnswer | Error)[] = [];
  for (const group of chunk) answers.push(...(await runChunk(pool, lane_id, [group])));
  return answers;
}

/** One transaction. The lane is locked by its first statement and free again with its commit. */
export async function runBatch(
  pool: Pool,
  lane_id: number,
  groups: readonly GroupOrder[],
  due: Due = "touched",
): Promise<Decision> {
  const begun = performance.now();
  let decided = begun;
  const decision = await transact(pool, async (tx) => {
    const { state, lane: head } = await readState(tx, lane_id, groups, due);
    const decision = decide(state, groups);
    decided = performance.now();
    if (isEmpty(decision.effects) || state.lane === null || head === null) return decision;
    const codes = new Map(state.accounts.map((account) => [account.account_id, account.code]));
    const hash = hashBatch(
      {
        previous: head.head,
        asset_id: state.lane.asset_id,
        book: state.lane.book,
        sequence: head.sequence + 1n,
        recorded_us: state.now_us,
        transfers: decision.effects.transfers.map(({ id, group_id, fields }) => ({ id, word: group_id, fields })),
        refusals: decision.effects.refusals.map(({ id, result, fields }) => ({ id, word: result, fields })),
      },
      (account_id) => codes.get(account_id) ?? unanswered(),
    );
    writeEffects(tx, state.lane, head, hash, decision.effects);
    return decision;
  });
  observeLaneWait(decided - begun);
  observeCommit(performance.now() - decided);
  countAnswers(decision.answers);
  return decision;
}

function chunksOf(groups: readonly GroupOrder[]): GroupOrder[][] {
  const chunks: GroupOrder[][] = [[]];
  let size = 0;
  for (const group of groups) {
    if (size > 0 && size + group.transfers.length > MAX_TRANSFERS) {
      chunks.push([]);
      size = 0;
    }
    chunks.at(-1)?.push(group);
    size += group.transfers.length;
  }
  return chunks;
}

function isTaken(error: unknown): boolean {
  return error instanceof Error && "code" in error && error.code === UNIQUE_VIOLATION;
}

function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error("a batch failed", { cause: error });
}

function unanswered(): never {
  throw new Error("bug: the decision is incomplete");
}
