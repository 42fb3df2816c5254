// One routed call to its service: operation id, caller, deadline, one repetition when a service went away under it, and
// every outcome told as an answer or a refusal. Nothing that a service throws is passed on as it is.

import type { DescMessage, DescMethodUnary, Message } from "@bufbuild/protobuf";
import { type IdPrefix, newId } from "@cauri/money/ids";
import type { Caller } from "@cauri/rpc/caller";
import type { Log } from "@cauri/rpc/log";
import { status } from "@grpc/grpc-js";
import type { KeyHolder } from "./keys.ts";
import { defect, type EdgeRefusal, unavailable } from "./reasons.ts";
import type { Route } from "./routes.ts";
import { UpstreamError, type Upstreams } from "./upstream.ts";

/** A moment for the other replica or the restarted process to be found, before the one repetition. */
const REPEAT_PAUSE_MS = 100;

export type Ask = {
  readonly route: Route;
  readonly message: Message;
  /** Null on the admin door: an operator RPC names the account in its message. */
  readonly holder: KeyHolder | null;
  readonly request_id: string;
  readonly idempotency_key: string | null;
  /** The id that a creation is to get, where the edge has given it away already. */
  readonly operation: string | null;
};

export type Answer = { readonly message: Message; readonly outcome: "created" | "existing" | "replayed" };
export type Invoke = (ask: Ask) => Promise<Answer | EdgeRefusal>;

export function createInvoke(upstreams: Upstreams, log: Log): Invoke {
  return async ({ route, message, holder, request_id, idempotency_key, operation: minted }) => {
    const operation = route.idempotent ? (minted ?? newId(route.id_prefix as IdPrefix, Date.now())) : null;
    const caller: Partial<Caller> = {
      request_id,
      idempotency_key,
      operation,
      ...(holder === null ? {} : { account: holder.account, mode: holder.mode, key_id: holder.key_id }),
    };
    const rpc = route.rpc as DescMethodUnary<DescMessage, DescMessage>;
    const ends = Date.now() + route.timeout_ms;
    const once = () => upstreams.call(rpc, message, { caller, timeout_ms: ends - Date.now() });
    try {
      // A key or an account that was made twice could not be told from one that somebody asked for.
      const { message: answer, outcome } = await (route.repeatable ? repeated(once, ends) : once());
      return { message: answer, outcome: outcome === "existing" || outcome === "replayed" ? outcome : "created" };
    } catch (error) {
      return refusalFor(error, route.name, request_id, log);
    }
  };
}

/** Calls again, once, with the same operation id where there is one, when a service went away without a word about the call. */
export async function repeated<T>(once: () => Promise<T>, ends_ms: number): Promise<T> {
  try {
    return await once();
  } catch (error) {
    const lost = error instanceof UpstreamError && error.code === status.UNAVAILABLE && error.refusal === null;
    if (!lost || Date.now() + 2 * REPEAT_PAUSE_MS > ends_ms) throw error;
    await new Promise((resolve) => setTimeout(resolve, REPEAT_PAUSE_MS));
    return once();
  }
}

/** The refusal that a failed call means outside; what has no reason is told without a detail and kept in the log. */
export function refusalFor(error: unknown, name: string, request_id: string, log: Log): EdgeRefusal {
  if (error instanceof UpstreamError) {
    if (error.refusal !== null) return error.refusal;
    if (error.unavailable) {
      log.warn({ request: request_id, method: name, err: error }, "a service is away");
      return unavailable();
    }
  }
  log.error({ request: request_id, method: name, err: error }, "a call failed");
  return defect();
}
