// What the process remembers of a lane between its batches: accounts with their balances and holds, true as of one head
// of the lane. Pure. With it a batch is decided before the lane is locked; the database takes it only at that same head.

import type { Account, GroupOrder, Hold, Lane } from "./books.ts";
import type { BookState, Effects } from "./decide.ts";

/** Accounts and holds kept per lane, the oldest forgotten first: some 30 MB; a batch that names another one reads it. */
const MAX_ACCOUNTS = 100_000;
const MAX_HOLDS = 50_000;

export type LaneView = {
  readonly lane: Lane;
  sequence: bigint;
  head: Buffer;
  recorded_us: number;
  readonly accounts: Map<string, Account>;
  readonly codes: Map<number, string>;
  readonly holds: Map<string, Hold>;
};

type Head = { readonly sequence: bigint; readonly head: Buffer; readonly recorded_us: number };

/** The view after a batch that has read `state` and left the lane at `head`; what `older` knew stays where it is of the head read. */
export function viewOf(older: LaneView | null, lane: Lane, state: BookState, effects: Effects, head: Head): LaneView {
  const view = older ?? { lane, ...head, accounts: new Map(), codes: new Map(), holds: new Map() };
  for (const account of state.accounts) {
    view.accounts.set(account.code, account);
    view.codes.set(account.account_id, account.code);
  }
  for (const hold of state.holds) if (hold.lane.lane_id === lane.lane_id) view.holds.set(hold.hold_id, hold);
  advance(view, effects, head);
  return view;
}

/** Takes over what a batch has changed: from now on the view tells of the lane after it. */
export function advance(view: LaneView, effects: Effects, { sequence, head, recorded_us }: Head): void {
  for (const [account_id, place] of effects.last_entries) {
    const account = view.accounts.get(view.codes.get(account_id) ?? "");
    const balances = effects.entries[place]?.after;
    if (account === undefined || balances === undefined) continue;
    const { code, normal_side, no_overdraft } = account;
    view.accounts.set(code, { account_id, code, normal_side, no_overdraft, balances });
  }
  for (const hold of effects.new_holds) view.holds.set(hold.hold_id, hold);
  for (const hold of effects.ended_holds) view.holds.set(hold.hold_id, hold);
  for (const code of oldest(view.accounts, MAX_ACCOUNTS)) {
    view.codes.delete(view.accounts.get(code)?.account_id ?? 0);
    view.accounts.delete(code);
  }
  for (const hold_id of oldest(view.holds, MAX_HOLDS)) view.holds.delete(hold_id);
  Object.assign(view, { sequence, head, recorded_us });
}

/** The part of the books that the groups touch, or null when the view lacks some of it and it must be read. */
export function stateFor(view: LaneView, groups: readonly GroupOrder[], now_us: number): BookState | null {
  const accounts = new Map<string, Account>();
  const holds = new Map<string, Hold>();
  const posted = new Set<string>();
  const add = (code: string | undefined): boolean => {
    const account = code === undefined ? undefined : view.accounts.get(code);
    if (account !== undefined) accounts.set(account.code, account);
    return account !== undefined;
  };
  for (const group of groups) {
    for (const { id, kind, debit_code, credit_code, hold_id } of group.transfers) {
      if (debit_code !== null && !add(debit_code)) return null;
      if (credit_code !== null && !add(credit_code)) return null;
      // A repeat of a hold: what it was is in the books, not in here.
      if (kind === "hold" && view.holds.has(id)) return null;
      if (kind === "hold") posted.add(id);
      if (hold_id === null || posted.has(hold_id)) continue;
      const hold = view.holds.get(hold_id);
      if (hold === undefined || !add(view.codes.get(hold.debit_id)) || !add(view.codes.get(hold.credit_id)))
        return null;
      holds.set(hold_id, hold);
    }
  }
  return { lane: view.lane, now_us, accounts: [...accounts.values()], holds: [...holds.values()], known: new Map() };
}

/** A tenth at a time, so that walking the keys is rare. */
function oldest<K>(map: ReadonlyMap<K, unknown>, limit: number): K[] {
  return map.size <= limit ? [] : [...map.keys()].slice(0, Math.ceil(limit / 10));
}
