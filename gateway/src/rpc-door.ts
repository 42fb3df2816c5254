// Routed RPCs as Connect, gRPC-Web and gRPC, on whatever app they are mounted. A message is written in our JSON form and
// meets the same schema as a REST body, so that no door is laxer than another.

import type { DescMethodServerStreaming, DescMethodUnary, Message } from "@bufbuild/protobuf";
import { isFieldMask, toSentForm } from "@cauri/rpc/json-form";
import type { ConnectError, HandlerContext } from "@connectrpc/connect";
import { Code, createConnectRouter, createContextKey, createContextValues } from "@connectrpc/connect";
import type { UniversalHandler, UniversalServerResponse } from "@connectrpc/connect/protocol";
import { universalResponseToNodeResponse } from "@connectrpc/connect-node";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { projectBody } from "./body.ts";
import { credentialsOf } from "./edge.ts";
import { readIdempotencyKey } from "./idempotency-key.ts";
import type { Answer, Invoke } from "./invoke.ts";
import { type EdgeRefusal, edgeRefusal, isEdgeRefusal, RefusedEarly, unavailable } from "./reasons.ts";
import type { Route } from "./routes.ts";
import { connectError, sendRpcRefusal } from "./rpc-refusal.ts";
import { universalRequest } from "./rpc-request.ts";
import { inputSchema, type Schema } from "./schema.ts";
import type { OpenStreams } from "./streams.ts";
import { tooLarge } from "./take-body.ts";
import type { Validate } from "./validate.ts";

/** What stands behind the door; the admin door has no streams. */
export type RpcRooms = { readonly invoke: Invoke; readonly streams: OpenStreams | null };

/** One request on its way through a protocol's handler, which tells nobody whether it ever called us. */
type Passage = { readonly request: FastifyRequest; arrived: boolean };
const passageKey = createContextKey<Passage | null>(null);

/** Where the protocols say that a body is compressed; as for REST, none is taken. */
const ENCODINGS = ["content-encoding", "connect-content-encoding", "grpc-encoding"];
/** Before the message itself, gRPC and streams write five bytes: its flags and its length. */
const FRAME_BYTES = 5;

export function mountRpcs(
  app: FastifyInstance,
  routes: readonly Route[],
  compile: (schema: Schema) => Validate,
  rooms: RpcRooms,
): void {
  for (const route of routes) {
    const handler = rpcHandler(route, compile(inputSchema(route.rpc.input)), rooms);
    app.route({
      method: "POST",
      url: handler.requestPath,
      config: { route, body: { limit: route.body_limit + FRAME_BYTES, json: false, may_be_empty: true } },
      handler: (request, reply) => serve(handler, route, request, reply),
    });
  }
}

function rpcHandler(route: Route, validate: Validate, { invoke, streams }: RpcRooms): UniversalHandler {
  const router = createConnectRouter({ readMaxBytes: route.body_limit, connect: true, grpcWeb: true, grpc: true });
  // `rpc` mounts this one method; `service` would mount its unrouted sisters as well.
  if (!route.stream) {
    router.rpc(route.rpc as DescMethodUnary, (message: Message, context: HandlerContext) =>
      answer(route, validate, invoke, message, context),
    );
  } else if (streams !== null) {
    router.rpc(route.rpc as DescMethodServerStreaming, (message: Message, context: HandlerContext) =>
      follow(route, validate, streams, message, context),
    );
  }
  const [handler] = router.handlers;
  if (handler === undefined) throw new Error(`${route.name}: no handler was made`);
  return handler;
}

async function answer(route: Route, validate: Validate, invoke: Invoke, message: Message, context: HandlerContext) {
  const request = arrive(context);
  const read = droppedWord(route, request) ?? checkMessage(route, message, validate);
  if (isEdgeRefusal(read)) throw told(request, read);
  const key = route.idempotent ? readIdempotencyKey(context.requestHeader.get("idempotency-key") ?? undefined) : null;
  if (isEdgeRefusal(key)) throw told(request, key);
  const { holder, id: request_id, operation } = request;
  const asked = invoke({ route, message: read, holder, request_id, idempotency_key: key, operation });
  const answered = await whileWaitedFor(asked, context.signal);
  if (answered === null) throw told(request, unavailable(), Code.DeadlineExceeded);
  if (isEdgeRefusal(answered)) throw told(request, answered);
  context.responseHeader.set("cauri-outcome", answered.outcome);
  if (answered.outcome === "replayed") context.responseHeader.set("idempotent-replayed", "true");
  return answered.message;
}

async function* follow(
  route: Route,
  validate: Validate,
  streams: OpenStreams,
  message: Message,
  context: HandlerContext,
): AsyncGenerator<Message> {
  const request = arrive(context);
  const read = checkMessage(route, message, validate);
  if (isEdgeRefusal(read)) throw told(request, read);
  const { holder, id: request_id } = request;
  // A proxy that collects an answer before it passes it on would make a stream of it that never comes.
  context.responseHeader.set("x-accel-buffering", "no");
  try {
    yield* streams.open(
      { route, message: read, holder, request_id, credentials: credentialsOf(request) },
      context.signal,
    );
  } catch (error) {
    if (error instanceof RefusedEarly) throw told(request, error.refusal);
    throw error;
  }
}

function arrive(context: HandlerContext): FastifyRequest {
  const passage = context.values.get(passageKey);
  if (passage === null) throw new Error("an RPC came in without its request");
  passage.arrived = true;
  return passage.request;
}

function told(request: FastifyRequest, refusal: EdgeRefusal, code?: Code): ConnectError {
  request.refused = refusal.refused;
  return connectError(refusal, request.id, code);
}

/**
 * The answer, or null once the client has stopped waiting by its own deadline. What it asked for goes on by the route's
 * deadline: a write is never cancelled.
 */
function whileWaitedFor(asked: Promise<Answer | EdgeRefusal>, signal: AbortSignal) {
  const given_up = new Promise<null>((resolve) => {
    if (signal.aborted) resolve(null);
    else signal.addEventListener("abort", () => resolve(null), { once: true });
  });
  return Promise.race([asked, given_up]);
}

/**
 * Protobuf's JSON takes a word that an enum has not for an unknown field and drops it: a list would come without its filter,
 * where REST says 422.
 */
function droppedWord({ rpc }: Route, { headers, body }: FastifyRequest): EdgeRefusal | undefined {
  const enums = rpc.input.fields.filter((field) => field.fieldKind === "enum");
  const type = headers["content-type"] ?? "";
  if (enums.length === 0 || !type.includes("json") || !(body instanceof Uint8Array)) return undefined;
  const text = Buffer.from(type.startsWith("application/json") ? body : body.subarray(FRAME_BYTES)).toString("utf8");
  const sent = JSON.parse(text) as { readonly [name: string]: unknown };
  for (const field of enums) {
    const word = sent[field.jsonName] ?? sent[field.name];
    const names = field.enum.values.map(({ name }) => name);
    if (typeof word !== "string" || names.includes(word)) continue;
    return edgeRefusal("invalid_request", `must be one of ${names.slice(1).join(", ")}`, { field: field.name });
  }
  return undefined;
}

/** The message once it has met its schema; a PATCH tells its fields by its mask, or by what it holds. */
function checkMessage(route: Route, message: Message, validate: Validate): Message | EdgeRefusal {
  const { input } = route.rpc;
  const projected = projectBody(input, toSentForm(input, message));
  if (isEdgeRefusal(projected)) return projected;
  const refusal = validate(projected.fields);
  if (refusal !== undefined) return refusal;
  const mask = input.fields.find((field) => isFieldMask(field.message));
  if (mask === undefined) return message;
  const plain = message as unknown as Record<string, { paths: string[] } | undefined>;
  const named = plain[mask.localName]?.paths ?? [];
  const held = Object.keys(projected.fields).filter((name) => route.rest?.params.includes(name) !== true);
  const known = named.filter((path) => input.fields.some(({ name }) => name === path));
  const paths = named.length > 0 ? known : held;
  return { ...message, [mask.localName]: { $typeName: "google.protobuf.FieldMask", paths } } as Message;
}

async function serve(handler: UniversalHandler, route: Route, request: FastifyRequest, reply: FastifyReply) {
  const coding = ENCODINGS.map((name) => request.headers[name]).find((value) => value !== undefined);
  if (coding !== undefined && coding !== "identity") {
    return sendRpcRefusal(request, reply, edgeRefusal("unsupported_media_type", "the body must not be compressed"));
  }
  const passage: Passage = { request, arrived: false };
  const body = request.body instanceof Uint8Array ? request.body : new Uint8Array();
  const values = createContextValues().set(passageKey, passage);
  const response = await handler(universalRequest(handler.requestPath, request, reply, body, values));
  // What a protocol refuses by itself it tells in words of its own: here it gets our reason like everything else.
  if (!passage.arrived) return sendRpcRefusal(request, reply, await whatWasWrong(response, route, body));
  reply.hijack();
  for (const [name, value] of Object.entries(reply.getHeaders())) {
    if (value !== undefined) reply.raw.setHeader(name, value);
  }
  if (request.server.draining.now && request.raw.httpVersionMajor < 2) reply.raw.shouldKeepAlive = false;
  // A client that leaves in the middle of its answer is no error of ours.
  await universalResponseToNodeResponse(response, reply.raw).catch(() => reply.raw.destroy());
  return reply;
}

/** Why a message never came to its handler: a type that is none of the protocols', too large, or not to be read. */
async function whatWasWrong(response: UniversalServerResponse, route: Route, body: Uint8Array): Promise<EdgeRefusal> {
  if (response.status === 415) {
    return edgeRefusal("unsupported_media_type", "the body must be of a type of Connect, gRPC-Web or gRPC");
  }
  if (body.length > route.body_limit) return tooLarge(route.body_limit);
  return edgeRefusal("invalid_request", (await sentenceIn(response)) ?? "cannot be read", { field: "body" });
}

/** Connect's sentence about a unary message names the field that it could not read. */
async function sentenceIn(response: UniversalServerResponse): Promise<string | undefined> {
  if (response.header?.get("content-type") !== "application/json") return undefined;
  const chunks: Uint8Array[] = [];
  for await (const chunk of response.body ?? []) chunks.push(chunk);
  const { message } = JSON.parse(Buffer.concat(chunks).toString("utf8")) as { message?: unknown };
  return typeof message === "string" ? message : undefined;
}
