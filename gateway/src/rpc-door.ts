// Routed RPCs as Connect, gRPC-Web and gRPC, on whatever app they are mounted. A message is written in our JSON form and
// meets the same schema as a REST body, so that no door is laxer than another.

import type { DescMethodUnary, Message } from "@bufbuild/protobuf";
import { isFieldMask, toSentForm } from "@cauri/rpc/json-form";
import { createConnectRouter, createContextKey, createContextValues, type HandlerContext } from "@connectrpc/connect";
import type { UniversalHandler } from "@connectrpc/connect/protocol";
import { universalRequestFromNodeRequest, universalResponseToNodeResponse } from "@connectrpc/connect-node";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { projectBody } from "./body.ts";
import { readIdempotencyKey } from "./idempotency-key.ts";
import type { Invoke } from "./invoke.ts";
import { type EdgeRefusal, isEdgeRefusal } from "./reasons.ts";
import { type Route, SenselessOption } from "./routes.ts";
import { connectError } from "./rpc-refusal.ts";
import { inputSchema, type Schema } from "./schema.ts";
import type { Validate } from "./validate.ts";

const requestKey = createContextKey<FastifyRequest | null>(null);

/** Everything that Connect, gRPC-Web and gRPC call a body; each handler reads and judges it by itself. */
const ANY_TYPE = "*";

export function mountRpcs(
  app: FastifyInstance,
  routes: readonly Route[],
  compile: (schema: Schema) => Validate,
  invoke: Invoke,
): void {
  void app.register(async (inner) => {
    inner.removeAllContentTypeParsers();
    inner.addContentTypeParser(ANY_TYPE, async () => undefined);
    for (const route of routes) {
      if (route.stream) throw new SenselessOption(`${route.name}: streams are not served at this door yet`);
      const handler = rpcHandler(route, compile(inputSchema(route.rpc.input)), invoke);
      inner.route({
        method: "POST",
        url: handler.requestPath,
        config: { route },
        handler: (request, reply) => serve(handler, request, reply),
      });
    }
  });
}

function rpcHandler(route: Route, validate: Validate, invoke: Invoke): UniversalHandler {
  const router = createConnectRouter({ readMaxBytes: route.body_limit, connect: true, grpcWeb: true, grpc: true });
  const rpc = route.rpc as DescMethodUnary;
  // `rpc` mounts this one method; `service` would mount its unrouted sisters as well.
  router.rpc(rpc, async (message: Message, context: HandlerContext) => {
    const request = context.values.get(requestKey);
    if (request === null) throw new Error("an RPC came in without its request");
    const read = checkMessage(route, message, validate);
    if (isEdgeRefusal(read)) return refuse(request, read);
    const key = route.idempotent ? readIdempotencyKey(context.requestHeader.get("idempotency-key") ?? undefined) : null;
    if (isEdgeRefusal(key)) return refuse(request, key);
    const { holder, id: request_id, operation } = request;
    const answer = await invoke({ route, message: read, holder, request_id, idempotency_key: key, operation });
    if (isEdgeRefusal(answer)) return refuse(request, answer);
    context.responseHeader.set("cauri-outcome", answer.outcome);
    return answer.message;
  });
  const [handler] = router.handlers;
  if (handler === undefined) throw new Error(`${route.name}: no handler was made`);
  return handler;
}

function refuse(request: FastifyRequest, refusal: EdgeRefusal): never {
  request.refused = refusal.refused;
  throw connectError(refusal);
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

async function serve(handler: UniversalHandler, request: FastifyRequest, reply: FastifyReply): Promise<void> {
  const values = createContextValues().set(requestKey, request);
  const response = await handler(universalRequestFromNodeRequest(request.raw, reply.raw, undefined, values));
  // A body over the limit is told as "resource exhausted", which Connect writes as 429: to HTTP it is a 413.
  if (response.status === 429 && response.header?.has("cauri-reason") !== true) response.status = 413;
  reply.hijack();
  for (const [name, value] of Object.entries(reply.getHeaders())) {
    if (value !== undefined) reply.raw.setHeader(name, value);
  }
  if (request.server.draining.now && request.raw.httpVersionMajor < 2) reply.raw.shouldKeepAlive = false;
  await universalResponseToNodeResponse(response, reply.raw);
}
