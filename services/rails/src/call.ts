// One call to a rail, bounded in time, with its faults turned into answers. What it came to is counted here.

import type { RailAnswer } from "./attempt.ts";
import { CALL_TIMEOUT_MS, type Connector, type SentCharge } from "./connector.ts";
import type { Metrics } from "./metrics.ts";
import type { RailCall } from "./order.ts";
import type { Health } from "./routing.ts";

export type Caller = { readonly health: Health; readonly metrics: Metrics };

/** Less time than this is not worth beginning a call that may move money. */
export const LEAST_CALL_MS = 500;

/** Makes a call. Afterwards it is certainly out, certainly not, or unknown; never an exception. */
export async function sendCall(
  caller: Caller,
  connector: Connector,
  call: RailCall,
  left_ms: number,
): Promise<RailAnswer> {
  const answer = await bounded(connector, left_ms, (signal) => call.run(connector, signal));
  caller.metrics.called(call.rail, call.call, answer.outcome);
  // An operator that has nothing under a reference it is just being given makes no sense: nobody knows what it did.
  const told: RailAnswer = answer.outcome === "not_found" ? { outcome: "unknown" } : answer;
  if (!connector.is_simulated) {
    caller.health.note(call.rail, !["unknown", "refused", "unavailable"].includes(told.outcome));
  }
  return told;
}

/** Asks for what was sent, by our reference. */
export async function askCharge(
  caller: Caller,
  connector: Connector,
  sent: SentCharge,
  left_ms: number = CALL_TIMEOUT_MS,
): Promise<RailAnswer> {
  const answer = await bounded(connector, left_ms, (signal) => connector.ask(sent, signal));
  caller.metrics.called(sent.rail, "ask", answer.outcome);
  return answer;
}

async function bounded(
  connector: Connector,
  left_ms: number,
  run: (signal: AbortSignal) => Promise<RailAnswer>,
): Promise<RailAnswer> {
  // A timer that is taken back when the answer is there: a signal of `AbortSignal.timeout` would live on for its 5 s.
  const ended = new AbortController();
  const end = () => ended.abort(new DOMException("the call took too long", "TimeoutError"));
  const timer = setTimeout(end, Math.max(1, Math.min(CALL_TIMEOUT_MS, left_ms)));
  const { signal } = ended;
  try {
    // The race holds also with a connector that doesn't look at its signal.
    return await Promise.race([run(signal), rejectAtEnd(signal)]);
  } catch (fault) {
    return signal.aborted ? { outcome: "unknown" } : connector.classify(fault);
  } finally {
    clearTimeout(timer);
  }
}

function rejectAtEnd(signal: AbortSignal): Promise<never> {
  return new Promise((_resolve, reject) => {
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
  });
}
