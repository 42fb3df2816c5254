// What a merchant does with endpoints: register, change, delete. Checks in a fixed order, then one transaction each.

import { newId } from "@cauri/money/ids";
import { isRefusal, type Refusal, refuse, refuseField } from "@cauri/money/refusal";
import type { Caller } from "@cauri/rpc/caller";
import type { Cipher } from "@cauri/store/cipher";
import { type ClaimRequest, claim, fingerprint, finishClaim, peek } from "@cauri/store/claims";
import { type Pool, type Queryable, type Tx, transact } from "@cauri/store/pool";
import type { Dialer } from "./dialer.ts";
import { checkEvents, checkUrl, MAX_ENDPOINTS } from "./endpoint.ts";
import {
  type Endpoint,
  findById,
  findByOperation,
  findByUrl,
  insertEndpoint,
  lockAccount,
  updateEndpoint,
} from "./endpoint-store.ts";
import { newSecret, sealSecret } from "./secret.ts";

const ROUTE = "/v1/webhooks";
/** The route's deadline of 8 s plus 1 s. */
const LEASE_MS = 9_000;

export type Rooms = {
  readonly pool: Pool;
  readonly dialer: Pick<Dialer, "whyForbidden">;
  readonly cipher: Cipher;
  readonly fingerprint_key: string;
  readonly now: () => number;
};

export type Wanted = {
  readonly url?: string | undefined;
  readonly description?: string | undefined;
  readonly subscribed_events?: readonly string[] | undefined;
  readonly is_active?: boolean | undefined;
  readonly standard_headers?: boolean | undefined;
};

export type Registered = { readonly endpoint: Endpoint; readonly outcome: "created" | "existing" | "replayed" };

/** Registers an endpoint; the same URL again is answered with the one that stands. */
export async function register(
  rooms: Rooms,
  caller: Caller,
  message: object,
  wanted: Wanted,
): Promise<Registered | Refusal> {
  const request = claimRequest(rooms, caller, message);
  const seen = await peek(rooms.pool, request);
  if (isRefusal(seen)) return seen;
  const url = checkUrl(wanted.url ?? "");
  if (isRefusal(url)) return url;
  if (seen !== null && "replayed" in seen) return replay(rooms.pool, caller, seen.replayed, url);
  const events = checkEvents(wanted.subscribed_events ?? []);
  if (isRefusal(events)) return events;
  const standing = await findByUrl(rooms.pool, caller.account, url);
  if (standing === null && (await rooms.dialer.whyForbidden(url)) !== null)
    return refuseField("url", "must name a public host");
  const secret = newSecret();
  return transact(rooms.pool, async (tx) => {
    await lockAccount(tx, caller.account);
    // The key first, then the URL: a key that found an endpoint standing is remembered for its payload like any other.
    const claimed = await claim(tx, request);
    if (isRefusal(claimed)) return claimed;
    if ("replayed" in claimed) return replay(tx, caller, claimed.replayed, url);
    const { operation_id } = claimed;
    await finishClaim(tx, operation_id, claimed.lease_no);
    const standing = await findByUrl(tx, caller.account, url);
    if (standing !== null) return { endpoint: standing, outcome: "existing" } as const;
    const endpoint = await insertEndpoint(tx, {
      operation_id,
      account: caller.account,
      url,
      description: textOrNull(wanted.description),
      subscribed_events: events,
      standard_headers: wanted.standard_headers ?? false,
      secret_sealed: sealSecret(rooms.cipher, { operation_id }, secret),
    });
    // The claim must go with the refusal: nothing was created, nothing is remembered.
    if (endpoint === null) throw new TooMany();
    return { endpoint, outcome: "created" } as const;
  }).catch((error: unknown) => {
    if (error instanceof TooMany) return refuseField("url", `${MAX_ENDPOINTS} endpoints are registered already`);
    throw error;
  });
}

/** Rolls the registration back; never seen outside. */
class TooMany extends Error {}

/** Changes what the mask names; the rest stays. */
export async function change(
  rooms: Rooms,
  caller: Caller,
  id: string,
  wanted: Wanted,
  mask: readonly string[],
): Promise<Endpoint | Refusal> {
  const number = endpointNumber(id);
  if (number === null) return unknownEndpoint();
  // Another account's endpoint is a 404, whatever the body says.
  const before = await findById(rooms.pool, caller.account, number);
  if (before === null) return unknownEndpoint();
  const has = (field: string) => mask.includes(field);
  const url = has("url") ? checkUrl(wanted.url ?? "") : null;
  if (isRefusal(url)) return url;
  const events = has("subscribed_events") ? checkEvents(wanted.subscribed_events ?? []) : null;
  if (isRefusal(events)) return events;
  if (url !== null && url !== before.url && (await rooms.dialer.whyForbidden(url)) !== null)
    return refuseField("url", "must name a public host");
  return transact(rooms.pool, async (tx) => {
    await lockAccount(tx, caller.account);
    const standing = await findById(tx, caller.account, number, true);
    if (standing === null) return unknownEndpoint();
    if (url !== null && (await isTaken(tx, standing, url)))
      return refuseField("url", "is registered already as another endpoint");
    const changed = await updateEndpoint(tx, {
      id: number,
      url: url ?? standing.url,
      description: has("description") ? textOrNull(wanted.description) : standing.description,
      subscribed_events: events ?? standing.subscribed_events,
      is_active: has("is_active") ? (wanted.is_active ?? standing.is_active) : standing.is_active,
      standard_headers: has("standard_headers")
        ? (wanted.standard_headers ?? standing.standard_headers)
        : standing.standard_headers,
    });
    return changed ?? unknownEndpoint();
  });
}

async function isTaken(tx: Tx, standing: Endpoint, url: string): Promise<boolean> {
  const other = await findByUrl(tx, standing.account, url);
  return other !== null && other.id !== standing.id;
}

/** The number in a path, or null for what can't be one: such an endpoint does not exist. */
export function endpointNumber(text: string): bigint | null {
  return /^[1-9][0-9]{0,17}$/.test(text) ? BigInt(text) : null;
}

export function unknownEndpoint(): Refusal {
  return refuse("not_found", "no such webhook endpoint");
}

/** An empty text clears. */
function textOrNull(text: string | undefined): string | null {
  return text === undefined || text === "" ? null : text;
}

/** The same payload names the same URL, by which an endpoint is found that stood there before the key was used. */
async function replay(db: Queryable, caller: Caller, operation_id: string, url: string): Promise<Registered | Refusal> {
  const own = await findByOperation(db, caller.account, operation_id);
  // The gateway repeats a call whose answer was lost, under the same operation: for the merchant it is the first.
  if (own !== null) return { endpoint: own, outcome: operation_id === caller.operation ? "created" : "replayed" };
  const standing = await findByUrl(db, caller.account, url);
  if (standing !== null) return { endpoint: standing, outcome: "existing" };
  return refuse("not_found", "the endpoint that this Idempotency-Key registered was deleted");
}

function claimRequest(rooms: Rooms, caller: Caller, message: object): ClaimRequest {
  const { account, mode, idempotency_key, operation } = caller;
  return {
    operation_id: operation ?? newId("whk", rooms.now()),
    account,
    mode,
    route: ROUTE,
    kind: "webhook_endpoint",
    key: idempotency_key,
    client_ref: null,
    fingerprint: fingerprint(rooms.fingerprint_key, ROUTE, message),
    lease_ms: LEASE_MS,
    takeover: operation !== null,
  };
}
