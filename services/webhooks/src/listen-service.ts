// The RPC of listeners: who may, how many, and each event as the delivery that an endpoint would get.

import type { Clock } from "@cauri/money/clock";
import { isRefusal, refuse } from "@cauri/money/refusal";
import { type ListenResponse, ListenServiceService } from "@cauri/proto/ts/cauri/webhooks/v1/listen";
import { type Service, service } from "@cauri/rpc/server";
import { checkEvents, isSubscribed } from "./endpoint.ts";
import { type ListenRooms, listen, type Told } from "./listening.ts";
import { noticeHeaders, type Signing } from "./notice.ts";
import { newSecret } from "./secret.ts";

/** A team at its desks; each of them costs this process a buffer and a little work per event. */
const MAX_OF_ACCOUNT = 10;
/** What one process bears beside its deliveries. */
const MAX_OF_PROCESS = 500;
/** Whoever was refused for want of a place may try again after this. */
const RETRY_S = 30;

export function listenService(rooms: ListenRooms): Service {
  const open = new Map<string, number>();
  let total = 0;
  const count = (account: string, by: 1 | -1) => {
    total += by;
    const left = (open.get(account) ?? 0) + by;
    if (left === 0) open.delete(account);
    else open.set(account, left);
  };
  return service(ListenServiceService, {
    listen: async ({ after, secret = newSecret(), events, standardHeaders = false }, { caller, signal }) => {
      if (caller.mode !== "test") {
        return refuse("insufficient_scope", "listening is for test keys: live events go to registered endpoints alone");
      }
      const names = checkEvents(events);
      if (isRefusal(names)) return { ...names, field: names.field?.replace("subscribed_events", "events") ?? "events" };
      if ((open.get(caller.account) ?? 0) >= MAX_OF_ACCOUNT) {
        return refuse("rate_limited", `an account has at most ${MAX_OF_ACCOUNT} listeners at once`, {
          retry_after_s: RETRY_S,
        });
      }
      if (total >= MAX_OF_PROCESS) {
        return refuse("temporarily_unavailable", "too many are listening just now", { retry_after_s: RETRY_S });
      }
      count(caller.account, 1);
      const wants = (event: string) => isSubscribed(names, event);
      const told = listen(rooms, { account: caller.account, wants, after }, signal);
      const signing = { secrets: [secret] as const, standard_headers: standardHeaders };
      return written(told, signing, rooms.now, () => count(caller.account, -1));
    },
  });
}

/** One secret for as long as the developer's session lasts. */
type SessionSigning = Signing & { readonly secrets: readonly [string] };

async function* written(
  told: AsyncGenerator<Told>,
  signing: SessionSigning,
  now: Clock,
  left: () => void,
): AsyncGenerator<ListenResponse> {
  try {
    for await (const one of told) yield { message: messageOf(one, signing, now()) };
  } finally {
    left();
  }
}

function messageOf(told: Told, signing: SessionSigning, now_ms: number): ListenResponse["message"] {
  switch (told.kind) {
    case "opened":
      return { $case: "opened", value: { secret: signing.secrets[0], cursor: told.cursor } };
    case "quiet":
      return { $case: "heartbeat", value: {} };
    case "skipped":
      return { $case: "skipped", value: {} };
    case "heard": {
      const { event, cursor } = told.heard;
      const headers = Object.entries(noticeHeaders(event, signing, now_ms)).map(([name, value]) => ({ name, value }));
      return {
        $case: "notice",
        value: { eventId: event.event_id, event: event.event, cursor, headers, body: event.body },
      };
    }
  }
}
