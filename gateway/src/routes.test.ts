// The route table of the real contract, and options that make no sense.

import assert from "node:assert/strict";
import { test } from "node:test";
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { Auth, Door, RouteSchema } from "@cauri/proto/es/cauri/api/v1/options_pb";
import { loadImage, servicesOf } from "./image.ts";
import { readRoute, readRoutes, SenselessOption } from "./routes.ts";
import { inputSchema } from "./schema.ts";
import { createValidator } from "./validate.ts";

const registry = loadImage();
const routes = readRoutes(registry);

function rpcOf(name: string) {
  for (const service of servicesOf(registry)) {
    const found = service.methods.find((method) => method.name === name);
    if (found !== undefined) return found;
  }
  return assert.fail(`no RPC ${name}`);
}

const CREATE = {
  method: { case: "post", value: "/v1/payments" },
  success: 201,
  idempotent: true,
  idPrefix: "pay",
  location: "/v1/payments/{id}",
  tag: "Payments",
} as const satisfies MessageInitShape<typeof RouteSchema>;

test("routes: an RPC without the option is nowhere, an operator's is on the admin door alone", () => {
  const names = routes.map(({ name }) => name);
  for (const inside of [
    "KeyService/ResolveKey",
    "LedgerService/Post",
    "RailsService/Collect",
    "RailsService/KeepPayer",
  ]) {
    assert.ok(!names.some((name) => name.endsWith(inside)), inside);
  }
  for (const { door, rest, stream, name } of routes) assert.equal(door === "admin", rest === null && !stream, name);
});

test("routes: a lost answer is asked for again only where twice does no more than once", () => {
  const of = (name: string) => routes.find((route) => route.name.endsWith(`/${name}`))?.repeatable;
  for (const name of ["CreatePayment", "CreatePayout", "CreateEndpoint", "GetPayment", "UpdateEndpoint", "ListKeys"]) {
    assert.equal(of(name), true, name);
  }
  const once = ["CreateAccount", "CreateKey", "RotateKey", "AdvanceClock", "RotateEndpointSecret", "TestEndpoints"];
  for (const name of once) assert.equal(of(name), false, name);
});

test("routes: every schema compiles, so that a bad pattern or bound stops the boot", () => {
  const { compile } = createValidator();
  for (const { rpc } of routes) compile(inputSchema(rpc.input));
});

test("routes: a sensible option is read with its defaults", () => {
  const route = readRoute(rpcOf("CreatePayment"), create(RouteSchema, CREATE));
  assert.equal(route.room, "collections");
  assert.equal(route.timeout_ms, 8_000);
  assert.equal(route.replay, 201);
  assert.equal(route.body_limit, 1_048_576);
});

const senseless: [string, string, MessageInitShape<typeof RouteSchema>, RegExp][] = [
  [
    "a path outside /v1",
    "CreatePayment",
    { ...CREATE, method: { case: "post", value: "/payments" } },
    /does not begin with \/v1/,
  ],
  [
    "a half segment as parameter",
    "GetPayment",
    { method: { case: "get", value: "/v1/p-{id}" }, tag: "P" },
    /segment "p-\{id\}"/,
  ],
  [
    "a parameter that is no field",
    "GetPayment",
    { method: { case: "get", value: "/v1/payments/{ref}" }, tag: "P" },
    /\{ref\}/,
  ],
  ["a parameter twice", "GetPayment", { method: { case: "get", value: "/v1/{id}/{id}" }, tag: "P" }, /twice/],
  ["a public RPC without a path", "GetPayment", { tag: "P" }, /needs its verb and path/],
  [
    "an operator's auth in public",
    "GetPayment",
    { method: { case: "get", value: "/v1/payments/{id}" }, auth: Auth.OPERATOR },
    /admin door only/,
  ],
  [
    "a path on the admin door",
    "Verify",
    { method: { case: "get", value: "/v1/verify" }, door: Door.ADMIN, auth: Auth.OPERATOR },
    /has no path/,
  ],
  ["the admin door without its auth", "Verify", { door: Door.ADMIN }, /AUTH_OPERATOR/],
  ["scopes for an operator", "Verify", { door: Door.ADMIN, auth: Auth.OPERATOR, scopes: ["can_payout"] }, /no scopes/],
  ["an unknown scope", "CreatePayment", { ...CREATE, scopes: ["can_fly"] }, /no scope can_fly/],
  ["an unknown product", "CreatePayment", { ...CREATE, product: "kite" }, /no product kite/],
  ["an unknown reason", "CreatePayment", { ...CREATE, refusals: ["bad_mood"] }, /no reason bad_mood/],
  ["a success that is none", "CreatePayment", { ...CREATE, success: 404 }, /404 is none of/],
  [
    "204 with an answer",
    "GetPayment",
    { method: { case: "get", value: "/v1/payments/{id}" }, success: 204, tag: "P" },
    /Empty/,
  ],
  ["Location without 201", "CreatePayment", { ...CREATE, success: 200 }, /Location goes with/],
  ["Location with a field the answer has not", "CreatePayment", { ...CREATE, location: "/v1/payments/{nr}" }, /\{nr\}/],
  [
    "an idempotent read",
    "GetPayment",
    { method: { case: "get", value: "/v1/payments/{id}" }, idempotent: true, idPrefix: "pay", tag: "P" },
    /read takes no/,
  ],
  ["idempotent without a prefix", "CreatePayment", { ...CREATE, idPrefix: "" }, /needs id_prefix/],
  ["a prefix that is none", "CreatePayment", { ...CREATE, idPrefix: "xx" }, /no id prefix xx/],
  [
    "PATCH without a mask",
    "CreatePayment",
    { method: { case: "patch", value: "/v1/payments" }, tag: "P" },
    /update_mask/,
  ],
  [
    "a mask without PATCH",
    "UpdateEndpoint",
    { method: { case: "put", value: "/v1/webhooks/{id}" }, tag: "W" },
    /update_mask/,
  ],
  [
    "a nested field in a query",
    "CreatePayment",
    { method: { case: "get", value: "/v1/payments" }, tag: "P" },
    /query string/,
  ],
  ["a deadline beyond ten minutes", "CreatePayment", { ...CREATE, timeoutMs: 700_000 }, /timeout_ms/],
  ["a stream of nothing", "GetPayment", { stream: true, tag: "P" }, /streams nothing/],
];

for (const [what, rpc, option, sentence] of senseless) {
  test(`routes: ${what} stops the boot with a sentence that names the RPC`, () => {
    assert.throws(
      () => readRoute(rpcOf(rpc), create(RouteSchema, option)),
      (error) =>
        error instanceof SenselessOption && sentence.test(error.message) && error.message.includes(`/${rpc}: `),
    );
  });
}
