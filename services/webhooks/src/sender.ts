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
import { endOf, LEASE_MARGIN_MS, openRunner, type Run, type RunnerOptions } from "./runner.ts";

/** A claim is made when so much of the room is free: half of its price is for the endpoints, however few it takes. */
const CLAIM_SHARE = 0.5;
/** A drain looks so often whether another replica's attempts have ended; a dead one's end with their leases. */
const OTHERS_MS = 50;
/**
 * Results hand their places on while so much of the room is free. A busier process gathers places for a claim: for each
 * endpoint that takes more than a result or two leave, and is shared out among all.
 */
const REFILL_SHARE = 0.75;

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
  /** How many attempts have ended here, ever. */
  ended(): number;
};

export function openSender(options: SenderOptions): Sender {
  const { pool, per_endpoint, per_account, timeout_ms } = options;
  const caps = { per_endpoint, per_account, lease_ms: timeout_ms + LEASE_MARGIN_MS };
  const now = () => new Date(options.now());
  const hints = openHints(() => returnLost(pool).then(() => waitingEndpoints(pool, now())));
  const runner = openRunner(options, {
    heard(claimed, outcome) {
      if (outcome === "unsent") hints.add([claimed.endpoint_id]);
      else for (const drain of drains) if (isOf(drain, claimed)) drain.done += 1;
      if (outcome !== "refilled" && hints.ended(claimed.endpoint_id)) options.wake();
    },
    offer(arrived) {
      if (!hasRoom(REFILL_SHARE)) return null;
      const endpoints = hints.waitingAt(arrived.map(({ claimed }) => claimed.endpoint_id));
      return endpoints.length === 0 ? null : { endpoints, ...caps };
    },
    took: (claimed) => startAll(claimed.map((each) => [each])),
  });
  /** Those under way here: attempts that end meanwhile are theirs, whoever took them. */
  const drains = new Set<Drain>();
  let stopped = false;
  const hasRoom = (share = CLAIM_SHARE) => !stopped && runner.room() >= options.parallel * share;

  function hint(endpoints?: readonly bigint[]): void {
    if (endpoints === undefined) hints.lookSoon();
    else hints.add(endpoints);
    options.wake();
  }

  async function startAll(all: readonly (readonly Claimed[])[]): Promise<void> {
    if (stopped && all.length > 0) await giveBack(pool, all.flat());
    else for (const chain of all) runner.start(chain);
  }

  /** Claims are made one after another: a drain must see what the pump has just taken as under way. */
  let claiming: Promise<unknown> = Promise.resolve();
  function claimAndStart(choose: () => Promise<Choice>): Promise<number> {
    const mine = claiming.then(async () => {
      const chosen = await choose();
      if (chosen.limit <= 0 || chosen.endpoints.length === 0 || stopped) return 0;
      const { claimed, waiting } = await transact(pool, (tx) => claimDue(tx, { ...chosen, ...caps, now: now() }));
      await startAll(claimed.map((each) => [each]));
      hints.claimed(chosen.endpoints, waiting);
      // The limit cut some endpoint short, and nobody knows which.
      if (claimed.length === chosen.limit) hints.add(waiting);
      return claimed.length;
    });
    claiming = mine.catch(() => {});
    return mine;
  }

  return {
    hint,
    offer: () => (hasRoom() ? { ...caps, timeout_ms, now: now() } : null),
    async arrived({ claimed, queued, held }) {
      await startAll(chains(claimed));
      hints.note(held);
      // The end of an attempt of this process brings the next claim there by itself; one now would find nothing.
      const claimable = [...queued, ...held.filter((id) => !runner.isBusyAt(id))];
      if (claimable.length > 0) hint(claimable);
    },
    async pump() {
      // All results of one batch give their hints before the next claim is made.
      await nextTurn();
      return claimAndStart(async () => {
        await hints.look();
        return { endpoints: hasRoom() ? hints.take() : [], limit: runner.room() };
      });
    },
    drain(account) {
      const mine = { account, done: 0 };
      drains.add(mine);
      const of = { ...options, running: runner.running, isStopped: () => stopped, claimAndStart };
      return untilQuiet(mine, of).finally(() => drains.delete(mine));
    },
    async stop() {
      stopped = true;
      await claiming;
      await Promise.race([endOf(runner.running), sleep(options.grace_ms)]);
      await runner.abandon();
    },
    inFlight: () => runner.running.size,
    ended: runner.ended,
  };
}

/** What came together of one operation for one endpoint, in the order given: it is sent one after another. */
function chains(claimed: readonly Claimed[]): readonly (readonly Claimed[])[] {
  const found = new Map<string, Claimed[]>();
  for (const each of claimed) {
    const key = `${each.endpoint_id} ${each.about}`;
    const chain = found.get(key);
    if (chain === undefined) found.set(key, [each]);
    else chain.push(each);
  }
  return [...found.values()];
}

type Drain = { readonly account: string; done: number };

function isOf({ account }: Drain, claimed: Claimed): boolean {
  return claimed.account === account && claimed.mode === "test";
}

/** Claims and waits, until nothing of the drain is due or under way, here or at another replica; answers what has ended. */
async function untilQuiet(
  drain: Drain,
  of: Pick<SenderOptions, "pool" | "now" | "parallel"> & {
    readonly running: ReadonlySet<Run>;
    readonly isStopped: () => boolean;
    readonly claimAndStart: (choose: () => Promise<Choice>) => Promise<unknown>;
  },
): Promise<number> {
  while (!of.isStopped()) {
    await returnLost(of.pool);
    const endpoints = await endpointIds(of.pool, drain.account);
    const quiet = await isQuiet(of.pool, endpoints, new Date(of.now()));
    if (!quiet) await of.claimAndStart(async () => ({ endpoints, limit: of.parallel, patient: true }));
    // The pump may have been faster: what it has under way for this account belongs to the drain as well.
    const runs = [...of.running].filter(({ claimed }) => isOf(drain, claimed));
    if (runs.length > 0) await endOf(runs);
    else if (quiet) break;
    // What another replica sends, or held when it died, may fill an endpoint's cap, so that nothing could be claimed.
    else await sleep(OTHERS_MS);
  }
  return drain.done;
}

type Choice = Pick<ClaimOptions, "endpoints" | "limit" | "patient">;
