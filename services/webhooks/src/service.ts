// The RPCs of webhooks: decode, call, encode.

import { newId } from "@cauri/money/ids";
import { newReference } from "@cauri/money/reference";
import { isRefusal, type Refusal, refuse } from "@cauri/money/refusal";
import type { DrainRequest } from "@cauri/proto/ts/cauri/shared/v1/shared";
import {
  type Endpoint as EndpointMessage,
  type TestResult,
  WebhookServiceService,
} from "@cauri/proto/ts/cauri/webhooks/v1/webhooks";
import type { Caller } from "@cauri/rpc/caller";
import { type Service, service } from "@cauri/rpc/server";
import type { Dialer } from "./dialer.ts";
import { MAX_ENDPOINTS } from "./endpoint.ts";
import { deleteEndpoint, type Endpoint, findById, listOf, reinstate } from "./endpoint-store.ts";
import { noticeBody, noticeHeaders } from "./notice.ts";
import { change, endpointNumber, type Rooms, register, unknownEndpoint } from "./registration.ts";
import { rotate } from "./rotation.ts";
import { secretOf, secretsOf, signingOf } from "./secret.ts";

export type ServiceRooms = Rooms & {
  readonly dialer: Dialer;
  /** Something may be due that was not before. */
  readonly wake: () => void;
  /** Does what is due by one account's test clock. */
  readonly drain: (request: DrainRequest, deadline_ms: number) => Promise<{ done: bigint } | Refusal>;
};

export function webhookService(rooms: ServiceRooms): Service {
  const { pool, cipher } = rooms;
  return service(WebhookServiceService, {
    listEndpoints: async (_request, { caller }) => {
      const data = (await listOf(pool, caller.account)).map(view);
      return { data, page: 1, perPage: MAX_ENDPOINTS, total: BigInt(data.length), hasMore: false };
    },
    createEndpoint: async (request, call) => {
      const { url, description, subscribedEvents, standardHeaders } = request;
      const registered = await register(rooms, call.caller, request, {
        url,
        description,
        subscribed_events: subscribedEvents,
        standard_headers: standardHeaders,
      });
      if (isRefusal(registered)) return registered;
      call.outcome(registered.outcome);
      return { ...view(registered.endpoint), secret: secretOf(cipher, registered.endpoint) };
    },
    getEndpoint: async ({ id }, { caller }) => {
      const endpoint = await find(rooms, caller, id);
      return endpoint === null ? unknownEndpoint() : view(endpoint);
    },
    updateEndpoint: async (request, { caller }) => {
      const { url, description, subscribedEvents, isActive, standardHeaders } = request;
      const wanted = {
        url,
        description,
        subscribed_events: subscribedEvents,
        is_active: isActive,
        standard_headers: standardHeaders,
      };
      const changed = await change(rooms, caller, request.id, wanted, request.updateMask ?? []);
      if (isRefusal(changed)) return changed;
      rooms.wake();
      return view(changed);
    },
    deleteEndpoint: async ({ id }, { caller }) => {
      const number = endpointNumber(id);
      const deleted = number !== null && (await deleteEndpoint(pool, caller.account, number));
      return deleted ? {} : unknownEndpoint();
    },
    getEndpointSecret: async ({ id }, { caller }) => {
      const endpoint = await find(rooms, caller, id);
      if (endpoint === null) return unknownEndpoint();
      const [secret, previousSecret] = secretsOf(cipher, endpoint);
      return { secret, previousSecret };
    },
    rotateEndpointSecret: async (request) => {
      const endpoint = await rotate(rooms, request);
      if (isRefusal(endpoint)) return endpoint;
      const [secret, previousSecret] = secretsOf(cipher, endpoint);
      const previousSecretUntil = endpoint.previous_until ?? undefined;
      return { ...view(endpoint), secret, previousSecret, previousSecretUntil };
    },
    testEndpoints: async (_request, { caller }) => testAll(rooms, caller),
    drain: (request, call) => rooms.drain(request, call.deadline_ms),
  });
}

function find({ pool }: Rooms, caller: Caller, id: string): Promise<Endpoint | null> {
  const number = endpointNumber(id);
  return number === null ? Promise.resolve(null) : findById(pool, caller.account, number);
}

/** All active endpoints at once, suspended ones too; a success reinstates, nothing else is kept. */
async function testAll(rooms: ServiceRooms, caller: Caller) {
  const endpoints = (await listOf(rooms.pool, caller.account)).filter(({ is_active }) => is_active);
  if (endpoints.length === 0) return refuse("no_active_endpoint", "no active endpoint to deliver to");
  const now_ms = rooms.now();
  const event_id = newId("evt", now_ms);
  const body = noticeBody({
    event: "payment.test",
    created: new Date(now_ms),
    id: event_id,
    // Always of test mode, whatever key asks: nothing was paid.
    reference: newReference("PAY", "test"),
    merchant_reference: null,
    amount_minor: 0n,
    scale: 0,
    currency: "XOF",
    status: "test",
  });
  const notice = { event: "payment.test", event_id, mode: "test" as const, body };
  const data: TestResult[] = await Promise.all(
    endpoints.map(async (endpoint) => {
      const headers = noticeHeaders(notice, signingOf(rooms.cipher, endpoint), rooms.now());
      const attempt = await rooms.dialer.post(endpoint.url, headers, body);
      return {
        endpointId: endpoint.id,
        url: endpoint.url,
        delivered: attempt.delivered,
        statusCode: attempt.status_code ?? undefined,
        durationMs: attempt.duration_ms,
        error: attempt.error ?? undefined,
      };
    }),
  );
  const healthy = data.filter(({ delivered }) => delivered).map(({ endpointId }) => endpointId);
  if (healthy.length > 0) {
    await reinstate(rooms.pool, healthy);
    rooms.wake();
  }
  return { data };
}

function view(endpoint: Endpoint): EndpointMessage {
  return {
    id: endpoint.id,
    url: endpoint.url,
    description: endpoint.description ?? undefined,
    subscribedEvents: [...endpoint.subscribed_events],
    isActive: endpoint.is_active,
    standardHeaders: endpoint.standard_headers,
    consecutiveFailures: endpoint.consecutive_failures,
    suspendedUntil: endpoint.suspended_until ?? undefined,
    lastDeliveryAt: endpoint.last_delivery_at ?? undefined,
    lastSuccessAt: endpoint.last_success_at ?? undefined,
    lastFailureAt: endpoint.last_failure_at ?? undefined,
    createdAt: endpoint.created_at,
    updatedAt: endpoint.updated_at,
  };
}
