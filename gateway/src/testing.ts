// For tests: a real door in front of services that are doubled at the wire, by gRPC servers with handlers of the test.

import { request as httpRequest, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";
import { hmacOfSecret, newSecret } from "@cauri/money/api-key";
import { refuse } from "@cauri/money/refusal";
import type { ResolvedKey } from "@cauri/proto/ts/cauri/accounts/v1/accounts";
import { AccountServiceService, AccountStatus, KeyServiceService } from "@cauri/proto/ts/cauri/accounts/v1/accounts";
import { ReferenceServiceService } from "@cauri/proto/ts/cauri/accounts/v1/reference";
import { Payment, PaymentServiceService } from "@cauri/proto/ts/cauri/collections/v1/payments";
import { LedgerServiceService } from "@cauri/proto/ts/cauri/ledger/v1/ledger";
import { RailsServiceService } from "@cauri/proto/ts/cauri/rails/v1/rails";
import { ListenServiceService } from "@cauri/proto/ts/cauri/webhooks/v1/listen";
import { WebhookServiceService } from "@cauri/proto/ts/cauri/webhooks/v1/webhooks";
import { logger } from "@cauri/rpc/log";
import { type Definition, type Handlers, type Service, service, startServer } from "@cauri/rpc/server";
import type { FastifyInstance } from "fastify";
import { createAdminDoor } from "./admin-door.ts";
import { createAuthenticate, createRecheck } from "./admit.ts";
import { loadImage } from "./image.ts";
import { createInvoke } from "./invoke.ts";
import { createKeys, resolveBy } from "./keys.ts";
import { listenH2c } from "./listen.ts";
import { openApiDocument } from "./openapi.ts";
import { createPublicDoor } from "./public-door.ts";
import { createLocalLimiter, HOLD_MS, type Limiter } from "./rate-limit.ts";
import { readRoutes } from "./routes.ts";
import { createStreams, type OpenStreams } from "./streams.ts";
import { connectUpstreams } from "./upstream.ts";

const PEPPER = "pepper of the tests";
const TOKEN = "token of the tests";
export const OPERATOR_TOKEN = "operator of the tests";
const registry = loadImage();
const routes = readRoutes(registry);

type Doubles = {
  readonly payments?: Partial<Handlers<typeof PaymentServiceService>>;
  readonly webhooks?: Partial<Handlers<typeof WebhookServiceService>>;
  readonly listen?: Partial<Handlers<typeof ListenServiceService>>;
  readonly reference?: Partial<Handlers<typeof ReferenceServiceService>>;
  readonly accounts?: Partial<Handlers<typeof AccountServiceService>>;
  readonly rails?: Partial<Handlers<typeof RailsServiceService>>;
  readonly limit?: number;
  readonly unknown_limit?: number;
  readonly trusted_proxies?: readonly string[];
};

export type Answered = {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  // biome-ignore lint/suspicious/noExplicitAny: a test looks into whatever came back.
  readonly json: any;
};

export type Sent = {
  readonly method?: string;
  readonly path: string;
  readonly headers?: { readonly [name: string]: string };
  /** An object is sent as JSON, a text or bytes as they are. */
  readonly body?: object | string | Uint8Array;
  /** Sends the body without saying its length. */
  readonly chunked?: boolean;
};

export type TestDoor = {
  readonly app: FastifyInstance;
  readonly admin: FastifyInstance;
  readonly base_url: string;
  readonly admin_url: string;
  /** Port of native gRPC. */
  readonly grpc_port: number;
  /** Log lines of the gateway. */
  readonly lines: Record<string, unknown>[];
  /** The streams that are open at the public door. */
  readonly streams: OpenStreams;
  /** Takes a key away, as its revocation does, and tells the door. */
  revoke(secret: string): void;
  /** A new key, known to the double of accounts; everything is allowed unless said otherwise. */
  key(of?: Partial<ResolvedKey>): string;
  /** Sends as it is. */
  send(sent: Sent): Promise<Answered>;
  /** Sends with a key that may do everything. */
  call(method: string, path: string, body?: Sent["body"], headers?: Sent["headers"]): Promise<Answered>;
};

const HEALTHY = { readiness: async () => [], notices: () => [] };

/** Opens both doors on free ports; they close with the test. */
export async function openDoor(t: { after(fn: () => unknown): void }, doubles: Doubles = {}): Promise<TestDoor> {
  const lines: Record<string, unknown>[] = [];
  const log = logger("gateway", "info", { write: (line: string) => void lines.push(JSON.parse(line)) });
  const known = new Map<string, ResolvedKey>();
  const server = await startServer({
    room: "doubles",
    log: logger("doubles", "silent"),
    settings: { CAURI_BIND_HOST: "127.0.0.1", CAURI_RPC_PORT: 0, CAURI_RPC_TOKEN: TOKEN, CAURI_DRAIN_MS: 200 },
    services: [
      double(KeyServiceService, {
        resolveKey: async ({ hmac }) => known.get(Buffer.from(hmac).toString("hex")) ?? resolved({ known: false }),
      }),
      double(AccountServiceService, doubles.accounts),
      double(ReferenceServiceService, doubles.reference),
      double(PaymentServiceService, doubles.payments),
      double(WebhookServiceService, doubles.webhooks),
      double(ListenServiceService, doubles.listen),
      double(LedgerServiceService, {}),
      double(RailsServiceService, doubles.rails),
    ],
  });
  const address = `127.0.0.1:${server.port}`;
  const upstreams = connectUpstreams(new Map(routes.map(({ room }) => [room, address])), TOKEN);
  const keys = createKeys({ pepper: PEPPER, resolve: resolveBy(upstreams) });
  const rule = { limit: doubles.limit ?? 300, window_ms: 60_000, hold_ms: HOLD_MS };
  const local = createLocalLimiter(rule);
  const limiter: Limiter = { rule, check: async (key_id) => local(key_id), stop: () => {} };
  const unknown = createLocalLimiter({ limit: doubles.unknown_limit ?? 60, window_ms: 60_000, hold_ms: 0 });
  const streams = createStreams({ upstreams, recheck: createRecheck(keys), log });
  const common = { routes, upstreams, log, invoke: createInvoke(upstreams, log), health: HEALTHY };
  const app = await createPublicDoor({
    ...common,
    streams,
    authenticate: createAuthenticate({ keys, limiter, unknown }),
    policy: `"default";q=${rule.limit};w=60`,
    document: openApiDocument(registry),
    trusted_proxies: doubles.trusted_proxies ?? ["127.0.0.1"],
  });
  const admin = await createAdminDoor({ ...common, operator_token: OPERATOR_TOKEN });
  await Promise.all([app, admin].map((door) => door.listen({ host: "127.0.0.1", port: 0 })));
  const grpc = await listenH2c(app, "127.0.0.1", 0);
  t.after(async () => {
    streams.close();
    await Promise.all([grpc.close(), app.close(), admin.close()]);
    upstreams.close();
    await server.drain();
  });
  const base_url = urlOf(app);
  const send = (sent: Sent) => exchange(base_url, sent);
  const key = (of: Partial<ResolvedKey> = {}) => {
    const secret = newSecret(of.mode === "live" ? "live" : "test");
    known.set(hmacOfSecret(secret, PEPPER).toString("hex"), resolved({ keyId: `key_${known.size}`, ...of }));
    return secret;
  };
  const all = key();
  return {
    app,
    admin,
    base_url,
    admin_url: urlOf(admin),
    grpc_port: grpc.port,
    lines,
    streams,
    key,
    revoke: (secret) => {
      known.delete(hmacOfSecret(secret, PEPPER).toString("hex"));
      keys.forget();
    },
    send,
    call: (method, path, body, headers = {}) =>
      send({
        method,
        path,
        headers: { authorization: `Bearer ${all}`, ...headers },
        ...(body === undefined ? {} : { body }),
      }),
  };
}

/** A payment as collections would answer it. */
export function paymentOf(of: Partial<Payment> = {}): Payment {
  return Payment.fromPartial({
    id: "pay_1",
    object: "payment",
    status: 2,
    amountMinor: 1500n,
    createdAt: new Date(0),
    ...of,
  });
}

/** One exchange by node:http: nothing is added, mended or followed. */
export function exchange(
  base_url: string,
  { method = "GET", path, headers = {}, body, chunked }: Sent,
): Promise<Answered> {
  const { hostname, port } = new URL(base_url);
  const json = typeof body === "object" && !(body instanceof Uint8Array);
  const bytes = body === undefined ? undefined : json ? JSON.stringify(body) : body;
  const told =
    json && headers["content-type"] === undefined ? { "content-type": "application/json", ...headers } : headers;
  const length: { [name: string]: string } =
    bytes === undefined || chunked === true ? {} : { "content-length": String(Buffer.byteLength(bytes)) };
  return new Promise((resolve, reject) => {
    const request = httpRequest(
      { hostname, port, method, path, headers: { ...told, ...length }, agent: false },
      (response) => {
        const chunks: Buffer[] = [];
        response.on("data", (chunk: Buffer) => chunks.push(chunk));
        response.on("end", () => {
          const text = Buffer.concat(chunks).toString("utf8");
          const is_json = String(response.headers["content-type"]).includes("json") && text !== "";
          resolve({
            status: response.statusCode ?? 0,
            headers: response.headers,
            text,
            json: is_json ? JSON.parse(text) : null,
          });
        });
        response.on("error", reject);
      },
    );
    request.on("error", reject);
    request.end(bytes);
  });
}

function double<D extends Definition>(definition: D, handlers: Partial<Handlers<D>> = {}): Service {
  const missing = async () => refuse("internal_error", "no double of this RPC in this test");
  const all = Object.fromEntries(Object.keys(definition).map((name) => [name, handlers[name] ?? missing]));
  return service(definition, all as unknown as Handlers<D>);
}

function resolved(of: Partial<ResolvedKey>): ResolvedKey {
  return {
    known: true,
    keyId: "key_test",
    accountId: "acct_test",
    mode: "test",
    scopes: ["can_initiate_payment", "can_payout", "can_refund", "can_read_transactions", "can_manage_webhooks"],
    accountStatus: AccountStatus.APPROVED,
    isLive: false,
    products: [],
    options: [],
    expiresAt: undefined,
    ...of,
  };
}

function urlOf(app: FastifyInstance): string {
  return `http://127.0.0.1:${(app.server.address() as AddressInfo).port}`;
}
