// What handlers and loops of this room have at hand; wired once, in main.

import type { Clock } from "@cauri/money/clock";
import type { Cipher } from "@cauri/store/cipher";
import type { Log, Pool } from "@cauri/store/pool";
import type { Registry } from "./connector.ts";
import type { Metrics } from "./metrics.ts";
import type { Health } from "./routing.ts";

export type House = {
  readonly pool: Pool;
  readonly cipher: Cipher;
  readonly registry: Registry;
  readonly health: Health;
  readonly metrics: Metrics;
  /** Real time, for deadlines and the stamps of signatures; business time is the database's `now_of`. */
  readonly clock: Clock;
  readonly log: Log;
  /** Lets the poller look at once instead of at its next turn. */
  readonly wakePoller: () => void;
};
