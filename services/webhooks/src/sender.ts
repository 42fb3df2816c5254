// The pump: claims what is due and has it sent. One runs in every replica; what one of them holds when it dies is claimed
// by another when the lease has run out.

import { setImmediate as nextTurn, setTimeout as sleep } from "node:timers/promises";
import { transact } from "@cauri/store/pool";
import type { Arrived } from "./arrival-store.ts";
import {
  type Bounds,
  type Claimed,
  type ClaimOptions,
  claimDue,
  giveBack,
  isQuiet,
  returnLost,
  waitingEndpoints,
} from "./delivery-store.ts";
import { endpointIds } from "./endpoint-store.ts";
import { openHints } from "./hints.ts";
import { endOf, LEASE_MARGIN_MS, openRunner, type RunnerOptions } from "./runner.ts";

/** A claim is made when so much of the room is free: half of its price is for the endpoints, however few it takes. */
const CLAIM_SHARE = 0.5;
/** A drain looks so often whether another replica's attempts have ended; a dead one's end with their leases. */
const OTHERS_MS = 50;

export type SenderOptions = RunnerOptions & {
  readonly per_endpoint: number;
  readonly per_account: number;
  readonly timeout_ms: number;
  /** How long a stop waits for what is under way. */
  readonly grace_ms: number;
  /** Wakes the loop that calls `pump`: there is something to claim. */
  readonly wake: () => void;
};

export type Sender = {
  /** Something may be due: at these endpoints, or at any that is not known here. */
  hint(endpoints?: readonly bigint[]): void;
  /** What the writer of new deliveries may take for this process at once; null while there is no room for more. */
  offer(): Bounds | null;
  /** Starts what was taken so, and knows of what waits. */
  arrived(news: Arrived): Promise<void>;
  /** Claims and starts what there is room for; answers how many were started. */
  pump(): Promise<number>;
  /** Sends everything due of one account's test mode until nothing is; answers how many attempts ended. */
  drain(account: string): Promise<number>;
  /** Takes no more, waits a while for what is under way, and gives back the rest unspent. */
  stop(): Promise<void>;
  inFlight(): number;
};

export function openSender(options: SenderOptions): Sender {
  const { pool, per_endpoint, per_account, timeout_ms } = options;
  const lease_ms = timeout_ms + LEASE_MARGIN_MS;
  const now = () => new Date(options.now());
  const hints = openHints(() => returnLost(pool).then(() => waitingEndpoints(pool, now())));
  const runner = openRunner(options, ({ endpoint_id }, unsent) => {
    if (unsent) hints.add([endpoint_id]);
    if (hints.ended(endpoint_id)) options.wake();
  });
  let stopped = false;

  /** Claims are made one after another: a drain must see what the pump has just taken as under way. */
  let claiming: Promise<unknown> = Promise.resolve();
  function claimAndStart(choose: () => Promise<Choice>): Promise<number> {
    const mine = claiming.then(async () => {
      const chosen = await choose();
      if (chosen.limit <= 0 || chosen.endpoints.length === 0 || stopped) return 0;
      const more = { per_endpoint, per_account, lease_ms, now: now() };
      const { claimed, waiting } = await transact(pool, (tx) => claimDue(tx, { ...chosen, ...more }));
      if (stopped) await giveBack(pool, claimed);
      else for (const each of claimed) runner.start([each]);
      hints.claimed(chosen.endpoints, waiting);
      // The limit cut some endpoint short, and nobody knows which.
      if (claimed.length === chosen.limit) hints.add(waiting);
      return claimed.length;
    });
    claiming = mine.catch(() => {});
    return mine;
  }

  return {
    hint(endpoints) {
      if (endpoints === undefined) hints.lookSoon();
      else hints.add(endpoints);
      options.wake();
    },
    offer() {
      const has_room = !stopped && runner.room() >= options.parallel * CLAIM_SHARE;
      return has_room ? { per_endpoint, per_account, lease_ms, timeout_ms, now: now() } : null;
    },
    async arrived({ claimed, queued }) {
      if (stopped && claimed.length > 0) await giveBack(pool, claimed);
      else for (const chain of chains(claimed)) runner.start(chain);
      if (queued.length === 0) return;
      hints.add(queued);
      options.wake();
    },
    async pump() {
      // All results of one batch give their hints before the next claim is made.
      await nextTurn();
      return claimAndStart(async () => {
        await hints.look();
        const limit = runner.room();
        return { endpoints: limit >= options.parallel * CLAIM_SHARE ? hints.take() : [], limit };
      });
    },
    async drain(account) {
      for (let done = 0; ; ) {
        await returnLost(pool);
        const endpoints = await endpointIds(pool, account);
        if (stopped || (await isQuiet(pool, endpoints, now()))) return done;
        await claimAndStart(async () => ({ endpoints, limit: options.parallel, patient: true }));
        // The pump may have been faster: what it has under way for this account belongs to the drain as well.
        const runs = [...runner.running].filter(
          ({ claimed }) => claimed.account === account && claimed.mode === "test",
        );
        done += runs.length;
        if (runs.length > 0) await endOf(runs);
        // What another replica sends, or held when it died, may fill an endpoint's cap, so that nothing could be claimed.
        else await sleep(OTHERS_MS);
      }
    },
    async stop() {
      stopped = true;
      await claiming;
      await Promise.race([endOf(runner.running), sleep(options.grace_ms)]);
      await runner.abandon();
    },
    inFlight: () => runner.running.size,
  };
}

/** What came together of one operation for one endpoint, in the order given: it is sent one after another. */
function chains(claimed: readonly Claimed[]): Iterable<readonly Claimed[]> {
  const found = new Map<string, Claimed[]>();
  for (const each of claimed) {
    const key = `${each.endpoint_id} ${each.about}`;
    const chain = found.get(key);
    if (chain === undefined) found.set(key, [each]);
    else chain.push(each);
  }
  return found.values();
}

type Choice = Pick<ClaimOptions, "endpoints" | "limit" | "patient">;
