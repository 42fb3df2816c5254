// Who presents a key: HMAC under the house's pepper, looked up in a small cache, else asked of accounts. A change is
// heard of at once; should the news not come through, nothing here is older than 5 s.

import { hash } from "node:crypto";
import { create } from "@bufbuild/protobuf";
import { hmacOfSecret, isSecret } from "@cauri/money/api-key";
import type { Mode } from "@cauri/money/mode";
import {
  AccountStatus,
  KeyService,
  type ResolvedKey,
  ResolveKeyRequestSchema,
} from "@cauri/proto/es/cauri/accounts/v1/accounts_pb";
import { repeated } from "./invoke.ts";
import type { Upstreams } from "./upstream.ts";

/** The longest that a revocation or suspension stays unnoticed while the news does not arrive. */
const KEEP_MS = 5_000;
/** Asking accounts is a read inside the house: beyond this, 503 is the better answer. */
const RESOLVE_TIMEOUT_MS = 3_000;
/** Known keys and unknown ones are bounded apart: a flood of wrong keys must not push out the right ones. */
const MAX_KNOWN = 50_000;
const MAX_UNKNOWN = 10_000;

export type KeyHolder = {
  readonly key_id: string;
  readonly account: string;
  readonly mode: Mode;
  readonly scopes: readonly string[];
  readonly approved: boolean;
  readonly is_live: boolean;
  readonly products: readonly string[];
  readonly options: readonly string[];
};

export type Keys = {
  /** Null for a key that is unknown, revoked or past its end, or whose account is closed. */
  find(secret: string, request_id: string): Promise<KeyHolder | null>;
  /** A key or an account has changed: everything is asked anew. */
  forget(): void;
};

type Kept = { readonly holder: KeyHolder | null; readonly until_ms: number };

export function createKeys(options: {
  readonly pepper: string;
  readonly resolve: (hmac: Uint8Array, request_id: string) => Promise<ResolvedKey>;
  readonly now?: () => number;
}): Keys {
  const { pepper, resolve, now = Date.now } = options;
  const known = new Map<string, Kept>();
  const unknown = new Map<string, Kept>();
  const asked = new Map<string, Promise<KeyHolder | null>>();
  let generation = 0;

  async function ask(name: string, secret: string, request_id: string): Promise<KeyHolder | null> {
    const asked_in = generation;
    const holder = holderOf(await resolve(hmacOfSecret(secret, pepper), request_id));
    // An answer from before a change may not outlive it.
    if (asked_in === generation) keep(holder === null ? unknown : known, name, holder);
    return holder?.holder ?? null;
  }

  function keep(cache: Map<string, Kept>, name: string, found: { holder: KeyHolder; ends_ms: number } | null): void {
    const oldest = cache.keys().next();
    if (cache.size >= (found === null ? MAX_UNKNOWN : MAX_KNOWN) && !oldest.done) cache.delete(oldest.value);
    const until_ms = Math.min(now() + KEEP_MS, found?.ends_ms ?? Number.POSITIVE_INFINITY);
    cache.set(name, { holder: found?.holder ?? null, until_ms });
  }

  return {
    async find(secret, request_id) {
      if (!isSecret(secret)) return null;
      // A digest, not the secret, is what is kept and looked up: how long that takes tells nothing about any key. It never
      // leaves this process, so it does without the pepper; a guess at 256 random bits is hopeless either way.
      const name = hash("sha256", secret, "base64");
      for (const cache of [known, unknown]) {
        const kept = cache.get(name);
        if (kept === undefined) continue;
        if (kept.until_ms > now()) return kept.holder;
        cache.delete(name);
      }
      const running = asked.get(name);
      if (running !== undefined) return running;
      const question = ask(name, secret, request_id).finally(() => asked.delete(name));
      asked.set(name, question);
      return question;
    },
    forget() {
      generation += 1;
      known.clear();
      unknown.clear();
      asked.clear();
    },
  };
}

/** Asks accounts. */
export function resolveBy(upstreams: Upstreams): (hmac: Uint8Array, request_id: string) => Promise<ResolvedKey> {
  return async (hmac, request_id) => {
    const request = create(ResolveKeyRequestSchema, { hmac });
    const call = { caller: { request_id }, timeout_ms: RESOLVE_TIMEOUT_MS };
    const once = () => upstreams.call(KeyService.method.resolveKey, request, call);
    return (await repeated(once, Date.now() + RESOLVE_TIMEOUT_MS)).message;
  };
}

function holderOf(key: ResolvedKey): { holder: KeyHolder; ends_ms: number } | null {
  if (!key.known || key.accountStatus === AccountStatus.CLOSED) return null;
  return {
    holder: {
      key_id: key.keyId,
      account: key.accountId,
      mode: key.mode === "live" ? "live" : "test",
      scopes: key.scopes,
      approved: key.accountStatus === AccountStatus.APPROVED,
      is_live: key.isLive,
      products: key.products,
      options: key.options,
    },
    ends_ms: key.expiresAt === undefined ? Number.POSITIVE_INFINITY : Number(key.expiresAt.seconds) * 1000,
  };
}
