// Posts the ledger steps of payments and reads the judge's verdict. Posting a step again changes nothing: the ids follow
// from the payment.

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
import type { Promisified } from "@cauri/rpc/client";
import type { LedgerStep, Payment, Verdict } from "./payment.ts";
import {
  groupsOf,
  type Mispaid,
  type Posting,
  type PostingGroup,
  suspenseAccounts,
  suspenseGroup,
} from "./postings.ts";

/** Together with the call of the rail (6 s) below the lease of 9 s. */
const LEDGER_TIMEOUT_MS = 2_500;

export type Ledger = {
  post(payment: Payment, step: Exclude<LedgerStep, "post_suspense">): Promise<Verdict>;
  /** Books money that came in under a payment's name without being that payment; false: another such sum is booked. */
  postSuspense(payment: Payment, mispaid: Mispaid): Promise<boolean>;
};

const KINDS = {
  post: TransferKind.POST,
  hold: TransferKind.HOLD,
  capture: TransferKind.CAPTURE,
  release: TransferKind.RELEASE,
} as const;

export function openLedger(client: Promisified<LedgerServiceService>): Ledger {
  return {
    async post(payment, step) {
      const groups = groupsOf(payment, step);
      const answers = await send(client, payment, groups);
      return verdictOf(payment, groups, answers);
    },
    async postSuspense(payment, mispaid) {
      const group = suspenseGroup(payment, mispaid);
      let [answer] = await send(client, payment, [group]);
      if (resultOf(answer) === TransferResult.ACCOUNT_UNKNOWN) {
        await openSuspense(client, payment, mispaid);
        [answer] = await send(client, payment, [group]);
      }
      if (resultOf(answer) === TransferResult.EXISTS_DIFFERENTLY) return false;
      if (answer?.accepted !== true) throw new Error(`ledger: suspense of ${payment.id} was not booked`);
      return true;
    },
  };
}

/** The last group holds the step's outcome; a hold before it must stand in whatever state. */
function verdictOf(payment: Payment, groups: readonly PostingGroup[], answers: readonly GroupAnswer[]): Verdict {
  for (const [index, group] of groups.entries()) {
    const answer = answers[index];
    const kind = group.postings[0]?.kind;
    const last = index === groups.length - 1;
    const verdict = kind === "hold" ? holdVerdict(answer) : endVerdict(answer);
    if (verdict === null) throw new Error(`ledger: ${kind} of ${payment.id} was refused: ${resultWord(answer)}`);
    if (last) return verdict;
  }
  throw new Error("a ledger step has no group");
}

function holdVerdict(answer: GroupAnswer | undefined): Verdict | null {
  if (answer?.accepted !== true) return null;
  const state = answer.transfers[0]?.state;
  if (state === TransferState.CAPTURED) return "hold_captured";
  return state === TransferState.RELEASED || state === TransferState.EXPIRED ? "hold_released" : "stands";
}

function endVerdict(answer: GroupAnswer | undefined): Verdict | null {
  if (answer?.accepted === true) return "stands";
  switch (resultOf(answer)) {
    case TransferResult.HOLD_ALREADY_CAPTURED:
      return "hold_captured";
    case TransferResult.HOLD_ALREADY_RELEASED:
    case TransferResult.HOLD_ALREADY_EXPIRED:
      return "hold_released";
    default:
      return null;
  }
}

async function send(
  client: Promisified<LedgerServiceService>,
  payment: Payment,
  groups: readonly PostingGroup[],
): Promise<GroupAnswer[]> {
  const request = {
    groups: groups.map(({ asset_id, postings }) => ({
      book: bookOf(payment),
      assetId: asset_id,
      operationId: payment.id,
      transfers: postings.map(transferOf),
    })),
  };
  // Whoever reads the ledger's log finds the payment by it, whoever asked: a request, news or a sweeper.
  const caller = { account: payment.account, mode: payment.mode, operation: payment.id };
  const response = await client.post(request, { caller, timeout_ms: LEDGER_TIMEOUT_MS });
  if (isRefusal(response)) throw new Error(`ledger refused a post: ${response.refused}`);
  return response.groups;
}

/** Another asset's float and suspense may not stand yet at this platform; opening them again changes nothing. */
async function openSuspense(
  client: Promisified<LedgerServiceService>,
  payment: Payment,
  mispaid: Mispaid,
): Promise<void> {
  const accounts = suspenseAccounts(payment).map((code) => ({
    code,
    assetId: mispaid.asset_id,
    book: bookOf(payment),
  }));
  const opened = await client.openAccounts({ accounts }, { timeout_ms: LEDGER_TIMEOUT_MS });
  if (isRefusal(opened)) throw new Error(`ledger refused to open accounts: ${opened.refused}`);
}

function transferOf(posting: Posting): Transfer {
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

function bookOf(payment: Payment): Book {
  return payment.mode === "live" ? Book.LIVE : Book.TEST;
}

function resultOf(answer: GroupAnswer | undefined): TransferResult | undefined {
  return answer?.transfers[0]?.result;
}

function resultWord(answer: GroupAnswer | undefined): string {
  const results = answer?.transfers.map(({ result }) => String(result)) ?? [];
  return results.length === 0 ? "no answer" : results.join(", ");
}
