// A state machine as a table: state x news -> next state, what the ledger does, what the world hears.
// `move` reads it; `pathsOf` walks it, so that a test can hold every path against the money rules.

export type Move = { readonly to: string; readonly ledger: string; readonly event: string | null };

/** A table written `as const satisfies Moves`; a state that nothing leaves is `{}`. */
export type Moves = { readonly [state: string]: { readonly [news: string]: Move } };

export type StateOf<T extends Moves> = keyof T & string;
export type NewsOf<T extends Moves> = { [S in keyof T]: keyof T[S] }[keyof T] & string;
export type MoveOf<T extends Moves> = { [S in keyof T]: T[S][keyof T[S]] }[keyof T];

/** One step of a path: where it began, what arrived, and what the table says. */
export type Step = Move & { readonly from: string; readonly news: string };

/** The move that these news cause, or null where no arrow is drawn: a command is then refused, news change nothing. */
export function move<T extends Moves>(table: T, state: StateOf<T>, news: NewsOf<T>): MoveOf<T> | null {
  const row = table[state];
  if (row === undefined) throw new Error(`no such state in the table: ${state}`);
  return Object.hasOwn(row, news) ? ((row[news] as MoveOf<T> | undefined) ?? null) : null;
}

/** Every path from a state, each arrow taken at most once in it, the empty path included. */
export function* pathsOf<T extends Moves>(table: T, start: StateOf<T>): Generator<readonly Step[]> {
  yield* extend(table, start, []);
}

function* extend(table: Moves, state: string, path: readonly Step[]): Generator<readonly Step[]> {
  yield path;
  const row = table[state];
  if (row === undefined) throw new Error(`a move leads to a state that the table doesn't have: ${state}`);
  for (const [news, next] of Object.entries(row)) {
    if (path.some((step) => step.from === state && step.news === news)) continue;
    yield* extend(table, next.to, [...path, { from: state, news, ...next }]);
  }
}
