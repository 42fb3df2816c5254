// Mutants of the ledger's engine, each of which its histories or its engine's own tests must catch.

import type { Mutant } from "./mutants.ts";

const FOLDER = "services/ledger/src";

export const LEDGER_MUTANTS: readonly Mutant[] = [
  {
    name: "the pending side is forgotten",
    file: `${FOLDER}/decide.ts`,
    from: "debits_pending: balances.debits_pending + pending,",
    to: "debits_pending: balances.debits_pending,",
  },
  {
    name: "a remembered refusal is answered as if it stood",
    file: `${FOLDER}/decide.ts`,
    from: 'return known.refused ?? "exists";',
    to: 'return "exists";',
  },
  {
    name: "a refusal is not remembered",
    file: `${FOLDER}/decide.ts`,
    from: "if (isRemembered(result) && fields !== null) remember(",
    to: "if (false && fields !== null) remember(",
  },
  {
    name: "a refused group leaves its first transfers behind",
    file: `${FOLDER}/decide.ts`,
    from: "    undo(work, mark);\n",
    to: "",
  },
  {
    name: "more than the hold can be captured",
    file: `${FOLDER}/decide.ts`,
    from: 'if (amount > hold.amount) return { result: "exceeds_hold", fields };',
    to: "",
  },
  {
    name: "an ended hold can be ended again",
    file: `${FOLDER}/decide.ts`,
    from: 'if (hold.state !== "held") return',
    to: "if (amount < 0n) return",
  },
  {
    name: "the rest of a captured hold stays set aside",
    file: `${FOLDER}/decide.ts`,
    from: "-hold.amount, captured);",
    to: "-amount, captured);",
  },
  {
    name: "another amount under the same id is taken for the same order",
    file: `${FOLDER}/decide.ts`,
    from: "fields.amount === amount &&",
    to: "",
  },
  {
    name: "an account may be overdrawn by the engine's judgement",
    file: `${FOLDER}/decide.ts`,
    from: 'if (overdrawn) return "insufficient_funds";',
    to: "",
  },
  {
    name: "due holds are not expired first",
    file: `${FOLDER}/decide.ts`,
    from: "for (const hold of dueHolds(state)) expire(work, hold);",
    to: "",
  },
  {
    name: "a balance is read from its account's row alone",
    file: `${FOLDER}/batch-store.ts`,
    from: "} from balances where lane_id",
    to: "} from accounts where lane_id",
  },
  {
    name: "what is carried into an account's row is its first entry of the stretch",
    file: `${FOLDER}/carry-store.ts`,
    from: "t.recorded_at desc, t.position desc),",
    to: "t.recorded_at, t.position),",
  },
  {
    name: "the lane is not locked before it is read",
    file: `${FOLDER}/batch-store.ts`,
    from: "where lane_id = $1 for update",
    to: "where lane_id = $1",
  },
  {
    name: "what is remembered of a lane is kept though another replica has moved it",
    file: `${FOLDER}/lane.ts`,
    from: "before?.head.equals(previous.head) === true ? before : null",
    to: "before",
  },
  {
    name: "known ids are not looked for",
    file: `${FOLDER}/batch-store.ts`,
    from: "named.ids.size > 0 ?",
    to: "named.ids.size > 1e9 ?",
  },
  {
    name: "a batch that is to be decided again is overtaken by one that came after it",
    file: `${FOLDER}/lane.ts`,
    from: "await (overtaken ? turn.done : turn.decided)",
    to: "await turn.decided",
  },
  {
    name: "ids that a batch names and doesn't book are not checked",
    file: `${FOLDER}/lane.ts`,
    from: "ahead === null ? [] : unbookedOf(ahead, answers)",
    to: "[]",
  },
  {
    name: "a due hold is not looked for when the batch was decided ahead",
    file: `${FOLDER}/lane.ts`,
    from: "if (no_overdraft) guarded.push(account_id);",
    to: "",
  },
];
