// REST from the table: each route's path, query and body become its request message, its answer becomes JSON. There is
// no code per route; what a route may say about itself is the `route` option.

import type { DescMessage, Message } from "@bufbuild/protobuf";
import { fromJsonForm, isFieldMask, isInternal, type Json, type JsonObject, toJsonForm } from "@cauri/rpc/json-form";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { parseBody, projectBody, textProblem } from "./body.ts";
import { sendRefusal } from "./edge.ts";
import { readIdempotencyKey } from "./idempotency-key.ts";
import type { Answer, Invoke } from "./invoke.ts";
import { readQuery, typedText } from "./query.ts";
import { type EdgeRefusal, edgeRefusal, isEdgeRefusal } from "./reasons.ts";
import type { Route } from "./routes.ts";
import { fieldSchema, inputSchema, type Schema } from "./schema.ts";
import type { BodyRule } from "./take-body.ts";
import type { Validate } from "./validate.ts";

/** A route with everything that can be made before the first request. */
type Prepared = {
  readonly route: Route;
  readonly rest: NonNullable<Route["rest"]>;
  /** Whether the fields come in a body rather than in the query. */
  readonly by_body: boolean;
  readonly validate: Validate;
  readonly validate_params: Validate;
  /** The name under which the known keys of a PATCH are told. */
  readonly mask: string | undefined;
};

export function mountRest(
  app: FastifyInstance,
  routes: readonly Route[],
  compile: (schema: Schema) => Validate,
  invoke: Invoke,
): void {
  for (const route of routes) {
    const { rest } = route;
    if (rest === null) continue;
    const prepared = prepare(route, rest, compile);
    app.route({
      method: rest.verb,
      url: rest.path.replace(/\{([^}]*)\}/g, ":$1"),
      config: prepared.by_body ? { route, body: bodyRule(route, rest) } : { route },
      handler: (request, reply) => serve(prepared, request, reply, invoke),
    });
  }
}

function prepare(route: Route, rest: NonNullable<Route["rest"]>, compile: (schema: Schema) => Validate): Prepared {
  const { input } = route.rpc;
  const params = input.fields.filter(({ name }) => rest.params.includes(name));
  const properties = Object.fromEntries(params.map((field) => [field.name, fieldSchema(field, inputSchema)]));
  return {
    route,
    rest,
    by_body: rest.verb !== "GET" && rest.verb !== "DELETE",
    validate: compile(inputSchema(input, rest.params)),
    validate_params: compile({ type: "object", properties }),
    mask: input.fields.find((field) => isFieldMask(field.message) && isInternal(field))?.localName,
  };
}

function bodyRule(route: Route, rest: NonNullable<Route["rest"]>): BodyRule {
  const schema = inputSchema(route.rpc.input, rest.params);
  return { limit: route.body_limit, json: true, may_be_empty: schema["required"] === undefined };
}

async function serve(prepared: Prepared, request: FastifyRequest, reply: FastifyReply, invoke: Invoke) {
  const { route } = prepared;
  const idempotency_key = route.idempotent ? readIdempotencyKey(request.headers["idempotency-key"]) : null;
  if (isEdgeRefusal(idempotency_key)) return sendRefusal(request, reply, idempotency_key);
  const message = readMessage(prepared, request);
  if (isEdgeRefusal(message)) return sendRefusal(request, reply, message);
  const { holder, id: request_id, operation } = request;
  const answer = await invoke({ route, message, holder, request_id, idempotency_key, operation });
  if (isEdgeRefusal(answer)) return sendRefusal(request, reply, answer);
  return sendAnswer(route, answer, reply);
}

function readMessage(prepared: Prepared, request: FastifyRequest): Message | EdgeRefusal {
  const { route, rest } = prepared;
  const { input } = route.rpc;
  const read = prepared.by_body ? readFields(input, request) : readQueryFields(prepared, request);
  if (isEdgeRefusal(read)) return read;
  for (const name of rest.params) delete read.fields[name];
  const refusal = prepared.validate(read.fields);
  if (refusal !== undefined) return refusal;
  const params = readParams(prepared, request.params as Record<string, string>);
  if (isEdgeRefusal(params)) return params;
  const message = fromJsonForm(input, { ...read.fields, ...params } as JsonObject);
  if (prepared.mask !== undefined) {
    (message as unknown as Record<string, unknown>)[prepared.mask] = {
      $typeName: "google.protobuf.FieldMask",
      paths: Object.keys(read.fields),
    };
  }
  return message;
}

function readFields(input: DescMessage, request: FastifyRequest): { fields: Record<string, unknown> } | EdgeRefusal {
  const body = request.body instanceof Uint8Array ? request.body : new Uint8Array();
  const parsed = parseBody(body);
  return isEdgeRefusal(parsed) ? parsed : projectBody(input, parsed.json);
}

function readQueryFields({ route, rest }: Prepared, request: FastifyRequest) {
  const begin = request.url.indexOf("?");
  return readQuery(route.rpc.input, rest.params, begin === -1 ? "" : request.url.slice(begin + 1));
}

/** A path that names something impossible names nothing: 404, not 422. */
function readParams(
  { rest, validate_params, route }: Prepared,
  given: Record<string, string>,
): JsonObject | EdgeRefusal {
  const params: Record<string, Json> = {};
  for (const name of rest.params) {
    const text = given[name] ?? "";
    if (text === "" || textProblem(text) !== undefined) return nothingThere();
    const field = route.rpc.input.fields.find((candidate) => candidate.name === name);
    params[name] = field === undefined ? text : (typedText(field, text) as Json);
  }
  return validate_params(params) === undefined ? params : nothingThere();
}

function sendAnswer(route: Route, { message, outcome }: Answer, reply: FastifyReply): FastifyReply {
  const status = { created: route.success, existing: route.existing, replayed: route.replay }[outcome];
  reply.code(status);
  if (outcome === "replayed") reply.header("Idempotent-Replayed", "true");
  if (status === 204) return reply.send();
  const json = toJsonForm(route.rpc.output, message);
  if (status === 201 && route.location) {
    reply.header(
      "Location",
      route.location.replace(/\{([^}]*)\}/g, (_, name) => encodeURIComponent(String(json[name]))),
    );
  }
  return reply.type("application/json; charset=utf-8").send(JSON.stringify(json));
}

function nothingThere(): EdgeRefusal {
  return edgeRefusal("not_found", "no such resource");
}
