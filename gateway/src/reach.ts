// Which rooms a gateway reaches, as its readiness tells it.

import type { Running } from "@cauri/rpc/process";
import type { Upstreams } from "./upstream.ts";

/** How long a room is waited for that was never reached; and one that was: a prober gives up after a second. */
const FIRST_MS = 1_000;
const AGAIN_MS = 200;

/**
 * A gateway is ready when it has reached every room, and stays so when one goes, which it tells: all gateways would leave
 * with it, and nothing would be served where only what needs that room is to be answered 503.
 */
export function watchReach(
  { rooms, probe }: Pick<Upstreams, "rooms" | "probe">,
  { atReady, atNotice }: Pick<Running<"gateway">, "atReady" | "atNotice">,
): void {
  /** The rooms that were reached once, and what was said of them last. */
  const reached = new Map<string, string | null>();
  for (const room of rooms) {
    atReady(room, async () => {
      const said = await probe(room, reached.has(room) ? AGAIN_MS : FIRST_MS);
      if (said === null || reached.has(room)) reached.set(room, said);
      return reached.has(room) ? null : said;
    });
  }
  atNotice(() => [...reached].flatMap(([room, said]) => (said === null ? [] : [`${room}: ${said}`])));
}
