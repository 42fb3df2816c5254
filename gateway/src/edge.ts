// What every request of a door meets, whatever it asks for: its id, the checks in the contract's order, the error
// envelope, one canonical log line and its numbers. Logs and numbers name the route's template, never the URL.

import { type IdPrefix, newId } from "@cauri/money/ids";
import type { Log } from "@cauri/rpc/log";
import { Histogram } from "@cauri/rpc/metrics";
import { meaningOf } from "@cauri/rpc/reasons";
import { failSpan, logIds, type Span, tracing, withSpan } from "@cauri/trace/span";
import { beginOperation } from "@cauri/trace/tracing";
import { type FastifyInstance, type FastifyReply, type FastifyRequest, fastify } from "fastify";
import { type Authenticate, authorize, type Credentials } from "./admit.ts";
import type { KeyHolder } from "./keys.ts";
import { leaveUnread } from "./listen.ts";
import { refuseLine } from "./no-http.ts";
import { Places } from "./places.ts";
import type { Verdict } from "./rate-limit.ts";
import {
  defect,
  type EdgeRefusal,
  edgeRefusal,
  RefusedEarly,
  retryAfterOf,
  sentenceOf,
  unavailable,
} from "./reasons.ts";
import type { Route } from "./routes.ts";
import { isRpcPath, sendRpcRefusal } from "./rpc-refusal.ts";
import { type BodyRule, notJson, takeBody } from "./take-body.ts";

declare module "fastify" {
  interface FastifyInstance {
    /** Whether the door is closing: every answer then also closes its line. */
    readonly draining: { now: boolean };
  }
  interface FastifyRequest {
    /** The key's holder, once authenticated. */
    holder: KeyHolder | null;
    /** The span of this request; null while tracing is off. */
    span: Span | null;
    /** Id of the operation that a creation is to begin, where it had to be known before the call: its trace has it. */
    operation: string | null;
    /** The public code of the error that is answered, for the log. */
    refused: string | null;
  }
  interface FastifyContextConfig {
    /** The routed RPC behind a path. */
    route?: Route;
    /** How a body is taken; without it a body is not read at all. */
    body?: BodyRule;
  }
}

/** A head and body that take longer than this are a slow-body attack or a dead line. */
const REQUEST_TIMEOUT_MS = 30_000;
const HEADERS_TIMEOUT_MS = 10_000;
/** How often both are looked after; Node's own 30 s would make them four and two times as long. */
const TIMEOUTS_LOOKED_AT_MS = 1_000;
/** Longer than the idle time-out of usual load balancers (60 s), so that they never meet a closed line. */
const KEEP_ALIVE_MS = 72_000;
/** Ids and texts in a path are bounded by what they name, not by the router. */
const MAX_PARAM_LENGTH = 16_384;
const REQUEST_ID = /^[\x21-\x7e]{1,128}$/;
/** Asked for by machines every few seconds: neither logged nor traced. */
const UNTRACED: readonly string[] = ["/healthz", "/readyz", "/metrics"];
/** No route has this path: what cannot be decoded goes on to the 404, after the checks that come before it. */
const UNDECODABLE = "~";
/** Scheme and authority of a target in absolute form, which a proxy may send. */
const ORIGIN = /^https?:\/\/[^/?#]*/i;
const ENCODED = /%[0-9a-f]{2}/gi;
/** Encoding one of these never changes what a path means (RFC 3986). */
const UNRESERVED = /^[A-Za-z0-9._~-]$/;

const seconds = new Histogram({
  name: "cauri_http_request_seconds",
  help: "Duration of HTTP requests by door, method, route template and status.",
  labelNames: ["door", "method", "route", "status"],
  buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
});

export type EdgeOptions = {
  readonly door: "public" | "admin";
  readonly log: Log;
  /** Networks whose X-Forwarded-For is believed. */
  readonly trusted_proxies: readonly string[];
};

/** A Fastify app that knows request ids, bodies, errors, logs and numbers, but no route yet. */
export function createEdge({ door, log, trusted_proxies }: EdgeOptions): FastifyInstance {
  const app = fastify({
    logger: false,
    trustProxy: trusted_proxies.length > 0 ? [...trusted_proxies] : false,
    genReqId: (raw) => requestId(raw.headers["x-request-id"]),
    rewriteUrl: (raw) => canonical(raw.url ?? "/"),
    requestTimeout: REQUEST_TIMEOUT_MS,
    keepAliveTimeout: KEEP_ALIVE_MS,
    http: {
      headersTimeout: HEADERS_TIMEOUT_MS,
      connectionsCheckingInterval: TIMEOUTS_LOOKED_AT_MS,
      // Asked for below: Node's own refusal would have neither envelope nor request id.
      requireHostHeader: false,
    },
    // A line that is still open while we drain is served, and told to close: a rolling restart loses no request.
    return503OnClosing: false,
    forceCloseConnections: "idle",
    routerOptions: { maxParamLength: MAX_PARAM_LENGTH, querystringParser: () => ({}) },
    clientErrorHandler: (error, socket) => refuseLine(socket, error.code),
  });
  app.decorateRequest("holder", null);
  app.decorateRequest("refused", null);
  traceRequests(app);
  closeLines(app);
  app.removeAllContentTypeParsers();
  app.addContentTypeParser("*", takeBody);
  // What waits for nothing is a hook without a promise: a request passes by six of them.
  app.addHook("onRequest", (request, reply, done) => {
    reply.header("X-Request-Id", request.id);
    if (request.headers.host === undefined && request.raw.httpVersion === "1.1") refuseHostless(reply);
    else done();
  });
  // An expectation that nobody here knows is ignored, which HTTP leaves to the server; Node would say a bare 417.
  app.server.on("checkExpectation", (request, response) => app.routing(request, response));
  // There are no tunnels here; Node would close the line without a word.
  app.server.on("connect", (_request, socket) => refuseLine(socket));
  app.setNotFoundHandler(() => {
    throw new RefusedEarly(edgeRefusal("not_found", "there is nothing at this path"));
  });
  app.setErrorHandler((error, request, reply) => {
    // What was refused while it came may still be coming.
    if (error instanceof RefusedEarly) leaveUnread(request, reply);
    return refuse(request, reply, refusalOfError(error, request, log));
  });
  app.addHook("onResponse", (request, reply, done) => {
    const route = request.routeOptions.url ?? "unknown";
    const { statusCode: code, elapsedTime: ms } = reply;
    seconds.observe({ door, method: request.method, route, status: code }, ms / 1000);
    if (UNTRACED.includes(route)) return done();
    const { key_id, account, mode } = request.holder ?? {};
    log.info(
      {
        ...logIds(request.span),
        request: request.id,
        door,
        method: request.method,
        route,
        status: code,
        ms: Math.round(ms * 10) / 10,
        key_id,
        account,
        mode,
        code: request.refused ?? undefined,
      },
      "request",
    );
    return done();
  });
  return app;
}

/** One span per request, from before the first check until the answer is out. Probes and scrapes are no work to follow. */
function traceRequests(app: FastifyInstance): void {
  app.decorateRequest("span", null);
  app.decorateRequest("operation", null);
  if (!tracing()) return;
  app.addHook("onRequest", (request, _, done) => {
    const { url, config } = request.routeOptions;
    if (url !== undefined && UNTRACED.includes(url)) return done();
    const { route } = config;
    request.operation = route?.idempotent === true ? newId(route.id_prefix as IdPrefix, Date.now()) : null;
    request.span = beginOperation(`${request.method} ${url ?? "unknown"}`, request.operation, {
      kind: "server",
      link: firstOf(request.headers["traceparent"]),
      attributes: {
        "http.request.method": request.method,
        "http.route": url ?? "unknown",
        "cauri.request_id": request.id,
      },
    });
    return withSpan(request.span, done);
  });
  app.addHook("onResponse", async ({ span, holder }, { statusCode }) => {
    if (span === null) return;
    span.setAttribute("http.response.status_code", statusCode);
    if (holder !== null) span.setAttributes({ "cauri.account": holder.account, "cauri.mode": holder.mode });
    if (statusCode >= 500) failSpan(span, String(statusCode));
    span.end();
  });
}

/** While the door closes, each answer says that its line closes too, so that no client sends its next request into it. */
function closeLines(app: FastifyInstance): void {
  const draining = { now: false };
  app.decorate("draining", draining);
  app.addHook("onSend", (request, reply, _payload, done) => {
    if (draining.now && request.raw.httpVersionMajor < 2) reply.header("Connection", "close");
    done();
  });
  app.addHook("preClose", async () => {
    draining.now = true;
  });
}

/** The one refusal of a request that was read whole and yet is no HTTP. */
function refuseHostless(reply: FastifyReply): FastifyReply {
  reply.request.refused = "invalid_request";
  const body = JSON.stringify({ error: { code: "invalid_request", message: "HTTP/1.1 asks for the header Host" } });
  return reply.code(400).header("Connection", "close").type("application/json; charset=utf-8").send(body);
}

export type GuardOptions = {
  readonly authenticate: Authenticate;
  /** Value of RateLimit-Policy: `"default";q=300;w=60`. */
  readonly policy: string;
  /** Whether a key is asked for at this path. */
  readonly needs_key: (path: string) => boolean;
};

/** Puts the contract's order of checks before every path that asks for a key, and 404 and 405 after them. */
export function guard(app: FastifyInstance, { authenticate, policy, needs_key }: GuardOptions): void {
  app.addHook("onRequest", async (request, reply) => {
    const path = pathOf(request.url);
    // A routed RPC asks for a key whatever its path looks like.
    if (needs_key(path) || request.routeOptions.config.route !== undefined) {
      if (path.startsWith("/v1")) reply.header("Cache-Control", "no-store");
      const { holder, refusal, verdict } = await authenticate(credentialsOf(request));
      request.holder = holder;
      if (verdict !== null) {
        tellRate(reply, verdict, policy);
        if (verdict.admitted && verdict.delay_ms > 0) await held(verdict.delay_ms);
      }
      if (refusal !== null) return refuse(request, reply, refusal);
    }
    return undefined;
  });
  refuseMissing(app);
  app.addHook("onRequest", (request, reply, done) => {
    const { holder, routeOptions } = request;
    const refusal = holder === null ? null : authorize(holder, routeOptions.config.route);
    if (refusal === null) done();
    else refuse(request, reply, refusal);
  });
}

/** Answers 404, and 405 with `Allow`, before a body is looked at. Call it before the routes are added. */
export function refuseMissing(app: FastifyInstance): void {
  const places = new Places();
  app.addHook("onRoute", ({ method, url }) => places.add(method, url));
  app.addHook("onRequest", (request, reply, done) => {
    const path = pathOf(request.url);
    // The router would take nothing for a parameter: an empty segment names nothing. And where a path of its own lacks
    // the method, it would take the path's last word for an id: /v1/webhooks/test is no endpoint.
    const missing = request.is404 || /\/(?:\/|$)/.test(path) || places.lacks(path, request.method);
    if (missing) refuse(request, reply, places.missing(path, reply));
    else done();
  });
}

/** In the form of the door: the error envelope, or the RPC protocol's own error under an RPC's path. */
function refuse(request: FastifyRequest, reply: FastifyReply, refusal: EdgeRefusal): FastifyReply {
  const is_rpc = isRpcPath(request.url) && request.method === "POST";
  return is_rpc ? sendRpcRefusal(request, reply, refusal) : sendRefusal(request, reply, refusal);
}

/** Writes the RateLimit headers. */
function tellRate(reply: FastifyReply, verdict: Verdict, policy: string): void {
  reply.header("RateLimit-Policy", policy);
  reply.header("RateLimit", `"default";r=${verdict.left};t=${verdict.reset_s}`);
}

/** Until a call passes. A timer may fire a little early; a call must not pass before its instant. */
function held(delay_ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, delay_ms + 1));
}

/** The error envelope: exactly code and message. */
export function sendRefusal(request: FastifyRequest, reply: FastifyReply, refusal: EdgeRefusal): FastifyReply {
  const { http, code } = meaningOf(refusal.refused);
  request.refused = code;
  const retry_after_s = retryAfterOf(refusal);
  if (retry_after_s !== undefined) reply.header("Retry-After", retry_after_s);
  return reply
    .code(http)
    .type("application/json; charset=utf-8")
    .send(JSON.stringify({ error: { code, message: sentenceOf(refusal) } }));
}

function refusalOfError(error: unknown, request: FastifyRequest, log: Log): EdgeRefusal {
  if (error instanceof RefusedEarly) return error.refusal;
  const code = error instanceof Error && "code" in error ? error.code : undefined;
  if (code === "FST_ERR_CTP_INVALID_MEDIA_TYPE") return notJson();
  if (error instanceof Error && "unavailable" in error && error.unavailable === true) return unavailable();
  // The client went away in the middle of its body: nobody reads this answer.
  if (code === "ECONNRESET" || code === "ECONNABORTED") return edgeRefusal("invalid_request", "the body broke off");
  log.error({ request: request.id, err: error }, "a handler failed");
  return defect();
}

function requestId(inbound: string | string[] | undefined): string {
  return typeof inbound === "string" && REQUEST_ID.test(inbound) ? inbound : newId("req", Date.now());
}

/**
 * The one spelling of a request's target that the checks and the router both see: `/%761/payments` and
 * `http://host/v1/payments` are `/v1/payments`. Were the router to decode more than the checks, a path spelt otherwise
 * would pass by them.
 */
function canonical(target: string): string {
  const url = target.startsWith("/") ? target : target.replace(ORIGIN, "").replace(/^(?!\/)/, "/");
  const path = pathOf(url);
  if (!path.includes("%")) return url;
  const plain = path.replace(ENCODED, (code) => {
    const character = String.fromCharCode(Number.parseInt(code.slice(1), 16));
    return UNRESERVED.test(character) ? character : code;
  });
  try {
    decodeURIComponent(plain);
    return plain + url.slice(path.length);
  } catch {
    // The first segment stays, because it tells whether a key is asked for.
    return `/${plain.split("/")[1]?.replaceAll("%", "") ?? ""}/${UNDECODABLE}`;
  }
}

function pathOf(url: string): string {
  const end = url.search(/[?#]/);
  return end === -1 ? url : url.slice(0, end);
}

/** What a request shows of who sent it. */
export function credentialsOf(request: FastifyRequest): Credentials {
  const { headers, id } = request;
  return {
    authorization: headers.authorization,
    api_key: firstOf(headers["x-api-key"]),
    // Asked of the system only where it is needed: for an unknown key.
    get address() {
      return request.ip;
    },
    request_id: id,
  };
}

function firstOf(header: string | string[] | undefined): string | undefined {
  return Array.isArray(header) ? header[0] : header;
}
