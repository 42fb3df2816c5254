// Mutants of the engine: each is one change that a tired engineer could make. Loaded by `node --import` with CAURI_MUTANT
// it changes the source while Node reads it; the proofs must then fail, or they prove too little.

import { readFileSync } from "node:fs";
import { registerHooks } from "node:module";
import { fileURLToPath } from "node:url";

export type Mutant = { readonly name: string; readonly file: string; readonly from: string; readonly to: string };

export const MUTANTS: readonly Mutant[] = [
  {
    name: "the pending side is forgotten",
    file: "decide.ts",
    from: "debits_pending: balances.debits_pending + pending,",
    to: "debits_pending: balances.debits_pending,",
  },
  {
    name: "a remembered refusal is answered as if it stood",
    file: "decide.ts",
    from: 'return known.refused ?? "exists";',
    to: 'return "exists";',
  },
  {
    name: "a refusal is not remembered",
    file: "decide.ts",
    from: "if (isRemembered(result) && fields !== null) remember(",
    to: "if (false && fields !== null) remember(",
  },
  {
    name: "a refused group leaves its first transfers behind",
    file: "decide.ts",
    from: "    undo(work, mark);\n",
    to: "",
  },
  {
    name: "more than the hold can be captured",
    file: "decide.ts",
    from: 'if (amount > hold.amount) return { result: "exceeds_hold", fields };',
    to: "",
  },
  {
    name: "an ended hold can be ended again",
    file: "decide.ts",
    from: 'if (hold.state !== "held") return',
    to: "if (amount < 0n) return",
  },
  {
    name: "the rest of a captured hold stays set aside",
    file: "decide.ts",
    from: "-hold.amount, captured);",
    to: "-amount, captured);",
  },
  {
    name: "another amount under the same id is taken for the same order",
    file: "decide.ts",
    from: "fields.amount === amount &&",
    to: "",
  },
  {
    name: "an account may be overdrawn by the engine's judgement",
    file: "decide.ts",
    from: 'if (overdrawn) return "insufficient_funds";',
    to: "",
  },
  {
    name: "due holds are not expired first",
    file: "decide.ts",
    from: "for (const hold of dueHolds(state)) expire(work, hold);",
    to: "",
  },
  {
    name: "the lane is not locked before it is read",
    file: "batch-store.ts",
    from: "where lane_id = $1 for update",
    to: "where lane_id = $1",
  },
  {
    name: "what is remembered of a lane is kept though another replica has moved it",
    file: "lane.ts",
    from: "before?.head.equals(previous.head) === true ? before : null",
    to: "before",
  },
  {
    name: "known ids are not looked for",
    file: "batch-store.ts",
    from: "named.ids.size > 0 ?",
    to: "named.ids.size > 1e9 ?",
  },
  {
    name: "a batch that is to be decided again is overtaken by one that came after it",
    file: "lane.ts",
    from: "await (this.#refused > 0 ? turn.done : turn.decided)",
    to: "await turn.decided",
  },
  {
    name: "ids that a batch names and doesn't book are not checked",
    file: "lane.ts",
    from: "ahead === null ? [] : unbookedOf(ahead, effects)",
    to: "[]",
  },
  {
    name: "a due hold is not looked for when the batch was decided ahead",
    file: "lane.ts",
    from: "const guarded = state.accounts.filter((account) => account.no_overdraft)",
    to: "const guarded = state.accounts.filter(() => false)",
  },
];

const wanted = MUTANTS.find(({ name }) => name === process.env["CAURI_MUTANT"]);
if (wanted !== undefined) {
  registerHooks({
    load(url, context, next) {
      const loaded = next(url, context);
      if (!url.endsWith(`/services/ledger/src/${wanted.file}`)) return loaded;
      const source = readFileSync(fileURLToPath(url), "utf8");
      if (!source.includes(wanted.from)) throw new Error(`the mutant fits no more: ${wanted.name}`);
      return { ...loaded, source: source.replace(wanted.from, wanted.to) };
    },
  });
}
