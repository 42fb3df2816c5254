// The engine: callers of one lane are coalesced into batches, and the lane's writer makes each a transaction, the next ones
// decided while this one commits. Any number of engines may run on one database.

import { coalesce } from "@cauri/store/coalescer";
import type { Pool } from "@cauri/store/pool";
import { findLane, lanesWithDueHolds, SWEEP_LIMIT } from "./batch-store.ts";
import type { Book, GroupAnswer, GroupOrder } from "./books.ts";
import { LaneWriter, runBatch } from "./lane.ts";
import { changeQueue, observeBatchSize } from "./numbers.ts";

/** Groups per batch: where a batch of this size spends its time in rows and no longer in its commit. */
const MAX_BATCH = 1_000;
/** Transfers per transaction: bounds how long it keeps the lane, whatever the groups' sizes. */
const MAX_TRANSFERS = 2_000;
/** Groups that may wait in a lane: about half a second of work, and far less than a caller's patience. */
const MAX_WAITING = 10_000;
/** A caller's deadline is 8 s: who waited this long gets his 503 while he still listens. */
const MAX_WAIT_MS = 4_000;
/** Batches of a lane at a time: one that commits, and others that are decided meanwhile and wait at the database. */
const BATCHES_UNDER_WAY = 3;
/** Groups that are worth a batch of their own beside one, and beside two: below this its price is not its rows. */
const LEAST_BESIDE = [24, 300];

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
  /** Lanes are never deleted, so what was found stays true; what was not found may be opened at any time. */
  const queues = new Map<string, Queue>();
  const asked = new Map<string, Promise<Queue | null>>();
  const writers = new Map<number, LaneWriter>();

  function writerOf(lane_id: number): LaneWriter {
    const writer = writers.get(lane_id) ?? new LaneWriter(pool, lane_id);
    writers.set(lane_id, writer);
    return writer;
  }

  async function openQueue(asset_id: string, book: Book): Promise<Queue | null> {
    const lane_id = await findLane(pool, asset_id, book);
    if (lane_id === null) return null;
    const writer = writerOf(lane_id);
    const queue = coalesce<GroupOrder, GroupAnswer>({
      run: (groups) => writeAll(writer, groups),
      ...{ max_batch: MAX_BATCH, max_waiting, max_wait_ms: MAX_WAIT_MS },
      ...{ lanes: BATCHES_UNDER_WAY, least_beside: LEAST_BESIDE },
      observe: observeBatchSize,
    });
    queues.set(`${book}/${asset_id}`, queue);
    return queue;
  }

  async function findQueue(asset_id: string, book: Book): Promise<Queue> {
    const key = `${book}/${asset_id}`;
    // Shared while it is on its way: a thousand first callers of a lane ask once and get one queue.
    const asking = asked.get(key) ?? openQueue(asset_id, book).finally(() => asked.delete(key));
    asked.set(key, asking);
    // Nothing can be booked where no lane is, but an id may be known from another one.
    return (await asking) ?? (async (group) => (await runBatch(pool, 0, [group])).answers[0] ?? unanswered());
  }

  const queueOf = ({ asset_id, book }: GroupOrder) => queues.get(`${book}/${asset_id}`);

  return {
    async post(groups) {
      changeQueue(groups.length);
      try {
        const missing = groups.filter((group) => queueOf(group) === undefined);
        const found = new Map<GroupOrder, Queue>();
        await Promise.all(missing.map(async (group) => found.set(group, await findQueue(group.asset_id, group.book))));
        // All in one go, so that no other caller's groups come between and the order is kept.
        return await Promise.all(groups.map((group) => (queueOf(group) ?? found.get(group) ?? unanswered())(group)));
      } finally {
        changeQueue(-groups.length);
      }
    },
    async sweep() {
      let more = false;
      for (const lane_id of await lanesWithDueHolds(pool)) {
        const expired = await writerOf(lane_id).sweep();
        more ||= expired >= SWEEP_LIMIT;
      }
      return more;
    },
  };
}

/** A coalesced batch in transactions of bounded size, each decided on what the one before leaves. */
async function writeAll(writer: LaneWriter, groups: readonly GroupOrder[]): Promise<(GroupAnswer | Error)[]> {
  const chunks = chunksOf(groups);
  const answers = await Promise.all(chunks.map((chunk) => writer.post(chunk)));
  return answers.flat();
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

function unanswered(): never {
  throw new Error("bug: the decision is incomplete");
}
