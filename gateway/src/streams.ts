// Server streams of the public door while they are open. A stream outlives the checks of its request, so whoever opened
// it is looked at again and again: a key that is revoked or an account that is suspended ends its streams in seconds.

import type { DescMessage, DescMethodServerStreaming, Message } from "@bufbuild/protobuf";
import type { Log } from "@cauri/rpc/log";
import { gauge } from "@cauri/rpc/metrics";
import type { Credentials, Recheck } from "./admit.ts";
import { type Ask, refusalFor } from "./invoke.ts";
import { type EdgeRefusal, isEdgeRefusal, RefusedEarly, unavailable } from "./reasons.ts";
import type { Upstreams } from "./upstream.ts";

/** A change of a key empties the cache at once, so this is how late its streams end; without news add the cache's age. */
const RECHECK_MS = 1_000;

export type StreamAsk = Omit<Ask, "idempotency_key" | "operation"> & { readonly credentials: Credentials };

export type OpenStreams = {
  /** Follows the service until it ends the stream or the client leaves; any other end is thrown as RefusedEarly. */
  open(ask: StreamAsk, left: AbortSignal): AsyncIterable<Message>;
  /** Ends every stream with a refusal that a client takes as "connect again", and opens none any more. */
  close(): void;
};

type Open = { readonly ask: StreamAsk; readonly ending: AbortController };

export function createStreams({
  upstreams,
  recheck,
  log,
}: {
  readonly upstreams: Upstreams;
  readonly recheck: Recheck;
  readonly log: Log;
}): OpenStreams {
  const open = new Set<Open>();
  const shown = gauge("cauri_open_streams", "Server streams that are open at the public door.");
  let closed = false;
  const timer = setInterval(() => {
    for (const one of open) void look(one, recheck);
  }, RECHECK_MS).unref();

  async function* run(ask: StreamAsk, left: AbortSignal): AsyncGenerator<Message> {
    if (closed) throw new RefusedEarly(unavailable());
    const one: Open = { ask, ending: new AbortController() };
    const leave = () => one.ending.abort();
    left.addEventListener("abort", leave, { once: true });
    if (left.aborted) leave();
    open.add(one);
    shown.set(open.size);
    try {
      yield* messages(upstreams, one);
    } catch (error) {
      const { signal } = one.ending;
      if (signal.aborted) {
        if (isEdgeRefusal(signal.reason)) throw new RefusedEarly(signal.reason);
        return;
      }
      throw new RefusedEarly(refusalFor(error, ask.route.name, ask.request_id, log));
    } finally {
      left.removeEventListener("abort", leave);
      open.delete(one);
      shown.set(open.size);
    }
  }

  return {
    open: run,
    close: () => {
      closed = true;
      clearInterval(timer);
      for (const one of open) end(one, unavailable());
    },
  };
}

function messages(upstreams: Upstreams, { ask, ending }: Open): AsyncIterable<Message> {
  const { route, message, holder, request_id } = ask;
  const rpc = route.rpc as DescMethodServerStreaming<DescMessage, DescMessage>;
  const who = holder === null ? {} : { account: holder.account, mode: holder.mode, key_id: holder.key_id };
  return upstreams.stream(rpc, message, { request_id, ...who }, ending.signal);
}

/** Accounts that cannot be asked just now decide nothing: the stream stays until they answer. */
async function look(one: Open, recheck: Recheck): Promise<void> {
  const refusal = await recheck(one.ask.credentials, one.ask.route).catch(() => null);
  if (refusal !== null) end(one, refusal);
}

function end({ ending }: Open, refusal: EdgeRefusal): void {
  ending.abort(refusal);
}
