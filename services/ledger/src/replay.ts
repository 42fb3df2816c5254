// Recomputes a lane from its transfers alone, one after the other, and says what doesn't add up. Pure, and written apart
// from the engine's judgement on purpose: two ways to the same balances are worth more than one.
// Memory grows with the accounts and the open holds, never with the transfers.

import { availableOf, type Balances, type HoldState, type TransferFields, ZERO } from "./books.ts";
import type { NormalSide } from "./chart.ts";

export type ReplayAccount = { readonly code: string; readonly normal_side: NormalSide; readonly no_overdraft: boolean };

export type ReplayRow = {
  readonly id: string;
  readonly position: number;
  readonly group_id: string;
  readonly fields: TransferFields;
};

/** What a hold has become, to be compared with its row. */
export type ReplayHold = { readonly id: string; readonly fields: TransferFields; state: HoldState; captured: bigint };

export type ReplayEntry = { readonly account_id: number; readonly balances: Balances };

export type Replay = {
  readonly accounts: ReadonlyMap<number, ReplayAccount>;
  readonly balances: Map<number, Balances>;
  readonly open: Map<string, ReplayHold>;
  /** One sentence per account is enough: whatever follows a wrong balance is wrong too. */
  readonly suspects: Set<number>;
};

export function startReplay(accounts: ReadonlyMap<number, ReplayAccount>): Replay {
  return { accounts, balances: new Map(), open: new Map(), suspects: new Set() };
}

/** Applies one transfer and compares its two entries; returns the hold that it ended, and sentences about what is wrong. */
export function replayTransfer(
  replay: Replay,
  row: ReplayRow,
  now_us: number,
  entries: readonly ReplayEntry[],
): { ended: ReplayHold | null; problems: string[] } {
  const { id, fields } = row;
  const problems: string[] = [];
  const say = (text: string) => problems.push(`transfer ${id}: ${text}`);
  const ended = fields.hold_id === null ? null : endHold(replay, fields, now_us, say);
  if (fields.kind === "hold") replay.open.set(id, { id, fields, state: "held", captured: 0n });
  const [pending, posted] = deltaOf(fields, ended);
  const debit = move(replay, fields.debit_id, "debits", pending, posted);
  const credit = move(replay, fields.credit_id, "credits", pending, posted);
  for (const { account_id, after } of [debit, credit]) {
    const account = replay.accounts.get(account_id);
    if (account === undefined) {
      say(`its account ${account_id} is not one of its lane`);
      continue;
    }
    if (replay.suspects.has(account_id)) continue;
    const wrong = entryProblem(account, account_id, after, entries);
    if (wrong === null) continue;
    replay.suspects.add(account_id);
    say(wrong);
  }
  if (entries.length !== 2) say(`it has ${entries.length} entries instead of 2`);
  return { ended, problems };
}

function endHold(
  replay: Replay,
  fields: TransferFields,
  now_us: number,
  say: (text: string) => void,
): ReplayHold | null {
  const hold = replay.open.get(fields.hold_id ?? "");
  if (hold === undefined) {
    say(`its hold ${fields.hold_id} does not stand`);
    return null;
  }
  replay.open.delete(hold.id);
  const between = hold.fields.debit_id === fields.debit_id && hold.fields.credit_id === fields.credit_id;
  if (!between) say(`its hold ${hold.id} is between other accounts`);
  const whole = fields.kind === "capture" ? fields.amount <= hold.fields.amount : fields.amount === hold.fields.amount;
  if (!whole) say(`${fields.amount} of its hold ${hold.id} of ${hold.fields.amount}`);
  const due = hold.fields.expires_ms !== null && hold.fields.expires_ms * 1000 <= now_us;
  if (due !== (fields.kind === "expire")) say(`a ${fields.kind} when its hold ${hold.id} was ${due ? "" : "not "}due`);
  hold.state = fields.kind === "capture" ? "captured" : fields.kind === "release" ? "released" : "expired";
  hold.captured = fields.kind === "capture" ? fields.amount : 0n;
  return hold;
}

function deltaOf(fields: TransferFields, ended: ReplayHold | null): [pending: bigint, posted: bigint] {
  if (fields.kind === "post") return [0n, fields.amount];
  if (fields.kind === "hold") return [fields.amount, 0n];
  return [-(ended?.fields.amount ?? 0n), fields.kind === "capture" ? fields.amount : 0n];
}

function move(replay: Replay, account_id: number, side: "debits" | "credits", pending: bigint, posted: bigint) {
  const before = replay.balances.get(account_id) ?? ZERO;
  const after: Balances =
    side === "debits"
      ? {
          ...before,
          debits_pending: before.debits_pending + pending,
          debits_posted: before.debits_posted + posted,
        }
      : {
          ...before,
          credits_pending: before.credits_pending + pending,
          credits_posted: before.credits_posted + posted,
        };
  replay.balances.set(account_id, after);
  return { account_id, after };
}

function entryProblem(
  account: ReplayAccount,
  account_id: number,
  after: Balances,
  entries: readonly ReplayEntry[],
): string | null {
  if (account.no_overdraft && availableOf(account.normal_side, after) < 0n)
    return `${account.code} is below zero after it`;
  const entry = entries.find((one) => one.account_id === account_id);
  if (entry === undefined) return `its entry of ${account.code} is missing`;
  const difference = differenceOf(entry.balances, after);
  return difference === null ? null : `its entry of ${account.code} says ${difference}`;
}

/** Names the first balance that differs, or null. */
export function differenceOf(written: Balances, computed: Balances): string | null {
  for (const name of ["debits_pending", "debits_posted", "credits_pending", "credits_posted"] as const) {
    if (written[name] !== computed[name]) return `${name} ${written[name]}, the transfers make ${computed[name]}`;
  }
  return null;
}
