// The writer of one lane: batches one after the other, each a transaction. A batch whose accounts and holds are remembered
// is decided at once and sent behind the one under way, as a single statement; any other one waits for its turn, locks
// the lane and reads first. The database takes the first kind only at the very head that it was decided on.

import { isUnavailable, type Pool, transact } from "@cauri/store/pool";
import { APPEND, type Append, type Appended, appendValues } from "./append.ts";
import { type Due, readState } from "./batch-store.ts";
import type { GroupAnswer, GroupOrder, Lane } from "./books.ts";
import { hashBatch } from "./chain.ts";
import { type BookState, type Decision, decide, isEmpty } from "./decide.ts";
import { advance, type LaneView, stateFor, viewOf } from "./lane-view.ts";
import { type Line, openLine } from "./line.ts";
import { countAnswers, countBatch, observeCommit, observeLaneWait } from "./numbers.ts";

/** Of a batch whose ids another lane takes: each repetition knows at least one more of them. Then each group for itself. */
const MAX_ATTEMPTS = 3;
const UNIQUE_VIOLATION = "23505";

type Answers = readonly (GroupAnswer | Error)[];

type Ahead = { readonly view: LaneView; readonly decision: Decision; readonly append: Append };
type Outcome = { readonly decision: Decision; readonly view: LaneView | null };

/** The batches before one: all decided (so that the view tells what they leave), and all answered. */
type Turn = { readonly decided: Promise<unknown>; readonly done: Promise<unknown> };

export class LaneWriter {
  readonly #pool: Pool;
  readonly #lane_id: number;
  readonly #line: Line;
  readonly #clock = startClock();
  #view: LaneView | null = null;
  #tail: Turn = { decided: Promise.resolve(), done: Promise.resolve() };
  /** Batches that are not decided yet, because they wait or read: whoever comes later is decided after them. */
  #standing = 0;
  /** Batches that were decided ahead and are not answered yet. */
  readonly #sent = new Set<Ahead>();

  constructor(pool: Pool, lane_id: number) {
    this.#pool = pool;
    this.#lane_id = lane_id;
    this.#line = openLine(pool);
  }

  /** One batch. Called again before it is answered, the next one is decided on what this one leaves. */
  post(groups: readonly GroupOrder[]): Promise<Answers> {
    return this.#inTurn((turn, onDecided) => this.#write(groups, turn, onDecided));
  }

  /** Expires due holds of the lane and returns how many transfers that took. */
  sweep(): Promise<number> {
    return this.#inTurn((turn) =>
      this.#alone(async () => {
        await turn.done;
        return (await this.#readAndWrite([], "lane")).effects.transfers.length;
      }),
    );
  }

  async #write(groups: readonly GroupOrder[], turn: Turn, onDecided: () => void): Promise<Answers> {
    // Nothing runs between the end of a wait and the line after it, so nobody slips in between.
    const overtaken = this.#isOvertaken();
    if (this.#standing > 0 || overtaken) {
      this.#standing += 1;
      await (overtaken ? turn.done : turn.decided);
      this.#standing -= 1;
    }
    let ahead = this.#decideAhead(groups);
    if (ahead === null) {
      this.#standing += 1;
      await turn.done;
      this.#standing -= 1;
      // What the batch before has read may be enough for this one.
      ahead = this.#decideAhead(groups);
    }
    if (ahead === null) return await this.#alone(() => this.#writeAlone(groups));
    this.#sent.add(ahead);
    onDecided();
    try {
      return await this.#send(groups, ahead, turn);
    } finally {
      this.#sent.delete(ahead);
    }
  }

  async #send(groups: readonly GroupOrder[], ahead: Ahead, turn: Turn): Promise<Answers> {
    const begun = performance.now();
    try {
      const { rows } = await this.#line<Appended>(APPEND, appendValues(ahead.append));
      this.#clock.set(rows[0]?.clock_us ?? 0n);
      observe("ahead", ahead.decision, begun);
      return ahead.decision.answers;
    } catch (error) {
      // What was decided on it since is refused by its head; what comes now reads again.
      if (this.#view === ahead.view) this.#view = null;
      if (isUnavailable(error)) return groups.map(() => asError(error));
    }
    return await this.#alone(async () => {
      await turn.done;
      return await this.#writeAlone(groups);
    });
  }

  /**
   * Whether some batch was decided on what proved wrong: it is refused by the database, heard or not yet, and decided again.
   * Whoever comes later waits for its answer, not for its decision.
   */
  #isOvertaken(): boolean {
    for (const { view } of this.#sent) if (view !== this.#view) return true;
    return false;
  }

  /** With nothing else of ours under way. */
  async #writeAlone(groups: readonly GroupOrder[], attempt = 1): Promise<Answers> {
    try {
      return (await this.#readAndWrite(groups, "touched")).answers;
    } catch (error) {
      // Another lane has taken an id between our reading and our writing: now it is there to be read.
      if (isTaken(error) && attempt < mostAttempts(groups)) return await this.#writeAlone(groups, attempt + 1);
      // A batch that fails is run again group by group, so that a broken one fails alone. Not so when the database itself
      // is away: nobody would fare better, and each would wait for its own time-out.
      if (groups.length === 1 || isUnavailable(error)) return groups.map(() => asError(error));
    }
    const answers: (GroupAnswer | Error)[] = [];
    for (const group of groups) answers.push(...(await this.#writeAlone([group])));
    return answers;
  }

  async #readAndWrite(groups: readonly GroupOrder[], due: Due): Promise<Decision> {
    const before = this.#view;
    // Until this has succeeded nobody knows where the lane is.
    this.#view = null;
    const outcome = await transactBatch(this.#pool, this.#lane_id, groups, due, before, this.#clock);
    this.#view = outcome.view;
    return outcome.decision;
  }

  #decideAhead(groups: readonly GroupOrder[]): Ahead | null {
    return this.#view === null ? null : decideAhead(this.#view, groups, this.#clock.now_us());
  }

  async #alone<T>(work: () => Promise<T>): Promise<T> {
    this.#standing += 1;
    try {
      return await work();
    } finally {
      this.#standing -= 1;
    }
  }

  #inTurn<T>(work: (turn: Turn, onDecided: () => void) => Promise<T>): Promise<T> {
    const turn = this.#tail;
    const { promise: decided, resolve } = Promise.withResolvers<void>();
    const onDecided = () => resolve();
    const answer = work(turn, onDecided);
    this.#tail = { decided: after(turn.decided, decided), done: after(turn.done, answer.then(onDecided, onDecided)) };
    return answer;
  }
}

/** Both are over; their values are let go, so that a lane's past is not kept by its tail. */
async function after(before: Promise<unknown>, own: Promise<unknown>): Promise<void> {
  await before;
  await own;
}

/** One batch by itself, read under the lane's lock: its first statement takes it and its commit frees it. */
export async function runBatch(pool: Pool, lane_id: number, groups: readonly GroupOrder[]): Promise<Decision> {
  return (await transactBatch(pool, lane_id, groups, "touched", null, startClock())).decision;
}

async function transactBatch(
  pool: Pool,
  lane_id: number,
  groups: readonly GroupOrder[],
  due: Due,
  before: LaneView | null,
  clock: Clock,
): Promise<Outcome> {
  const begun = performance.now();
  let decided = begun;
  const outcome = await transact(pool, async (tx) => {
    const { state, previous } = await readState(tx, lane_id, groups, due);
    const decision = decide(state, groups);
    decided = performance.now();
    if (state.lane === null || previous === null) return { decision, view: null };
    const older = before?.head.equals(previous.head) === true ? before : null;
    const recorded_us = state.now_us;
    if (isEmpty(decision.effects)) {
      const stands = { ...previous, recorded_us: previous.recorded_us };
      return { decision, view: viewOf(older, state.lane, state, decision.effects, stands) };
    }
    const append = appendOf(state.lane, previous, state, decision, null);
    const written = tx.prepared<Appended>(APPEND, appendValues(append));
    // Not awaited: it leaves together with the commit, which throws what it throws.
    written.then(({ rows }) => clock.set(rows[0]?.clock_us ?? 0n)).catch(ignore);
    const view = viewOf(older, state.lane, state, decision.effects, { ...append.after, recorded_us });
    return { decision, view };
  });
  observeLaneWait(decided - begun);
  observe("read", outcome.decision, decided);
  return outcome;
}

/** Decides on what is remembered and moves the view on; null when the view lacks something, or nothing would be written. */
function decideAhead(view: LaneView, groups: readonly GroupOrder[], clock_us: number): Ahead | null {
  const now_us = Math.max(clock_us, view.recorded_us + 1);
  const state = stateFor(view, groups, now_us);
  if (state === null) return null;
  const decision = decide(state, groups);
  if (isEmpty(decision.effects)) return null;
  const append = appendOf(view.lane, view, state, decision, groups);
  advance(view, decision.effects, { ...append.after, recorded_us: now_us });
  return { view, decision, append };
}

export function appendOf(
  lane: Lane,
  previous: { readonly sequence: bigint; readonly head: Buffer },
  state: BookState,
  { effects, answers }: Decision,
  ahead: readonly GroupOrder[] | null,
): Append {
  const codes = new Map<number, string>();
  const guarded: number[] = [];
  for (const { account_id, code, no_overdraft } of state.accounts) {
    codes.set(account_id, code);
    if (no_overdraft) guarded.push(account_id);
  }
  const sequence = previous.sequence + 1n;
  const head = hashBatch(
    {
      previous: previous.head,
      asset_id: lane.asset_id,
      book: lane.book,
      sequence,
      recorded_us: state.now_us,
      transfers: effects.transfers.map(({ id, group_id, fields }) => ({ id, word: group_id, fields })),
      refusals: effects.refusals.map(({ id, result, fields }) => ({ id, word: result, fields })),
    },
    (account_id) => codes.get(account_id) ?? unread(account_id),
  );
  return {
    lane_id: lane.lane_id,
    previous: { sequence: previous.sequence, head: previous.head },
    after: { sequence, head },
    recorded_us: state.now_us,
    ...{ effects, guarded, unbooked: ahead === null ? [] : unbookedOf(ahead, answers), ahead: ahead !== null },
  };
}

function unbookedOf(groups: readonly GroupOrder[], answers: readonly GroupAnswer[]): string[] {
  const unbooked: string[] = [];
  for (const [place, { transfers }] of answers.entries()) {
    for (const [index, { result }] of transfers.entries()) {
      const order = groups[place]?.transfers[index];
      if (result !== "ok" && order !== undefined) unbooked.push(order.id);
    }
  }
  return unbooked;
}

type Clock = { now_us(): number; set(clock_us: bigint): void };

/**
 * The database's clock as last told, plus the time since: told before it was heard, so it is never ahead but by what the
 * two clocks drift apart, and a batch dated ahead of the database's own clock is not taken.
 */
function startClock(): Clock {
  let [told_us, heard_ms] = [0, 0];
  return {
    now_us: () => told_us + Math.floor((performance.now() - heard_ms) * 1000),
    set: (clock_us) => {
      [told_us, heard_ms] = [Number(clock_us), performance.now()];
    },
  };
}

function observe(way: "ahead" | "read", { answers }: Decision, since: number): void {
  observeCommit(performance.now() - since);
  countBatch(way);
  countAnswers(answers);
}

/** A group by itself is repeated until it knows all of its ids. */
function mostAttempts(groups: readonly GroupOrder[]): number {
  return groups.length === 1 ? MAX_ATTEMPTS + (groups[0]?.transfers.length ?? 0) : MAX_ATTEMPTS;
}

function isTaken(error: unknown): boolean {
  return error instanceof Error && "code" in error && error.code === UNIQUE_VIOLATION;
}

function asError(error: unknown): Error {
  if (!(error instanceof Error)) return new Error("a batch failed", { cause: error });
  return isUnavailable(error) ? Object.assign(error, { unavailable: true }) : error;
}

function unread(account_id: number): never {
  throw new Error(`bug: account ${account_id} was not read before it was booked on`);
}

function ignore(): void {}
