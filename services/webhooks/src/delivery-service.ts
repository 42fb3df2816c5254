// The RPCs about deliveries: what was sent, each attempt, sending again. Decode, call, encode.

import { isRefusal, type Refusal, refuse, refuseField } from "@cauri/money/refusal";
import {
  type Delivery,
  DeliveryServiceService,
  type ReplayDeliveriesRequest,
  type ReplayDeliveriesResponse,
} from "@cauri/proto/ts/cauri/webhooks/v1/deliveries";
import { type Service, service } from "@cauri/rpc/server";
import { type Pool, snapshot, transact } from "@cauri/store/pool";
import { readCursor, writeCursor } from "./cursor.ts";
import {
  endpointsOf,
  readAttempts,
  readDeliveries,
  readDelivery,
  readNewestAttempts,
  type SeenAttempt,
  type SeenDelivery,
  STATUSES,
  type Status,
} from "./log-store.ts";
import { unknownEndpoint } from "./registration.ts";
import { beginAnew, findReplayable, lockEndpoints } from "./replay-store.ts";

const PAGE = { usual: 25, most: 100 };
/** Rows of one replay call: their locks are held for a moment, and a person sees progress. */
const BATCH = { usual: 500, most: 500 };
/** Of each delivery in a list so many attempts are shown: five rounds. */
const ATTEMPTS_SHOWN = 25;
const REPLAY_ID = /^[\x21-\x7e]{1,64}$/;

export type DeliveryRooms = {
  readonly pool: Pool;
  /** Something may be due that was not before. */
  readonly wake: () => void;
};

export function deliveryService({ pool, wake }: DeliveryRooms): Service {
  return service(DeliveryServiceService, {
    listDeliveries: async ({ accountId: account, endpointId: endpoint_id, status, from, to, ...page }) => {
      const limit = checkLimit(page.limit, PAGE);
      if (isRefusal(limit)) return limit;
      if (status !== undefined && !isStatus(status))
        return refuseField("status", `must be one of ${STATUSES.join(", ")}`);
      const list = ["deliveries", account, endpoint_id, status, from, to];
      const before = readCursor(list, page.cursor);
      if (isRefusal(before)) return before;
      return await snapshot(pool, async (tx) => {
        const endpoints = await endpointsOf(tx, account, endpoint_id);
        if (endpoints.length === 0 && endpoint_id !== undefined) return unknownEndpoint();
        const rows = await readDeliveries(tx, endpoints, { status, from, to, before, limit: limit + 1 });
        const shown = rows.slice(0, limit);
        const attempts = await attemptsOf(tx, shown);
        const last = rows.length > limit ? shown.at(-1) : undefined;
        return {
          data: shown.map((row) => writeDelivery(row, attempts)),
          hasMore: last !== undefined,
          nextCursor: last && writeCursor(list, { at: last.occurred_at, id: last.id }),
        };
      });
    },
    listAttempts: async ({ accountId, deliveryId, ...page }) => {
      const limit = checkLimit(page.limit, PAGE);
      if (isRefusal(limit)) return limit;
      const list = ["attempts", accountId, deliveryId];
      const before = readCursor(list, page.cursor);
      if (isRefusal(before)) return before;
      return await snapshot(pool, async (tx) => {
        if ((await readDelivery(tx, accountId, deliveryId)) === null) return unknownDelivery();
        const rows = await readAttempts(tx, deliveryId, before?.at ?? null, limit + 1);
        const shown = rows.slice(0, limit);
        const last = rows.length > limit ? shown.at(-1) : undefined;
        return {
          data: shown.map((row) => ({ ...writeAttempt(row), answer: row.answer?.toString("utf8") })),
          hasMore: last !== undefined,
          nextCursor: last && writeCursor(list, { at: last.at, id: "" }),
        };
      });
    },
    replayDelivery: async ({ accountId, deliveryId, replayId }) => {
      const wrong = checkReplayId(replayId);
      if (wrong !== null) return wrong;
      const replayed = await transact(pool, async (tx) => {
        const ended = await readDelivery(tx, accountId, deliveryId);
        const endpoints = ended === null ? [] : await lockEndpoints(tx, accountId, ended.endpoint_id);
        if (endpoints.length === 0) return unknownDelivery();
        await beginAnew(tx, [deliveryId], replayId);
        return readDelivery(tx, accountId, deliveryId);
      });
      if (replayed === null || isRefusal(replayed)) return replayed ?? unknownDelivery();
      wake();
      return writeDelivery(replayed, await attemptsOf(pool, [replayed]));
    },
    replayDeliveries: async (request) => {
      const answer = await replayBatch(pool, request);
      if (!isRefusal(answer) && answer.replayed > 0) wake();
      return answer;
    },
  });
}

/** One batch, in one transaction: repeated or interrupted, the same replay id goes on where it stopped. */
async function replayBatch(pool: Pool, request: ReplayDeliveriesRequest): Promise<ReplayDeliveriesResponse | Refusal> {
  const { accountId: account, endpointId: endpoint_id, replayId: replay_id, includeDelivered, from, to } = request;
  const wrong = checkReplayId(replay_id);
  if (wrong !== null) return wrong;
  if (endpoint_id === undefined && from === undefined && to === undefined)
    return refuseField("endpoint_id", "name an endpoint, a time span, or both");
  const limit = checkLimit(request.limit, BATCH);
  if (isRefusal(limit)) return limit;
  const list = ["replay", account, endpoint_id, replay_id, includeDelivered, from, to];
  const after = readCursor(list, request.cursor);
  if (isRefusal(after)) return after;
  return await transact(pool, async (tx) => {
    const endpoints = await lockEndpoints(tx, account, endpoint_id);
    if (endpoints.length === 0 && endpoint_id !== undefined) return unknownEndpoint();
    const found = await findReplayable(tx, endpoints, {
      include_delivered: includeDelivered,
      replay_id,
      from,
      to,
      after,
      limit,
    });
    const ids = found.map(({ id }) => id);
    const last = found.at(-1);
    return {
      replayed: await beginAnew(tx, ids, replay_id),
      upTo: last?.at,
      nextCursor: last !== undefined && found.length === limit ? writeCursor(list, last) : undefined,
    };
  });
}

async function attemptsOf(db: Parameters<typeof readNewestAttempts>[0], deliveries: readonly SeenDelivery[]) {
  const rows = await readNewestAttempts(
    db,
    deliveries.map(({ id }) => id),
    ATTEMPTS_SHOWN,
  );
  return Map.groupBy(rows, ({ delivery_id }) => delivery_id);
}

function writeDelivery(row: SeenDelivery, attempts: ReadonlyMap<string, readonly SeenAttempt[]>): Delivery {
  return {
    deliveryId: row.id,
    event: row.event,
    eventId: row.event_id,
    endpointId: row.endpoint_id,
    operationId: row.operation_id,
    mode: row.mode,
    status: row.status,
    attempts: (attempts.get(row.id) ?? []).map(writeAttempt),
    nextAttemptAt: row.next_attempt_at ?? undefined,
    heldBy: row.held_by ?? undefined,
    occurredAt: row.occurred_at,
    endedAt: row.ended_at ?? undefined,
  };
}

function writeAttempt({ at, status_code, duration_ms, error }: SeenAttempt) {
  return { at, statusCode: status_code ?? undefined, durationMs: duration_ms, error: error ?? undefined };
}

function isStatus(word: string): word is Status {
  return (STATUSES as readonly string[]).includes(word);
}

function checkLimit(limit: number | undefined, { usual, most }: { usual: number; most: number }): number | Refusal {
  const asked = limit ?? usual;
  return asked >= 1 && asked <= most ? asked : refuseField("limit", `must be from 1 to ${most}`);
}

function checkReplayId(replay_id: string): Refusal | null {
  return REPLAY_ID.test(replay_id) ? null : refuseField("replay_id", "must be 1 to 64 printable ASCII characters");
}

function unknownDelivery(): Refusal {
  return refuse("not_found", "no such webhook delivery");
}
