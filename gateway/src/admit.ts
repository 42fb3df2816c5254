// Who comes in, in the contract's order of checks. `authenticate` asks for the key and counts the request; `authorize`
// decides on the route. Every door calls both; each has its own way of telling the refusal.

import { createHash, timingSafeEqual } from "node:crypto";
import { isIPv6 } from "node:net";
import type { KeyHolder, Keys } from "./keys.ts";
import type { Limiter, Verdict } from "./rate-limit.ts";
import { type EdgeRefusal, edgeRefusal } from "./reasons.ts";
import type { Route } from "./routes.ts";

export type Credentials = {
  readonly authorization: string | undefined;
  readonly api_key: string | undefined;
  /** Address of the client, as far as trusted proxies tell it. */
  readonly address: string;
  readonly request_id: string;
};

export type Authentication = {
  readonly holder: KeyHolder | null;
  readonly refusal: EdgeRefusal | null;
  /** What the RateLimit headers say; null where no key was known. */
  readonly verdict: Verdict | null;
};

const UNKNOWN_KEY = "the API key is unknown, revoked or of a closed account";

export type Authenticate = (credentials: Credentials) => Promise<Authentication>;

export function createAuthenticate(options: {
  readonly keys: Keys;
  readonly limiter: Limiter;
  /** The limit of requests with unknown keys, by client address. */
  readonly unknown: (address: string) => Verdict;
}): Authenticate {
  const { keys, limiter, unknown } = options;
  return async ({ authorization, api_key, address, request_id }) => {
    const secret = secretOf({ authorization, api_key });
    if (secret === undefined) {
      return refused("missing_api_key", "send the API key as Authorization: Bearer or as X-API-Key");
    }
    const holder = await keys.find(secret, request_id);
    if (holder === null) {
      const verdict = unknown(networkOf(address));
      if (!verdict.admitted) return refusedRate(null, verdict, "too many requests with unknown API keys");
      return refused("invalid_api_key", UNKNOWN_KEY);
    }
    const verdict = await limiter.check(holder.key_id);
    if (!verdict.admitted) {
      const { limit, window_ms } = limiter.rule;
      return refusedRate(holder, verdict, `more than ${limit} requests in ${window_ms / 1000} seconds`);
    }
    return { holder, refusal: null, verdict };
  };
}

/** Whether credentials that were admitted once still would be; nothing is counted. Null: they would. */
export type Recheck = (credentials: Credentials, route: Route) => Promise<EdgeRefusal | null>;

export function createRecheck(keys: Keys): Recheck {
  return async (credentials, route) => {
    const holder = await keys.find(secretOf(credentials) ?? "", credentials.request_id);
    return holder === null ? edgeRefusal("invalid_api_key", UNKNOWN_KEY) : authorize(holder, route);
  };
}

/** With both headers `Authorization` wins. */
function secretOf({ authorization, api_key }: Pick<Credentials, "authorization" | "api_key">): string | undefined {
  return bearerOf(authorization) ?? (api_key?.trim() || undefined);
}

/**
 * The checks behind path and method: account, product, mode, scope and option, live activation. What is no RPC (the
 * interface description) has no route and asks for an active account alone.
 */
export function authorize(holder: KeyHolder, route: Route | undefined): EdgeRefusal | null {
  if (!holder.approved) {
    return edgeRefusal("client_inactive", "the account is not approved yet, or suspended");
  }
  if (route === undefined) return null;
  if (route.product && !holder.products.includes(route.product)) {
    return edgeRefusal("product_not_enabled", `the product ${route.product} is not enabled on the account`);
  }
  if (route.refuses_test && holder.mode === "test") {
    return edgeRefusal("test_mode_unsupported", "this route does not serve test keys");
  }
  if (route.scopes.length > 0 && !route.scopes.some((scope) => holder.scopes.includes(scope))) {
    return edgeRefusal("insufficient_scope", `the key needs the scope ${route.scopes.join(" or ")}`);
  }
  if (route.option && !holder.options.includes(route.option)) {
    return edgeRefusal("insufficient_scope", `the option ${route.option} is not on for the account`);
  }
  if (route.needs_live && holder.mode === "live" && !holder.is_live) {
    return edgeRefusal("not_live", "the account is not open to live mode yet");
  }
  return null;
}

/** Whether a presented token is the expected one; how long the comparison takes tells nothing about either. */
export function sameToken(presented: string, expected: string): boolean {
  return timingSafeEqual(digest(presented), digest(expected));
}

/** The token of `Authorization: Bearer`; another scheme counts as no header at all. */
export function bearerOf(authorization: string | undefined): string | undefined {
  const found = /^bearer +(\S.*)$/i.exec(authorization?.trim() ?? "");
  return found?.[1];
}

/** A client with IPv6 has a whole /64 of addresses: they are one client. */
export function networkOf(address: string): string {
  if (!isIPv6(address) || address.includes(".")) return address;
  // URL writes an address in its one canonical form, zeros left out; the first four groups are the /64.
  const [head = "", tail] = new URL(`http://[${address.split("%")[0]}]`).hostname.slice(1, -1).split("::");
  const groups = head.split(":");
  const behind = tail === undefined || tail === "" ? [] : tail.split(":");
  const zeros = tail === undefined ? [] : Array(8 - groups.length - behind.length).fill("0");
  return `${[...groups, ...zeros, ...behind].slice(0, 4).join(":")}::/64`;
}

function refused(reason: "missing_api_key" | "invalid_api_key", message: string): Authentication {
  return { holder: null, refusal: edgeRefusal(reason, message), verdict: null };
}

function refusedRate(holder: KeyHolder | null, verdict: Verdict, message: string): Authentication {
  const refusal = edgeRefusal("rate_limited", message, { retry_after_s: verdict.reset_s });
  return { holder, refusal, verdict: holder === null ? null : verdict };
}

function digest(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}
