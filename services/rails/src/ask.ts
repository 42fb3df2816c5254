// Asking rails: once on demand, and again and again for what stays silent. A question never sends anything, so any
// number of processes may ask at once; what they hear is recorded under the attempt's lock.

import { transact } from "@cauri/store/pool";
import { isFinal, isOutgoing, pollDelay_s, type RailAnswer } from "./attempt.ts";
import { type Attempt, readAttempt } from "./attempt-store.ts";
import { askCharge } from "./call.ts";
import { sentCharge } from "./collect.ts";
import type { House } from "./house.ts";
import { lockDuePolls, schedulePolls } from "./poll-store.ts";
import { pollIn_s, recordHeard } from "./record.ts";

/** Questions under way at once; together they take as long as the slowest one, 5 s at most. */
const POLLS_AT_ONCE = 32;

/** The attempt after the question, and what the rail answered; null: it was not asked. */
export type Asked = { readonly attempt: Attempt; readonly answer: RailAnswer | null };

/** Asks for one operation of an account; null where there is none. */
export async function askFor(house: House, operation_id: string, account: string, mode: string): Promise<Asked | null> {
  const attempt = await readAttempt(house.pool, operation_id);
  if (attempt === null || attempt.account !== account || attempt.mode !== mode) return null;
  return askAttempt(house, attempt);
}

async function askAttempt(house: House, attempt: Attempt): Promise<Asked> {
  const connector = attempt.connector === null ? null : house.registry.named(attempt.connector);
  // While its call is under way a rail may not have it yet: its "not found" would be believed.
  const is_under_way = attempt.state === "sending" && attempt.leased;
  // What went out may come back.
  const is_over = isFinal(attempt.state) && !(isOutgoing(attempt.kind) && attempt.state === "success");
  if (is_over || attempt.state === "ready" || is_under_way || connector === null) {
    return { attempt, answer: null };
  }
  const answer = await askCharge(house, connector, sentCharge(attempt));
  const { operation_id } = attempt;
  const after = await recordHeard(house.pool, { operation_id, answer, source: "ask", lease_no: null });
  return { attempt: after, answer };
}

/** One turn of the poller, for one account's test clock or for all; tells how many were asked. */
export async function pollDue(house: House, account: string | null = null): Promise<number> {
  const due = await transact(house.pool, async (tx) => {
    const attempts = await lockDuePolls(tx, account, POLLS_AT_ONCE);
    await schedulePolls(
      tx,
      attempts.map((attempt) => ({ operation_id: attempt.operation_id, in_s: nextPoll_s(attempt) })),
    );
    return attempts;
  });
  const results = await Promise.allSettled(due.map((attempt) => askAttempt(house, attempt)));
  const failed = results.find((result) => result.status === "rejected");
  if (failed !== undefined) throw failed.reason;
  return due.length;
}

/** The pause after the question that is asked now. */
function nextPoll_s(attempt: Attempt): number | null {
  const in_s = pollIn_s(attempt, attempt.state);
  return in_s === null ? null : pollDelay_s(attempt.state, attempt.polls + 1);
}
