// Keeps a room's `clocks` table true: each advance of an account's test clock arrives here.

import { ClockAdvanced } from "@cauri/proto/ts/cauri/events/v1/events";
import type { Log } from "@cauri/rpc/log";
import { setOffset } from "@cauri/store/clock";
import { type Pool, transact } from "@cauri/store/pool";
import { type Consumer, consume } from "./consume.ts";
import type { Events } from "./events.ts";

export function followClocks({ events, pool, log }: { events: Events; pool: Pool; log: Log }): Consumer {
  return consume({
    events,
    durable: `${events.room}-clocks`,
    subjects: ["cauri.accounts.clock.advanced"],
    log,
    // An offset only grows, so the same news again, or older news, changes nothing and needs no inbox.
    handle: (batch) =>
      transact(pool, async (tx) => {
        for (const { payload } of batch) {
          const { account, offsetMs } = ClockAdvanced.decode(payload);
          await setOffset(tx, account, offsetMs);
        }
      }),
  });
}
