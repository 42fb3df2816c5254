// Sends an operation's transfers to the ledger and reads its verdicts.

import type { Mode } from "@cauri/money/mode";
import type { Posting, PostingGroup, Verdict } from "@cauri/money/posting";
import { isRefusal } from "@cauri/money/refusal";
import {
  Book,
  type GroupAnswer,
  type LedgerServiceService,
  type Transfer,
  TransferKind,
  TransferResult,
  TransferState,
} from "@cauri/proto/ts/cauri/ledger/v1/ledger";
import { coalesce } from "@cauri/store/coalescer";
import type { Caller } from "./caller.ts";
import type { Promisified } from "./client.ts";

/** Together with the call of a rail (6 s) below the lease of 9 s. */
const LEDGER_TIMEOUT_MS = 2_500;

/** Operations of one call, how many may wait for the next one, and how many calls are under way: one decided, one booked. */
const MAX_BATCH = 100;
const MAX_WAITING = 2_000;
const CALLS = 2;

/** Whose transfers they are. */
export type Booked = { readonly id: string; readonly account: string; readonly mode: Mode };
export type LedgerClient = Promisified<LedgerServiceService>;

const KINDS = {
  post: TransferKind.POST,
  hold: TransferKind.HOLD,
  capture: TransferKind.CAPTURE,
  release: TransferKind.RELEASE,
} as const;

export type PostingOrder = { readonly operation: Booked; readonly groups: readonly PostingGroup[] };

/** Posts the groups and answers for each; what a group's refusal means is the caller's to say. */
export async function postGroups(
  client: LedgerClient,
  operation: Booked,
  groups: readonly PostingGroup[],
): Promise<GroupAnswer[]> {
  const [answers] = await postAll(client, [{ operation, groups }]);
  return answers ?? [];
}

/** `postGroups` for a room that posts much: operations of the same moment share a call. */
export function openPoster(client: LedgerClient): (order: PostingOrder) => Promise<GroupAnswer[]> {
  return coalesce({
    run: (orders: PostingOrder[]) => postAll(client, orders),
    max_batch: MAX_BATCH,
    max_waiting: MAX_WAITING,
    max_wait_ms: LEDGER_TIMEOUT_MS,
    // A repeat is safe, so what the ledger does not take fails alone.
    retry_alone: true,
    lanes: CALLS,
  });
}

/** Many operations by one call, answered in their order. */
async function postAll(client: LedgerClient, orders: readonly PostingOrder[]): Promise<GroupAnswer[][]> {
  const request = {
    groups: orders.flatMap(({ operation, groups }) =>
      groups.map(({ asset_id, postings }) => ({
        book: bookOf(operation.mode),
        assetId: asset_id,
        operationId: operation.id,
        transfers: postings.map(wireOf),
      })),
    ),
  };
  const response = await client.post(request, { caller: callerOf(orders), timeout_ms: LEDGER_TIMEOUT_MS });
  if (isRefusal(response)) throw new Error(`ledger refused a post: ${response.refused}`);
  const answers = [...response.groups];
  return orders.map(({ groups }) => answers.splice(0, groups.length));
}

/** Whoever reads the ledger's log finds an operation that was posted by itself; those of a batch are in the books. */
function callerOf([first, ...others]: readonly PostingOrder[]): Partial<Caller> {
  if (first === undefined || others.length > 0) return {};
  const { account, mode, id } = first.operation;
  return { account, mode, operation: id };
}

/**
 * The verdict on a step: its last group holds the outcome, a hold before it must stand in whatever state. A refusal that
 * is no verdict is a bug or a passing want, and thrown.
 */
export function verdictOf(
  operation: Booked,
  groups: readonly PostingGroup[],
  answers: readonly GroupAnswer[],
): Verdict {
  for (const [index, group] of groups.entries()) {
    const answer = answers[index];
    const kind = group.postings[0]?.kind;
    const last = index === groups.length - 1;
    const verdict = kind === "hold" ? holdVerdict(answer) : endVerdict(answer);
    if (verdict === null) throw new Error(`ledger: ${kind} of ${operation.id} was refused: ${resultWord(answer)}`);
    if (last) return verdict;
  }
  throw new Error("a ledger step has no group");
}

/** How a hold stands; null: it was refused. */
export function holdVerdict(answer: GroupAnswer | undefined): Verdict | null {
  if (answer?.accepted !== true) return null;
  const state = answer.transfers[0]?.state;
  if (state === TransferState.CAPTURED) return "hold_captured";
  return state === TransferState.RELEASED || state === TransferState.EXPIRED ? "hold_released" : "stands";
}

/** Opens accounts that another asset's may lack; opening them again changes nothing. */
export async function openAccounts(
  client: LedgerClient,
  codes: readonly string[],
  place: { readonly asset_id: string; readonly mode: Mode },
): Promise<void> {
  const accounts = codes.map((code) => ({ code, assetId: place.asset_id, book: bookOf(place.mode) }));
  const opened = await client.openAccounts({ accounts }, { timeout_ms: LEDGER_TIMEOUT_MS });
  if (isRefusal(opened)) throw new Error(`ledger refused to open accounts: ${opened.refused}`);
}

/** Books money that belongs to no operation yet; false: another such sum is booked under the operation's id. */
export async function postSuspense(
  client: LedgerClient,
  operation: Booked,
  group: PostingGroup,
  codes: readonly string[],
): Promise<boolean> {
  let [answer] = await postGroups(client, operation, [group]);
  if (resultOf(answer) === TransferResult.ACCOUNT_UNKNOWN) {
    await openAccounts(client, codes, { asset_id: group.asset_id, mode: operation.mode });
    [answer] = await postGroups(client, operation, [group]);
  }
  if (resultOf(answer) === TransferResult.EXISTS_DIFFERENTLY) return false;
  if (answer?.accepted !== true) throw new Error(`ledger: suspense of ${operation.id} was not booked`);
  return true;
}

/** The result of a group: of a refused one, that of the transfer which decided it. */
export function resultOf(answer: GroupAnswer | undefined): TransferResult | undefined {
  const results = answer?.transfers.map(({ result }) => result) ?? [];
  return (
    results.find((result) => result !== TransferResult.GROUP_REFUSED && result !== TransferResult.EXISTS) ?? results[0]
  );
}

export function resultWord(answer: GroupAnswer | undefined): string {
  const results = answer?.transfers.map(({ result }) => String(result)) ?? [];
  return results.length === 0 ? "no answer" : results.join(", ");
}

function endVerdict(answer: GroupAnswer | undefined): Verdict | null {
  if (answer?.accepted === true) return "stands";
  switch (answer?.transfers[0]?.result) {
    case TransferResult.HOLD_ALREADY_CAPTURED:
      return "hold_captured";
    case TransferResult.HOLD_ALREADY_RELEASED:
    case TransferResult.HOLD_ALREADY_EXPIRED:
      return "hold_released";
    default:
      return null;
  }
}

function wireOf(posting: Posting): Transfer {
  return {
    id: posting.id,
    kind: KINDS[posting.kind],
    debitCode: posting.debit,
    creditCode: posting.credit,
    amountMinor: posting.amount_minor,
    holdId: posting.hold_id,
    expiresAt: undefined,
    // Left to the ledger: a repeat must have the same fields, and our clock would not give the same time twice.
    effectiveAt: undefined,
  };
}

export function bookOf(mode: Mode): Book {
  return mode === "live" ? Book.LIVE : Book.TEST;
}
