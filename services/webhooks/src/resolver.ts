// Names to addresses, for webhooks: asked of the DNS itself, so that one merchant's slow name server does not occupy the
// few threads in which the system's look-up would make all others wait. Answers are kept as long as they say, a minute at
// most; whoever dials checks each of them anew.

import type { LookupAddress } from "node:dns";
import { Resolver } from "node:dns/promises";

/** One question, and the whole look-up twice that: well below an attempt's time-out. */
const QUESTION_MS = 2_000;
const TRIES = 2;
/** An answer without a time to live, or one of hours: a merchant that moves expects the next notice at the new address. */
const MIN_KEPT_MS = 1_000;
const MAX_KEPT_MS = 60_000;
/** What did not resolve is not asked for again by the attempts of the same moment. */
const FAILURE_KEPT_MS = 1_000;
/** Names that are kept; the oldest goes first. */
const MAX_NAMES = 10_000;

export type Resolve = (hostname: string) => Promise<readonly LookupAddress[]>;

type Known = { readonly addresses: Promise<readonly LookupAddress[]>; until: number };

/** `servers` are those of the system unless given: `127.0.0.1:5353`. */
export function openResolver(options: { readonly servers?: readonly string[] } = {}): Resolve {
  const resolver = new Resolver({ timeout: QUESTION_MS, tries: TRIES });
  if (options.servers !== undefined) resolver.setServers(options.servers);
  const known = new Map<string, Known>();
  return (hostname) => {
    const name = hostname.toLowerCase().replace(/\.$/, "");
    if (name === "localhost" || name.endsWith(".localhost")) return Promise.resolve(LOOPBACK);
    const kept = known.get(name);
    if (kept !== undefined && kept.until > performance.now()) return kept.addresses;
    const asked = ask(resolver, name);
    const entry: Known = { addresses: asked.then(({ addresses }) => addresses), until: Number.POSITIVE_INFINITY };
    known.delete(name);
    known.set(name, entry);
    const [oldest] = known.keys();
    if (known.size > MAX_NAMES && oldest !== undefined) known.delete(oldest);
    asked.then(
      ({ kept_ms }) => {
        entry.until = performance.now() + kept_ms;
      },
      () => {
        entry.until = performance.now() + FAILURE_KEPT_MS;
      },
    );
    return entry.addresses;
  };
}

/** By RFC 6761 these names are the machine itself, whatever a server says. */
const LOOPBACK: readonly LookupAddress[] = [
  { address: "127.0.0.1", family: 4 },
  { address: "::1", family: 6 },
];

/** Both families at once; a name with one of them is a name. */
async function ask(resolver: Resolver, name: string) {
  const [v4, v6] = await Promise.allSettled([
    resolver.resolve4(name, { ttl: true }),
    resolver.resolve6(name, { ttl: true }),
  ]);
  const records = [
    ...(v4.status === "fulfilled" ? v4.value.map((record) => ({ ...record, family: 4 })) : []),
    ...(v6.status === "fulfilled" ? v6.value.map((record) => ({ ...record, family: 6 })) : []),
  ];
  if (records.length === 0) throw v4.status === "rejected" ? v4.reason : new Error("no address");
  const ttl_ms = Math.min(...records.map(({ ttl }) => ttl)) * 1000;
  return {
    addresses: records.map(({ address, family }) => ({ address, family })),
    kept_ms: Math.min(Math.max(ttl_ms, MIN_KEPT_MS), MAX_KEPT_MS),
  };
}
