// Answers of another room held in memory for a moment, since every creation needs them and they change a few times a day.
// An event forgets them at once, five seconds do so without one.

import { isRefusal, type Refusal } from "@cauri/money/refusal";

/** The longest that a change may stay unknown where its event was lost (wire.md). */
const MAX_AGE_MS = 5_000;
/** Merchants x platforms in use within five seconds; beyond it, all are asked anew. */
const MAX_ENTRIES = 20_000;

type Entry<V> = { readonly since: number; readonly answer: Promise<V | Refusal> };

export type Held<V> = {
  /** What is held under these words, or what `fetch` answers now. The first word is the account that asks. */
  get(words: readonly [account: string, ...rest: string[]], fetch: () => Promise<V | Refusal>): Promise<V | Refusal>;
  /** Forgets what one account has asked, or everything where none is named. */
  forget(account: string): void;
};

/** `isWorthHolding` says which answers may stay: a guessed name must not fill the memory. */
export function holdAnswers<V>(isWorthHolding: (answer: V) => boolean): Held<V> {
  const held = new Map<string, Entry<V>>();
  return {
    get(words, fetch) {
      const key = JSON.stringify(words);
      const known = held.get(key);
      if (known !== undefined && performance.now() - known.since < MAX_AGE_MS) return known.answer;
      // The promise itself is held, so that callers at the same moment share one question; whoever forgets it while it
      // is under way makes the next caller ask again.
      const answer = fetch();
      if (held.size >= MAX_ENTRIES) held.clear();
      const mine: Entry<V> = { since: performance.now(), answer };
      held.set(key, mine);
      const drop = () => {
        if (held.get(key) === mine) held.delete(key);
      };
      // Neither a fault nor a refusal is an answer to remember.
      answer.then((value) => {
        if (isRefusal(value) || !isWorthHolding(value)) drop();
      }, drop);
      return answer;
    },
    forget(account) {
      if (account === "") held.clear();
      const prefix = JSON.stringify([account]).slice(0, -1);
      for (const key of held.keys()) if (key.startsWith(prefix)) held.delete(key);
    },
  };
}
