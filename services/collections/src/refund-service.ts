// The RPCs of RefundService: decode, call, encode.

import { driveOutgoing } from "@cauri/events/outgoing-drive";
import { parseOperationRef } from "@cauri/money/reference";
import { isRefusal, refuse, refuseField } from "@cauri/money/refusal";
import { RefundServiceService } from "@cauri/proto/ts/cauri/collections/v1/refunds";
import { type Service, service } from "@cauri/rpc/server";
import { createRefund, type Refunding, refundKind } from "./refund-create.ts";
import { refunds } from "./refund-store.ts";
import { refundView, statusesOf } from "./refund-view.ts";

const DEFAULT_PER_PAGE = 25;

export function refundService(rooms: Refunding): Service {
  return service(RefundServiceService, {
    createRefund: async (request, call) => {
      const created = await createRefund(rooms, request, call.caller);
      if (isRefusal(created)) return created;
      call.outcome(created.outcome);
      return refundView(created.operation);
    },
    getRefund: async ({ id }, { caller }) => {
      const refund = await refunds.findBy(rooms.pool, parseOperationRef(id), caller);
      return refund === null ? refuse("not_found", "no such refund") : refundView(refund);
    },
    listRefunds: async (request, { caller }) => {
      const statuses = request.status === undefined ? undefined : statusesOf(request.status);
      if (statuses?.length === 0) return refuseField("status", "unknown status");
      const found = await refunds.list(rooms.pool, {
        account: caller.account,
        mode: caller.mode,
        page: Number(request.page ?? 1),
        per_page: request.perPage ?? DEFAULT_PER_PAGE,
        statuses,
        client_ref: request.clientRef,
        created_from: request.createdFrom,
        created_to: request.createdTo,
      });
      return {
        data: found.rows.map(refundView),
        page: BigInt(found.page),
        perPage: found.per_page,
        total: BigInt(found.total),
        hasMore: found.has_more,
      };
    },
    advanceRefund: async (request, call) => {
      const refund = await driveOutgoing(refundKind, rooms, request, call.request_id);
      return isRefusal(refund) ? refund : refundView(refund);
    },
  });
}
