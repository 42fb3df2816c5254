// How the simulated operator calls back: a signed POST to the gateway, as an operator would over the internet. What is
// not answered with 2xx is repeated a few times; then the operator gives up, and only asking finds the outcome.

import type { Clock } from "@cauri/money/clock";
import type { Log, Pool } from "@cauri/store/pool";
import { Agent } from "undici";
import type { Metrics } from "../metrics.ts";
import { writeMessage } from "./message.ts";
import { SIGNATURE_HEADER, signCallback } from "./signature.ts";
import { awaitReturns, delayLetters, endLetters, type Letter, takeLetters } from "./store.ts";

/** Below the 5 s of a call to a rail: row 11 sends its callback within such a call. */
const TIMEOUT_MS = 3_000;
/** Letters of one turn. */
export const LETTERS_AT_ONCE = 100;
/** Keep-alive connections to the gateway; a callback takes a few milliseconds. */
const CONNECTIONS = 32;
/** Seconds before the next try; after the last one the operator gives up. */
const RETRIES_S = [1, 2, 5, 10, 30] as const;

export type DeliveryOptions = {
  readonly pool: Pool;
  /** The gateway as the operator reaches it. */
  readonly callback_url: string;
  readonly secret: string;
  readonly clock: Clock;
  readonly metrics: Pick<Metrics, "simulated">;
  readonly log: Log;
};

export type Deliveries = {
  /** One turn: what is due is told; how many that were. */
  readonly deliverDue: (account: string | null) => Promise<number>;
  /** Tells, once, what its writer has taken. */
  readonly deliverNow: (letter: Letter) => Promise<void>;
  readonly close: () => Promise<void>;
};

export function openDeliveries(options: DeliveryOptions): Deliveries {
  const agent = new Agent({
    connections: CONNECTIONS,
    connect: { timeout: TIMEOUT_MS },
    headersTimeout: TIMEOUT_MS,
    bodyTimeout: TIMEOUT_MS,
  });
  const url = new URL("/callbacks/simulator", options.callback_url);
  const post = async (letter: Letter, end: AbortSignal): Promise<boolean> => {
    const body = writeMessage(letter);
    for (let copy = 0; copy < letter.copies; copy += 1) {
      const signature = signCallback(options.secret, body, options.clock());
      if (!(await postOnce(agent, url, { body, signature, end }))) return false;
    }
    return true;
  };
  const deliver = async (letters: readonly Letter[]) => {
    // One end for all of them, also for one that still waits for a connection.
    const end = new AbortController();
    const timer = setTimeout(() => end.abort(), TIMEOUT_MS);
    const arrived = await Promise.all(letters.map((letter) => post(letter, end.signal)));
    clearTimeout(timer);
    const done = letters.filter(({ tries }, at) => arrived[at] === true || tries > RETRIES_S.length);
    const again = letters.filter((letter) => !done.includes(letter));
    await Promise.all([
      endLetters(
        options.pool,
        done.filter(({ comes_back }) => !comes_back),
      ),
      awaitReturns(
        options.pool,
        done.filter(({ comes_back }) => comes_back),
      ),
      delayLetters(
        options.pool,
        again.map((letter) => ({ letter, in_s: RETRIES_S[letter.tries - 1] ?? 30 })),
      ),
    ]);
    for (const [at, letter] of letters.entries()) {
      if (arrived[at] === true) options.metrics.simulated("delivered");
      else options.metrics.simulated(done.includes(letter) ? "given_up" : "failed");
    }
    const given_up = done.length - arrived.filter((ok) => ok).length;
    if (given_up > 0)
      options.log.warn({ given_up }, "the simulator gave callbacks up: their outcome is found by asking");
  };
  return {
    async deliverDue(account) {
      const letters = await takeLetters(options.pool, account, LETTERS_AT_ONCE);
      await deliver(letters);
      return letters.length;
    },
    deliverNow: (letter) => deliver([letter]),
    close: () => agent.close(),
  };
}

/** One POST; anything but a 2xx, and no answer at all, is a failure: a gateway that restarts is nothing to report. */
function postOnce(
  agent: Agent,
  url: URL,
  { body, signature, end }: { readonly body: Buffer; readonly signature: string; readonly end: AbortSignal },
): Promise<boolean> {
  return new Promise((resolve) => {
    let status = 0;
    let stop = () => {};
    end.addEventListener("abort", () => {
      resolve(false);
      stop();
    });
    agent.dispatch(
      {
        origin: url.origin,
        path: url.pathname,
        method: "POST",
        headers: { "content-type": "application/json", [SIGNATURE_HEADER]: signature },
        body,
      },
      {
        onRequestStart(controller) {
          stop = () => controller.abort(new Error("the callback took too long"));
          if (end.aborted) stop();
        },
        onResponseStart(_controller, code) {
          status = code;
        },
        onResponseData() {},
        onResponseEnd: () => resolve(status >= 200 && status < 300),
        onResponseError: () => resolve(false),
      },
    );
  });
}
