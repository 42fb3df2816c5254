// A batch of rails' news as a room applies it: those of one operation in their order, one operation beside the other.

import { failureCode } from "@cauri/money/failure";
import type { OutgoingWord } from "@cauri/money/outgoing";
import type { OperationNews } from "@cauri/proto/ts/cauri/events/v1/events";

/** Operations of one batch that are worked on at once: all, because their steps share statements and calls. */
const PARALLEL = 100;

const SAYS = { pending: "accept", success: "settle", failed: "reject", returned: "return" } as const;

/** What news of an outgoing operation say; null for a kind that nobody here knows. */
export function outgoingWordOf(news: OperationNews): OutgoingWord | null {
  const kind = news.event.slice(news.event.lastIndexOf(".") + 1);
  if (!Object.hasOwn(SAYS, kind)) return null;
  const says = SAYS[kind as keyof typeof SAYS];
  return {
    source: "news",
    says,
    failure_code: says === "reject" ? failureCode(news.failureCode) : null,
    paid_minor: says === "settle" ? (news.railAmountMinor ?? null) : null,
    paid_currency: says === "settle" && news.railCurrency !== "" ? news.railCurrency : null,
    version: news.version,
    rail: news.rail === "" ? null : news.rail,
  };
}

/** Runs the work for every item, a few at once; the first error is thrown after all have ended. */
export async function eachOf<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  const queue = items.values();
  const runners = Array.from({ length: Math.min(PARALLEL, items.length) }, async () => {
    const errors: unknown[] = [];
    for (const item of queue) await work(item).catch((error: unknown) => errors.push(error));
    return errors;
  });
  const [first] = (await Promise.all(runners)).flat();
  if (first !== undefined) throw first;
}
