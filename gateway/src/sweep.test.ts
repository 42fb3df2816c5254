// Who may call what, for every route of the table and so for each new one by itself: REST, Connect and gRPC-Web on the
// public port, and the operators' RPCs, which no credential reaches there. Whose the ids are is test/sweep.story.test.ts.

import assert from "node:assert/strict";
import { connect, constants } from "node:http2";
import { test } from "node:test";
import type { ResolvedKey } from "@cauri/proto/ts/cauri/accounts/v1/accounts";
import { AccountStatus } from "@cauri/proto/ts/cauri/accounts/v1/accounts";
import { meaningOf } from "@cauri/rpc/reasons";
import { loadImage } from "./image.ts";
import { OPTIONS, PRODUCTS, type Route, readRoutes, SCOPES } from "./routes.ts";
import { OPERATOR_TOKEN, openDoor, type TestDoor } from "./testing.ts";

const routes = readRoutes(loadImage());
const everything = { scopes: [...SCOPES], products: [...PRODUCTS], options: [...OPTIONS], isLive: true };
const live = { ...everything, mode: "live" };

/** One way in: REST by the route's verb and path, Connect, or gRPC-Web. All must refuse the same. */
type Way = {
  readonly name: string;
  readonly method: string;
  readonly path: string;
  readonly route: Route;
  readonly type: string;
};
type Outcome = { readonly status: number; readonly code: string };

const JSON_TYPE = "application/json";
const GRPC_WEB_TYPE = "application/grpc-web+proto";

const ways: readonly Way[] = routes
  .filter(({ door }) => door === "public")
  .flatMap((route) => {
    const rpcs = [
      { name: `Connect ${route.name}`, method: "POST", path: `/${route.name}`, route, type: JSON_TYPE },
      { name: `gRPC-Web ${route.name}`, method: "POST", path: `/${route.name}`, route, type: GRPC_WEB_TYPE },
    ];
    const { rest } = route;
    if (rest === null) return rpcs;
    const path = rest.path.replace(/\{[^}]*\}/g, "1");
    return [{ name: `${rest.verb} ${path}`, method: rest.verb, path, route, type: JSON_TYPE }, ...rpcs];
  });

let serial = 0;

/** Sends an empty request; each comes from an address of its own, because unknown keys are limited by it. */
async function attempt(door: TestDoor, way: Way, key: string | null): Promise<Outcome> {
  serial += 1;
  const answer = await door.send({
    method: way.method,
    path: way.path,
    headers: {
      "x-forwarded-for": `198.51.${serial >> 8}.${serial & 255}`,
      ...(key === null ? {} : { authorization: `Bearer ${key}` }),
      ...(way.method === "GET" || way.method === "DELETE" ? {} : { "content-type": way.type }),
    },
    ...(way.method === "GET" || way.method === "DELETE" ? {} : { body: "{}" }),
  });
  // REST has the code in its envelope; the others have it in a header, beside the protocol's own error.
  const code = String(answer.headers["cauri-reason"] ?? answer.json?.error?.code ?? "");
  // gRPC-Web answers 200 whatever happens.
  const is_refused = way.type === GRPC_WEB_TYPE && Number(answer.headers["grpc-status"]) > 0;
  return { status: is_refused ? meaningOf(code).http : answer.status, code };
}

async function refusesAll(
  t: { after(fn: () => unknown): void },
  wanted: Outcome,
  key: (door: TestDoor, way: Way) => string | null,
  among: (way: Way) => boolean = () => true,
): Promise<void> {
  const door = await openDoor(t);
  for (const way of ways.filter(among)) {
    assert.deepEqual(await attempt(door, way, key(door, way)), wanted, way.name);
  }
}

const holding = (of: Partial<ResolvedKey>) => (door: TestDoor) => door.key(of);
const without = (words: readonly string[], left_out: readonly string[]) =>
  words.filter((one) => !left_out.includes(one));

test("sweep: the table is not empty, and every public route has its scopes", () => {
  assert.ok(ways.length >= 20, `${ways.length} ways in`);
  assert.deepEqual(
    ways.filter(({ route }) => route.scopes.length === 0).map(({ name }) => name),
    [],
    "a route for keys of any scope needs a decision",
  );
});

test("sweep: without a key every route is 401 missing_api_key", async (t) => {
  await refusesAll(t, { status: 401, code: "missing_api_key" }, () => null);
});

test("sweep: an unknown key, a malformed one, a closed account's: 401 invalid_api_key", async (t) => {
  const wanted = { status: 401, code: "invalid_api_key" };
  await refusesAll(t, wanted, holding({ ...live, known: false }));
  await refusesAll(t, wanted, () => "sk_live_short");
  await refusesAll(t, wanted, () => OPERATOR_TOKEN);
  await refusesAll(t, wanted, holding({ ...live, accountStatus: AccountStatus.CLOSED }));
});

test("sweep: a pending and a suspended account are 403 client_inactive, whatever the key may do", async (t) => {
  const wanted = { status: 403, code: "client_inactive" };
  await refusesAll(t, wanted, holding({ ...live, accountStatus: AccountStatus.PENDING }));
  await refusesAll(t, wanted, holding({ ...live, accountStatus: AccountStatus.SUSPENDED }));
});

test("sweep: every other scope together is not enough: 403 insufficient_scope", async (t) => {
  const wanted = { status: 403, code: "insufficient_scope" };
  await refusesAll(t, wanted, (door, { route }) => door.key({ ...live, scopes: without(SCOPES, route.scopes) }));
  await refusesAll(t, wanted, holding({ ...live, scopes: [] }));
});

test("sweep: the product, the option, the mode and the live activation that a route asks for", async (t) => {
  await refusesAll(
    t,
    { status: 403, code: "product_not_enabled" },
    (door, { route }) => door.key({ ...live, products: without(PRODUCTS, [route.product]) }),
    ({ route }) => route.product !== "",
  );
  await refusesAll(
    t,
    { status: 403, code: "insufficient_scope" },
    (door, { route }) => door.key({ ...live, options: without(OPTIONS, [route.option]) }),
    ({ route }) => route.option !== "",
  );
  const test_key = holding({ ...everything, mode: "test" });
  await refusesAll(t, { status: 403, code: "test_mode_unsupported" }, test_key, ({ route }) => route.refuses_test);
  const not_live = holding({ ...live, isLive: false });
  await refusesAll(t, { status: 403, code: "not_live" }, not_live, ({ route }) => route.needs_live);
});

test("sweep: any one of a route's scopes is enough, with nothing beyond what the route asks for", async (t) => {
  const door = await openDoor(t);
  for (const way of ways) {
    const { scopes, product, option, needs_live, refuses_test } = way.route;
    for (const scope of scopes) {
      const least = {
        scopes: [scope],
        products: product ? [product] : [],
        options: option ? [option] : [],
        mode: refuses_test ? "live" : "test",
        isLive: needs_live,
      };
      const { status } = await attempt(door, way, door.key(least));
      assert.ok(![401, 403, 405, 429].includes(status), `${way.name} with ${scope}: ${status}`);
    }
  }
});

test("sweep: no operator RPC is on the public port or the gRPC port, with any credential", async (t) => {
  const door = await openDoor(t);
  const session = connect(`http://127.0.0.1:${door.grpc_port}`);
  t.after(() => session.close());
  const operators = routes.filter((route) => route.door === "admin");
  assert.ok(operators.length >= 20, `${operators.length} operator RPCs`);
  for (const route of operators) {
    const way = { name: route.name, method: "POST", path: `/${route.name}`, route, type: JSON_TYPE };
    assert.equal((await attempt(door, way, null)).status, 401, route.name);
    assert.equal((await attempt(door, way, OPERATOR_TOKEN)).status, 401, route.name);
    assert.equal((await attempt(door, way, door.key(live))).status, 404, route.name);
    for (const token of [OPERATOR_TOKEN, door.key(live)]) {
      const status = await grpcStatus(session, way.path, token);
      assert.ok(status === "16" || status === "12" || status === "5", `${route.name}: grpc-status ${status}`);
    }
  }
});

/** The gRPC status of an empty message; the HTTP status where the answer has none. */
function grpcStatus(session: ReturnType<typeof connect>, path: string, token: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const stream = session.request({
      [constants.HTTP2_HEADER_METHOD]: "POST",
      [constants.HTTP2_HEADER_PATH]: path,
      "content-type": "application/grpc",
      te: "trailers",
      authorization: `Bearer ${token}`,
      "x-forwarded-for": "203.0.113.7",
    });
    let told = "";
    const read = (headers: { readonly [name: string]: unknown }) => {
      told = String(headers["grpc-status"] ?? (told || `http ${headers[":status"]}`));
    };
    stream.on("response", read);
    stream.on("trailers", read);
    stream.on("error", reject);
    stream.on("close", () => resolve(told));
    stream.resume();
    stream.end(Buffer.alloc(5));
  });
}
