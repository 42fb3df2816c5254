// The outbound guard: which addresses a webhook may be sent to. Pure; `dialer.ts` asks it for the address that is really
// dialled. Only public unicast addresses pass; a network of CAURI_WEBHOOK_ALLOW passes too (empty in production).

import ipaddr from "ipaddr.js";

export type Network = readonly [ipaddr.IPv4 | ipaddr.IPv6, number];

/**
 * Addresses that carry an IPv4 address inside, by which a private one could be reached through a translator or a relay:
 * IPv4-mapped, -compatible, NAT64 (well-known and local-use, RFC 6052 and 8215), 6to4 and Teredo.
 */
const EMBEDDING: readonly Network[] = [
  "::/96",
  "::ffff:0:0/96",
  "::ffff:0:0:0/96",
  "64:ff9b::/96",
  "64:ff9b:1::/48",
  "2002::/16",
  "2001::/32",
].map((text) => ipaddr.parseCIDR(text));

/** Public by their range, but nobody's endpoint: 6to4 relays, deprecated site-local, segment routing, discard, docs. */
const FORBIDDEN: readonly Network[] = [
  "192.88.99.0/24",
  "192.0.0.0/24",
  "198.18.0.0/15",
  "fec0::/10",
  "5f00::/16",
  "100::/64",
  "2001::/23",
  "2001:db8::/32",
  "3fff::/20",
  // The metadata and wire server of a large cloud, on an address that looks public.
  "168.63.129.16/32",
].map((text) => ipaddr.parseCIDR(text));

/** All of IPv6 that is given out to anybody; what lies outside is not the public Internet, whatever it is one day. */
const GLOBAL: Network = ipaddr.parseCIDR("2000::/3");

/** Reads `127.0.0.0/8,::1`: networks, or single addresses. */
export function parseNetworks(text: string): readonly Network[] {
  return text
    .split(",")
    .map((entry) => entry.trim())
    .filter((entry) => entry !== "")
    .map((entry) => {
      if (entry.includes("/")) return ipaddr.parseCIDR(entry);
      const address = ipaddr.parse(entry);
      return [address, address.kind() === "ipv4" ? 32 : 128] as const;
    });
}

/** Why this address may not be dialled, in a few words; null when it may. */
export function whyForbidden(address: string, allowed: readonly Network[]): string | null {
  if (!ipaddr.isValid(address)) return "not an IP address";
  const parsed = ipaddr.parse(address);
  if (allowed.some((network) => within(parsed, network))) return null;
  if (parsed.kind() === "ipv6" && EMBEDDING.some((network) => within(parsed, network)))
    return "an embedded IPv4 address";
  if (FORBIDDEN.some((network) => within(parsed, network))) return "a reserved address";
  if (parsed.kind() === "ipv6" && !within(parsed, GLOBAL)) return "not a global address";
  const range = parsed.range();
  return range === "unicast" ? null : `a ${range} address`;
}

/** An IP literal as a URL's host holds it, without the brackets of IPv6; null for a name. */
export function literalOf(hostname: string): string | null {
  const bare = hostname.startsWith("[") ? hostname.slice(1, -1) : hostname;
  return ipaddr.isValid(bare) ? bare : null;
}

function within(address: ipaddr.IPv4 | ipaddr.IPv6, [network, bits]: Network): boolean {
  return address.kind() === network.kind() && address.match(network, bits);
}
