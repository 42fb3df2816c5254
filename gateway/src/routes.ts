// The route table: every RPC that carries our `route` option, read from the descriptors and checked at boot.
// An option that makes no sense stops the gateway with one sentence, because half a route is an open door.

import { type DescMethod, type FileRegistry, getOption, hasOption } from "@bufbuild/protobuf";
import { ID_PREFIXES } from "@cauri/money/ids";
import { Auth, Door, type Route as RouteOption, route as routeOption } from "@cauri/proto/es/cauri/api/v1/options_pb";
import { isFieldMask, isInternal, isTimestamp } from "@cauri/rpc/json-form";
import { meanings } from "@cauri/rpc/reasons";
import { servicesOf } from "./image.ts";

export const SCOPES = [
  "can_initiate_payment",
  "can_payout",
  "can_refund",
  "can_read_transactions",
  "can_manage_webhooks",
] as const;
export const PRODUCTS = ["instant_payment", "tontine"] as const;
export const OPTIONS = ["internal_transfers"] as const;

export const READ_TIMEOUT_MS = 5_000;
export const WRITE_TIMEOUT_MS = 8_000;
export const BODY_LIMIT = 1_048_576;
/** The largest body any route may ask for; 25 MiB is a dispute's answer with its files. */
const MAX_BODY_LIMIT = 26_214_400;
const MAX_TIMEOUT_MS = 600_000;
const SUCCESSES = [200, 201, 202, 204];
const EMPTY = "google.protobuf.Empty";
/** A parameter is a whole segment: `{id}`, never `a{id}`. */
const SEGMENT = /^(?:[a-z0-9]+(?:-[a-z0-9]+)*|\{[a-z][a-z0-9_]*\})$/;

/** The standard reads by their names (AIP-131, AIP-132); an operator's RPC has no verb that would tell. */
const READ = /^(?:Get|List)[A-Z]/;

export type Verb = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";

export type Route = {
  readonly rpc: DescMethod;
  /** `cauri.collections.v1.PaymentService/CreatePayment`: the path of the RPC on every wire. */
  readonly name: string;
  /** The service that answers: the second word of the proto package. */
  readonly room: string;
  readonly door: "public" | "admin";
  /** REST verb and path template; null on the admin door and for streams. */
  readonly rest: { readonly verb: Verb; readonly path: string; readonly params: readonly string[] } | null;
  readonly scopes: readonly string[];
  readonly option: string;
  readonly product: string;
  readonly refuses_test: boolean;
  readonly needs_live: boolean;
  readonly success: number;
  readonly existing: number;
  readonly replay: number;
  readonly idempotent: boolean;
  /** Whether a call whose answer was lost may be made once more: what it does twice is what it does once. */
  readonly repeatable: boolean;
  readonly id_prefix: string;
  readonly location: string;
  readonly timeout_ms: number;
  readonly body_limit: number;
  readonly stream: boolean;
  readonly tag: string;
  /** Reasons beyond those that follow from the options, for the documentation. */
  readonly refusals: readonly string[];
};

/** Thrown at boot: the sentence names the RPC and what is wrong with its options. */
export class SenselessOption extends Error {}

/** Every reachable RPC, in the order of the descriptors. */
export function readRoutes(registry: FileRegistry): Route[] {
  const routes: Route[] = [];
  for (const service of servicesOf(registry)) {
    for (const rpc of service.methods) {
      if (hasOption(rpc, routeOption)) routes.push(readRoute(rpc, getOption(rpc, routeOption)));
    }
  }
  refuseDoubles(routes);
  return routes;
}

/** `/v1/payments/{id}` and `/v1/payments/{ref}` are the same place. */
function refuseDoubles(routes: readonly Route[]): void {
  const seen = new Map<string, string>();
  for (const { rest, name } of routes) {
    if (rest === null) continue;
    const place = `${rest.verb} ${rest.path.replace(/\{[^}]*\}/g, "{}")}`;
    const other = seen.get(place);
    if (other !== undefined) throw new SenselessOption(`${name}: ${place} is the path of ${other} already`);
    seen.set(place, name);
  }
}

export function readRoute(rpc: DescMethod, option: RouteOption): Route {
  const name = `${rpc.parent.typeName}/${rpc.name}`;
  const say = (sentence: string): never => {
    throw new SenselessOption(`${name}: ${sentence}`);
  };
  const rest = readRest(option, say);
  const admin = option.door === Door.ADMIN;
  const success = option.success || 200;
  const reads = admin ? false : rest === null || rest.verb === "GET";
  const route: Route = {
    rpc,
    name,
    room: roomOf(rpc.parent.typeName, say),
    door: admin ? "admin" : "public",
    rest,
    scopes: option.scopes,
    option: option.option,
    product: option.product,
    refuses_test: option.refusesTest,
    needs_live: option.needsLive,
    success,
    existing: option.existing || success,
    replay: option.replay || success,
    idempotent: option.idempotent,
    repeatable: option.idempotent || (rest === null ? READ.test(rpc.name) : rest.verb !== "POST"),
    id_prefix: option.idPrefix,
    location: option.location,
    timeout_ms: option.timeoutMs || (reads ? READ_TIMEOUT_MS : WRITE_TIMEOUT_MS),
    body_limit: Number(option.bodyLimit) || BODY_LIMIT,
    stream: option.stream,
    tag: option.tag,
    refusals: option.refusals,
  };
  checkDoor(route, option, say);
  checkRights(route, say);
  checkStatuses(route, option, say);
  checkIdempotency(route, say);
  checkLimits(route, option, say);
  checkMessages(route, say);
  return route;
}

type Say = (sentence: string) => never;

function roomOf(type_name: string, say: Say): string {
  const [house, room] = type_name.split(".");
  return house === "cauri" && room !== undefined ? room : say("a routed service lives in a package cauri.<room>.v1");
}

function readRest(option: RouteOption, say: Say): Route["rest"] {
  const { method } = option;
  if (method.case === undefined) return null;
  const path = method.value;
  const params: string[] = [];
  if (!path.startsWith("/v1/")) say(`the path ${path} does not begin with /v1/`);
  for (const segment of path.slice(1).split("/")) {
    if (!SEGMENT.test(segment)) say(`the path ${path} has the segment "${segment}", neither a plain word nor {field}`);
    if (!segment.startsWith("{")) continue;
    const param = segment.slice(1, -1);
    if (params.includes(param)) say(`the path ${path} names {${param}} twice`);
    params.push(param);
  }
  return { verb: method.case.toUpperCase() as Verb, path, params };
}

function checkDoor(route: Route, option: RouteOption, say: Say): void {
  if (route.door === "admin") {
    if (route.rest !== null) say("an RPC of the admin door has no path: it is served by Connect alone");
    if (option.auth !== Auth.OPERATOR) say("the admin door is the operator's: say auth: AUTH_OPERATOR");
    if (route.scopes.length > 0 || route.product || route.option) say("an operator has no scopes, products or options");
    if (route.stream) say("the admin door serves no streams");
    if (route.needs_live || route.refuses_test) say("an operator has no mode: needs_live and refuses_test are a key's");
    if (route.idempotent || route.location || option.success || option.existing || option.replay) {
      say("statuses, Location and Idempotency-Key belong to REST: the admin door has none");
    }
    return;
  }
  if (option.auth === Auth.OPERATOR) say("an operator's RPC is mounted on the admin door only: say door: DOOR_ADMIN");
  if (option.auth === Auth.PERSON) say("AUTH_PERSON asks for sessions of people, which this gateway does not serve");
  if (option.auth === Auth.NONE) say("every public route asks for a key; a page without one is a plain plugin");
  if (route.rest === null && !route.stream) say("a public route needs its verb and path");
}

function checkRights(route: Route, say: Say): void {
  for (const scope of route.scopes) {
    if (!(SCOPES as readonly string[]).includes(scope)) say(`there is no scope ${scope}`);
  }
  if (route.product && !(PRODUCTS as readonly string[]).includes(route.product))
    say(`there is no product ${route.product}`);
  if (route.option && !(OPTIONS as readonly string[]).includes(route.option)) say(`there is no option ${route.option}`);
  for (const reason of route.refusals) if (!meanings.has(reason)) say(`there is no reason ${reason}`);
  if (route.door === "public" && !route.tag) say("a public route needs its tag");
  if (route.refuses_test && route.needs_live && route.rest?.verb === "GET") say("a read never needs live activation");
}

function checkStatuses(route: Route, option: RouteOption, say: Say): void {
  for (const [word, status] of Object.entries({
    success: route.success,
    existing: route.existing,
    replay: route.replay,
  })) {
    if (!SUCCESSES.includes(status)) say(`${word}: ${status} is none of ${SUCCESSES.join(", ")}`);
  }
  const empty = route.rpc.output.typeName === EMPTY;
  if (route.door === "public" && empty !== (route.success === 204)) {
    say("204 goes with google.protobuf.Empty and with nothing else");
  }
  if (option.replay && !route.idempotent)
    say("replay is the status of an idempotent replay: the route is not idempotent");
  if (route.location && route.success !== 201) say("Location goes with success: 201");
  for (const [, field = ""] of route.location.matchAll(/\{([^}]*)\}/g)) {
    if (!route.rpc.output.fields.some(({ name }) => name === field))
      say(`Location names {${field}}, which the answer has not`);
  }
}

function checkIdempotency(route: Route, say: Say): void {
  if (route.idempotent && route.rest?.verb === "GET") say("a read takes no Idempotency-Key");
  if (route.idempotent && !route.id_prefix) say("an idempotent route needs id_prefix: the operation id is minted here");
  if (!route.idempotent && route.id_prefix) say("id_prefix without idempotent: no operation id would be minted");
  if (route.id_prefix && !(ID_PREFIXES as readonly string[]).includes(route.id_prefix)) {
    say(`there is no id prefix ${route.id_prefix}`);
  }
}

function checkLimits(route: Route, option: RouteOption, say: Say): void {
  if (route.timeout_ms < 1 || route.timeout_ms > MAX_TIMEOUT_MS)
    say(`timeout_ms must lie between 1 and ${MAX_TIMEOUT_MS}`);
  if (route.body_limit < 1 || route.body_limit > MAX_BODY_LIMIT)
    say(`body_limit must lie between 1 and ${MAX_BODY_LIMIT}`);
  const { methodKind } = route.rpc;
  if (route.stream !== (methodKind === "server_streaming")) {
    say(route.stream ? "stream is set but the RPC streams nothing" : `a ${methodKind} RPC has no route of this form`);
  }
  if (route.stream && (route.rest !== null || option.timeoutMs)) say("a stream has neither a REST path nor a deadline");
}

function checkMessages(route: Route, say: Say): void {
  const { input } = route.rpc;
  for (const param of route.rest?.params ?? []) {
    const field = input.fields.find(({ name }) => name === param);
    if (field === undefined) say(`the path names {${param}}, which ${input.typeName} has not`);
    else if (field.fieldKind !== "scalar") say(`the path's {${param}} is not a plain field`);
  }
  const mask = input.fields.find((field) => isFieldMask(field.message));
  if (mask !== undefined && !(mask.name === "update_mask" && isInternal(mask))) {
    say(`${mask.name}: a field mask is named update_mask and marked internal`);
  }
  if ((route.rest?.verb === "PATCH") !== (mask !== undefined)) say("PATCH and update_mask go together");
  if (route.rest?.verb !== "GET" && route.rest?.verb !== "DELETE") return;
  for (const field of input.fields) {
    if (isInternal(field) || route.rest.params.includes(field.name)) continue;
    const nested = field.fieldKind === "map" || (field.message !== undefined && !isTimestamp(field.message));
    if (nested) say(`${field.name} cannot be written in a query string`);
  }
}
