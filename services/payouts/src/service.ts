// The RPCs of this room: decode, call, encode.

import { driveOutgoing } from "@cauri/events/outgoing-drive";
import type { Created } from "@cauri/events/outgoing-run";
import { parseOperationRef } from "@cauri/money/reference";
import { isRefusal, type Refusal, refuse, refuseField } from "@cauri/money/refusal";
import { PayoutServiceService } from "@cauri/proto/ts/cauri/payouts/v1/payouts";
import { RebalanceServiceService, TransferServiceService } from "@cauri/proto/ts/cauri/payouts/v1/transfers";
import { WithdrawalServiceService } from "@cauri/proto/ts/cauri/payouts/v1/withdrawals";
import type { DrainRequest, DrainResponse } from "@cauri/proto/ts/cauri/shared/v1/shared";
import type { Caller } from "@cauri/rpc/caller";
import { type Call, type Service, service } from "@cauri/rpc/server";
import { type Creation, createPayout, payoutKind } from "./create.ts";
import { createRebalance, createTransfer, type Moving } from "./movement-create.ts";
import { findSeen, listSeen } from "./movement-store.ts";
import { cancelPayout } from "./operate.ts";
import { payouts } from "./store.ts";
import { rebalanceView, statusOf, transferView, viewOf, withdrawalStatusOf, withdrawalView } from "./view.ts";
import { createWithdrawal, type Withdrawing } from "./withdrawal-create.ts";
import { advanceWithdrawal, approveWithdrawal, rejectWithdrawal } from "./withdrawal-decide.ts";
import { withdrawals } from "./withdrawal-store.ts";

const DEFAULT_PER_PAGE = 25;

export type PayoutRooms = Creation &
  Moving &
  Withdrawing & { readonly drain: (request: DrainRequest, deadline_ms: number) => Promise<DrainResponse | Refusal> };

export function payoutServices(rooms: PayoutRooms): readonly Service[] {
  return [payoutService(rooms), transferService(rooms), rebalanceService(rooms), withdrawalService(rooms)];
}

function payoutService(rooms: PayoutRooms): Service {
  return service(PayoutServiceService, {
    createPayout: async (request, call) => told(call, await createPayout(rooms, request, call.caller), viewOf),
    getPayout: async ({ id }, { caller }) => {
      const payout = await payouts.findBy(rooms.pool, parseOperationRef(id), caller);
      return payout === null ? noSuch("payout") : viewOf(payout);
    },
    listPayouts: async (request, { caller }) => {
      const status = request.status === undefined ? undefined : statusOf(request.status);
      if (status === null) return refuseField("status", "unknown status");
      return pageOf(await payouts.list(rooms.pool, { ...queryOf(request, caller), status }), viewOf);
    },
    cancelPayout: async ({ id }, call) => shown(await cancelPayout(rooms, id, call.request_id), viewOf),
    advancePayout: async (request, call) =>
      shown(await driveOutgoing(payoutKind, rooms, request, call.request_id), viewOf),
    drain: (request, call) => rooms.drain(request, call.deadline_ms),
  });
}

function transferService(rooms: PayoutRooms): Service {
  return service(TransferServiceService, {
    createTransfer: async (request, call) =>
      told(call, await createTransfer(rooms, request, call.caller), transferView),
    getTransfer: async ({ id }, { caller }) => {
      const transfer = await findSeen(rooms.pool, "transfer", parseOperationRef(id), caller);
      return transfer === null ? noSuch("transfer") : transferView(transfer);
    },
    listTransfers: async (request, { caller }) =>
      pageOf(await listSeen(rooms.pool, "transfer", queryOf(request, caller)), transferView),
  });
}

function rebalanceService(rooms: PayoutRooms): Service {
  return service(RebalanceServiceService, {
    createRebalance: async (request, call) =>
      told(call, await createRebalance(rooms, request, call.caller), rebalanceView),
    getRebalance: async ({ id }, { caller }) => {
      const rebalance = await findSeen(rooms.pool, "rebalance", parseOperationRef(id), caller);
      return rebalance === null ? noSuch("rebalance") : rebalanceView(rebalance);
    },
    listRebalances: async (request, { caller }) =>
      pageOf(await listSeen(rooms.pool, "rebalance", queryOf(request, caller)), rebalanceView),
  });
}

function withdrawalService(rooms: PayoutRooms): Service {
  return service(WithdrawalServiceService, {
    createWithdrawal: async (request, call) =>
      told(call, await createWithdrawal(rooms, request, call.caller), withdrawalView),
    getWithdrawal: async ({ id }, { caller }) => {
      const withdrawal = await withdrawals.findBy(rooms.pool, parseOperationRef(id), caller);
      return withdrawal === null ? noSuch("withdrawal request") : withdrawalView(withdrawal);
    },
    listWithdrawals: async (request, { caller }) => {
      const status = request.status === undefined ? undefined : withdrawalStatusOf(request.status);
      if (status === null) return refuseField("status", "unknown status");
      return pageOf(await withdrawals.list(rooms.pool, { ...queryOf(request, caller), status }), withdrawalView);
    },
    approveWithdrawal: async (request, call) =>
      shown(await approveWithdrawal(rooms, request, call.request_id), withdrawalView),
    rejectWithdrawal: async (request) => shown(await rejectWithdrawal(rooms, request), withdrawalView),
    advanceWithdrawal: async (request, call) =>
      shown(await advanceWithdrawal(rooms, request, call.request_id), withdrawalView),
  });
}

/** The answer of a creation, with what the edge must know of it. */
function told<T, V>(call: Call, created: Created<T> | Refusal, view: (operation: T) => V): V | Refusal {
  if (isRefusal(created)) return created;
  call.outcome(created.outcome);
  return view(created.operation);
}

function shown<T, V>(operation: T | Refusal, view: (operation: T) => V): V | Refusal {
  return isRefusal(operation) ? operation : view(operation);
}

type ListRequest = {
  readonly page?: bigint | undefined;
  readonly perPage?: number | undefined;
  readonly clientRef?: string | undefined;
  readonly createdFrom?: Date | undefined;
  readonly createdTo?: Date | undefined;
};

function queryOf(request: ListRequest, { account, mode }: Caller) {
  return {
    account,
    mode,
    page: Number(request.page ?? 1),
    per_page: request.perPage ?? DEFAULT_PER_PAGE,
    client_ref: request.clientRef,
    created_from: request.createdFrom,
    created_to: request.createdTo,
  };
}

type Page<T> = {
  readonly rows: readonly T[];
  readonly page: number;
  readonly per_page: number;
  readonly total: number;
  readonly has_more: boolean;
};

function pageOf<T, V>(found: Page<T>, view: (row: T) => V) {
  return {
    data: found.rows.map(view),
    page: BigInt(found.page),
    perPage: found.per_page,
    total: BigInt(found.total),
    hasMore: found.has_more,
  };
}

function noSuch(kind: string): Refusal {
  return refuse("not_found", `no such ${kind}`);
}
