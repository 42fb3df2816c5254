// The OpenAPI 3.1 document, made from the same descriptors as the routes themselves: paths, parameters, bodies, every
// status with its codes. Kept in git as gateway/openapi.json, so that a review sees each change of the public contract.

import type { DescField, FileRegistry } from "@bufbuild/protobuf";
import { isInternal, optionOf } from "@cauri/rpc/json-form";
import { commentOf } from "./image.ts";
import { exampleMessage } from "./openapi-examples.ts";
import { type Components, createComponents, described, publicForm } from "./openapi-schemas.ts";
import * as words from "./openapi-words.ts";
import { type Route, readRoutes, SenselessOption } from "./routes.ts";
import { fieldSchema, inputSchema, type Schema } from "./schema.ts";

const REASON = "cauri.api.v1.Reason";
/** Every /v1 route can give these. */
const ALWAYS = [
  "missing_api_key",
  "invalid_api_key",
  "client_inactive",
  "rate_limited",
  "internal_error",
  "temporarily_unavailable",
];

export function openApiDocument(registry: FileRegistry): object {
  const components = createComponents();
  const errors: Errors = { texts: reasonTexts(registry), shared: {} };
  const routes = readRoutes(registry).filter(({ door, rest }) => door === "public" && rest !== null);
  const paths: { [path: string]: { [verb: string]: Schema } } = {};
  for (const route of routes) {
    const { path = "", verb = "" } = route.rest ?? {};
    paths[path] = { ...paths[path], [verb.toLowerCase()]: operation(route, components, errors) };
  }
  refuseDoubleIds(paths);
  paths["/v1/openapi.json"] = { get: interfaceOperation(errors) };
  const tags = [...new Set(routes.map(({ tag }) => tag))].map((tag) => ({
    name: tag,
    description: tagText(routes, tag),
  }));
  return {
    openapi: "3.1.0",
    info: { title: "Cauri", version: "1", summary: "A merchant payment gateway.", description: words.FRONT_PAGE },
    servers: [{ url: "/", description: "The address at which this document was found." }],
    security: [{ bearer: [] }, { api_key: [] }],
    tags: [...tags, { name: "Interface", description: "This description itself." }],
    paths: Object.fromEntries(Object.entries(paths).sort(([one], [other]) => (one < other ? -1 : 1))),
    webhooks: words.webhooks(paths),
    components: {
      securitySchemes: {
        bearer: { type: "http", scheme: "bearer", description: "`Authorization: Bearer sk_test_…` or `sk_live_…`" },
        api_key: {
          type: "apiKey",
          in: "header",
          name: "X-API-Key",
          description: "The same key in a header of its own.",
        },
      },
      parameters: { IdempotencyKey: words.IDEMPOTENCY_KEY },
      headers: words.HEADERS,
      responses: Object.fromEntries(Object.entries(errors.shared).sort(([one], [other]) => (one < other ? -1 : 1))),
      schemas: { ...components.schemas, Error: words.ERROR_SCHEMA, WebhookEvent: words.WEBHOOK_SCHEMA },
    },
  };
}

/** Generated clients name their functions by these ids. */
function refuseDoubleIds(paths: { [path: string]: { [verb: string]: Schema } }): void {
  const ids = Object.values(paths).flatMap((verbs) => Object.values(verbs).map(({ operationId }) => operationId));
  const double = ids.find((id, index) => ids.indexOf(id) !== index);
  if (double !== undefined) throw new SenselessOption(`two public RPCs are called ${String(double)}`);
}

/** What the reasons say, and the responses that were written down so far. */
type Errors = { readonly texts: words.ReasonTexts; readonly shared: { [name: string]: Schema } };

function errorsOf(reasons: readonly string[], { texts, shared }: Errors): { [status: string]: Schema } {
  return words.errorResponses(reasons, texts, shared);
}

function operation(route: Route, components: Components, errors: Errors): Schema {
  const { rpc, rest } = route;
  const by_body = rest?.verb !== "GET" && rest?.verb !== "DELETE";
  const text = commentOf(rpc);
  const [summary = ""] = text.split(/(?<=\.)\s/);
  return {
    operationId: rpc.localName,
    summary: summary.replace(/\.$/, ""),
    description: [text, scopeText(route)].filter(Boolean).join("\n\n"),
    tags: [route.tag],
    parameters: parameters(route, by_body),
    ...(by_body ? body(route, components) : {}),
    responses: { ...successes(route, components), ...errorsOf(reasonsOf(route, by_body), errors) },
  };
}

function scopeText({ scopes, option, product, needs_live }: Route): string {
  const quoted = scopes.map((scope) => `\`${scope}\``).join(" or ");
  return [
    quoted ? `Scope: ${quoted}.` : "",
    option ? `Account option: \`${option}\`.` : "",
    product ? `Product: \`${product}\`.` : "",
    needs_live ? "In live mode the account must be activated for it." : "",
  ]
    .filter(Boolean)
    .join(" ");
}

function parameters(route: Route, by_body: boolean): Schema[] {
  const { input } = route.rpc;
  const in_path = input.fields.filter(({ name }) => route.rest?.params.includes(name));
  const in_query = by_body ? [] : input.fields.filter((field) => !in_path.includes(field) && !isInternal(field));
  return [
    ...in_path.map((field) => parameter(field, "path")),
    ...in_query.map((field) => parameter(field, "query")),
    ...(route.idempotent ? [{ $ref: "#/components/parameters/IdempotencyKey" }] : []),
  ];
}

function parameter(field: DescField, place: "path" | "query"): Schema {
  const { description = "", ...schema } = described(field, publicForm(fieldSchema(field, inputSchema)));
  const required = place === "path" || optionOf(field)?.required === true;
  return { name: field.name, in: place, required, description, schema };
}

function body(route: Route, components: Components): Schema {
  const { input } = route.rpc;
  const without = route.rest?.params ?? [];
  const schema = inputSchema(input, without);
  if (Object.keys(schema["properties"] as object).length === 0) return {};
  const required = schema["required"] !== undefined;
  const example = exampleMessage(input, without);
  const content = { "application/json": { schema: components.input(input, without), example } };
  return { requestBody: { required, content } };
}

function successes(route: Route, components: Components): { [status: string]: Schema } {
  const responses: { [status: string]: Schema } = {};
  const say = (status: number, sentence: string) => {
    const before = responses[String(status)];
    if (before !== undefined) {
      before["description"] = `${String(before["description"])} ${sentence}`;
      return;
    }
    responses[String(status)] = {
      description: sentence,
      headers: {
        ...words.COMMON_HEADERS,
        ...(status === 201 && route.location ? { Location: words.header("Location") } : {}),
        ...(route.idempotent ? { "Idempotent-Replayed": words.header("IdempotentReplayed") } : {}),
      },
      ...(status === 204 ? {} : { content: answerContent(route, components) }),
    };
  };
  say(route.success, route.success === 201 ? "Created." : "Done.");
  if (route.existing !== route.success) say(route.existing, "It was there already; nothing was created.");
  if (route.idempotent && route.replay !== route.success) say(route.replay, "An idempotent replay.");
  return responses;
}

function answerContent(route: Route, components: Components): Schema {
  const { output } = route.rpc;
  return { "application/json": { schema: components.output(output), example: exampleMessage(output) } };
}

/** The reasons that follow from the route's options, and those that the route names itself. */
function reasonsOf(route: Route, by_body: boolean): string[] {
  const has_input = Object.keys(inputSchema(route.rpc.input, route.rest?.params)["properties"] as object).length > 0;
  return [
    ...ALWAYS,
    ...(route.scopes.length > 0 || route.option ? ["insufficient_scope"] : []),
    ...(route.product ? ["product_not_enabled"] : []),
    ...(route.refuses_test ? ["test_mode_unsupported"] : []),
    ...(route.needs_live ? ["not_live"] : []),
    ...(route.rest?.params.length ? ["not_found"] : []),
    ...(by_body ? ["unsupported_media_type", "payload_too_large"] : []),
    ...(has_input || by_body ? ["invalid_request"] : []),
    // The one name that a merchant gives and that may be taken.
    ...(route.idempotent && route.rpc.input.fields.some(({ name }) => name === "client_ref") ? ["already_exists"] : []),
    ...(route.idempotent ? ["concurrent_request"] : []),
    ...route.refusals,
  ].filter((reason, index, all) => all.indexOf(reason) === index);
}

function interfaceOperation(errors: Errors): Schema {
  return {
    operationId: "getInterface",
    summary: "This description",
    description: "The OpenAPI description of the interface. Any scope will do.",
    tags: ["Interface"],
    parameters: [],
    responses: {
      "200": {
        description: "The description.",
        headers: words.COMMON_HEADERS,
        content: {
          "application/json": { schema: words.INTERFACE_SCHEMA, example: { openapi: "3.1.0" } },
        },
      },
      ...errorsOf(ALWAYS, errors),
    },
  };
}

function reasonTexts(registry: FileRegistry): words.ReasonTexts {
  const values = registry.getEnum(REASON)?.values ?? [];
  return new Map(values.map((value) => [value.localName.toLowerCase(), commentOf(value)]));
}

/** The first service of a tag describes it. */
function tagText(routes: readonly Route[], tag: string): string {
  const first = routes.find((route) => route.tag === tag);
  return first === undefined ? "" : commentOf(first.rpc.parent);
}
