// What the handlers and the sweeper of this room have at hand; wired once, in main.

import type { Clock } from "@cauri/money/clock";
import type { Refusal } from "@cauri/money/refusal";
import type { RailsServiceService } from "@cauri/proto/ts/cauri/rails/v1/rails";
import type { DrainRequest, DrainResponse } from "@cauri/proto/ts/cauri/shared/v1/shared";
import type { Promisified } from "@cauri/rpc/client";
import type { Log, Pool } from "@cauri/store/pool";
import type { Ledger } from "./ledger.ts";
import type { LiveRails } from "./terms.ts";

export type House = {
  readonly pool: Pool;
  readonly ledger: Ledger;
  /** Keeps the raw details of settlement accounts. */
  readonly rails: Pick<Promisified<RailsServiceService>, "keepDestination">;
  /** CAURI_KEY_PEPPER. */
  readonly pepper: string;
  readonly live: LiveRails;
  /** The machine's clock, for the time inside new ids alone. */
  readonly clock: Clock;
  readonly log: Log;
  /** Waits until the events of one account have left; see `Drain`. */
  readonly drain: (request: DrainRequest, deadline_ms: number) => Promise<DrainResponse | Refusal>;
  /** Lets the sweeper look at once instead of at its next turn. */
  readonly wakeSweeper: () => void;
};
