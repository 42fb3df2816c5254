// A merchant's client of the public contract, typed by generated code, over Connect, gRPC-Web or gRPC. The three say the
// same with the same keys, scopes, limits and refusals; only the transport differs.

import { ReferenceService } from "@cauri/proto/es/cauri/accounts/v1/reference_pb";
import { type RefusalDetail, RefusalDetailSchema } from "@cauri/proto/es/cauri/api/v1/reason_pb";
import { PaymentService } from "@cauri/proto/es/cauri/collections/v1/payments_pb";
import { RefundService } from "@cauri/proto/es/cauri/collections/v1/refunds_pb";
import { PayoutService } from "@cauri/proto/es/cauri/payouts/v1/payouts_pb";
import { ListenService } from "@cauri/proto/es/cauri/webhooks/v1/listen_pb";
import { WebhookService } from "@cauri/proto/es/cauri/webhooks/v1/webhooks_pb";
import {
  type CallOptions,
  Code,
  ConnectError,
  createClient,
  type Interceptor,
  type Transport,
} from "@connectrpc/connect";
import { createConnectTransport, createGrpcTransport, createGrpcWebTransport } from "@connectrpc/connect-node";

export const PROTOCOLS = ["connect", "grpc-web", "grpc"] as const;
export type Protocol = (typeof PROTOCOLS)[number];

export type Settings = {
  /** The public port for Connect and gRPC-Web, the gRPC port (HTTP/2) for gRPC. */
  readonly baseUrl: string;
  /** `sk_test_…` or `sk_live_…`; never in a browser. */
  readonly key: string;
  readonly protocol?: Protocol;
};

/** Longer than any deadline of the house, which answers within eight seconds. */
const TIMEOUT_MS = 15_000;
const TRIES = 5;
/** Between tries where the house names no time; doubled each time. */
const PAUSE_MS = 200;

/** One client per service; they share one transport and so its connections. */
export function createCauri(settings: Settings) {
  const transport = createTransport(settings);
  return {
    payments: createClient(PaymentService, transport),
    refunds: createClient(RefundService, transport),
    payouts: createClient(PayoutService, transport),
    reference: createClient(ReferenceService, transport),
    webhooks: createClient(WebhookService, transport),
    /** A server stream: give it `timeoutMs: 0`. */
    listener: createClient(ListenService, transport),
  };
}

export type Cauri = ReturnType<typeof createCauri>;

function createTransport({ baseUrl, key, protocol = "connect" }: Settings): Transport {
  const authenticate: Interceptor = (next) => (request) => {
    request.header.set("authorization", `Bearer ${key}`);
    return next(request);
  };
  const options = { baseUrl, interceptors: [authenticate], defaultTimeoutMs: TIMEOUT_MS };
  switch (protocol) {
    case "connect":
      return createConnectTransport({ ...options, httpVersion: "1.1" });
    case "grpc-web":
      return createGrpcWebTransport({ ...options, httpVersion: "1.1" });
    case "grpc":
      return createGrpcTransport(options);
  }
}

/** Why the house refused: `code` is the contract's, `field` names what is wrong. Undefined where no house answered. */
export function refusalOf(error: unknown): RefusalDetail | undefined {
  return error instanceof ConnectError ? error.findDetails(RefusalDetailSchema)[0] : undefined;
}

/**
 * Makes a creation happen exactly once, however often it must be asked for: every try carries the same Idempotency-Key.
 * Keep the key beside the order it is for, so that the next process can go on where this one died.
 */
export async function exactlyOnce<T>(key: string, create: (options: CallOptions) => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await create({ headers: { "idempotency-key": key } });
    } catch (error) {
      const wait_ms = repeatAfterMs(error);
      if (wait_ms === null || tries === TRIES) throw error;
      await new Promise((wake) => setTimeout(wake, Math.max(wait_ms, PAUSE_MS * 2 ** (tries - 1))));
    }
  }
}

/** How long to wait before the same request is worth another try; null where it would be refused again. */
function repeatAfterMs(error: unknown): number | null {
  if (!(error instanceof ConnectError)) return null;
  const refusal = refusalOf(error);
  if (refusal !== undefined) {
    // A wait is named with every refusal that passes; a rail's failure (`upstream_error`) passes without one.
    return refusal.retryAfterS > 0 || refusal.code === "upstream_error" ? refusal.retryAfterS * 1_000 : null;
  }
  // Nobody knows whether it arrived: the connection was refused, cut, or silent for too long.
  const lost: readonly Code[] = [Code.Unavailable, Code.Aborted, Code.DeadlineExceeded, Code.Unknown, Code.Internal];
  return lost.includes(error.code) ? 0 : null;
}
