// Mutants of the road on which money leaves a merchant, each of which the model of one merchant must catch, or the test that
// it names.

import type { Mutant } from "./mutants.ts";

export const MONEY_OUT_MUTANTS: readonly Mutant[] = [
  {
    name: "a failed payout's hold is not released",
    file: "services/payouts/src/payout.ts",
    from: `  pending: {
    settle: { to: "success", ledger: "capture", event: "payout.success" },
    reject: { to: "failed", ledger: "release",`,
    to: `  pending: {
    settle: { to: "success", ledger: "capture", event: "payout.success" },
    reject: { to: "failed", ledger: "none",`,
  },
  {
    name: "an unknown outcome is taken for a failure",
    file: "packages/rpc/src/sending.ts",
    from: 'return { kind: "unknown", word: word("accept") };',
    to: 'return { kind: "word", word: word("reject") };',
  },
  {
    name: "what may not have arrived is never sent again",
    file: "packages/events/src/outgoing-run.ts",
    from: 'if (answer.kind === "unknown") await kind.table.checkWithin(',
    to: 'if (answer.kind === "refused") await kind.table.checkWithin(',
    caught_by: "services/collections/src/refunds.db.test.ts",
  },
  {
    name: "the follow-up sends under another reference",
    file: "packages/events/src/outgoing-follow.ts",
    from: "rooms.rails.send(operation, `follow-up-",
    to: "rooms.rails.send({ ...operation, reference: operation.reference + '2' }, `follow-up-",
  },
  {
    name: "the sweeper sends under another reference",
    file: "packages/events/src/outgoing-run.ts",
    from: ": await rooms.rails.send(operation, request_id);\n  return await conclude(",
    to: ": await rooms.rails.send({ ...operation, reference: operation.reference + '2' }, request_id);\n  return await conclude(",
  },
  {
    name: "news that are heard again book their money again",
    file: "packages/money/src/outgoing-postings.ts",
    from: 'transferOf(operation.id, "suspense", posting)',
    to: 'transferOf(operation.id, "suspense " + Math.random(), posting)',
    caught_by: "services/payouts/src/withdrawal.db.test.ts",
  },
  {
    name: "older news after newer count",
    file: "packages/money/src/outgoing.ts",
    from: 'if (word.version === 0n || (operation.status === "initiated" && word.says === "accept")) return false;',
    to: "return false;",
  },
  {
    name: "a success over another amount is the operation's success",
    file: "packages/money/src/outgoing.ts",
    from: 'return other_amount || other_currency ? "mispay" : "settle";',
    to: 'return "settle";',
  },
  {
    name: "the state follows the message, not the ledger's answer",
    file: "packages/money/src/outgoing.ts",
    from: 'if (verdict === "hold_captured" &&',
    to: 'if (verdict === "stands" &&',
  },
  {
    name: "a runner that lost its lease writes all the same",
    file: "packages/store/src/together.ts",
    from: "lease === null || held.get(lease.operation_id) === lease.lease_no",
    to: "lease === null || held !== null",
    caught_by: "packages/store/src/together.db.test.ts",
  },
  {
    name: "the sum of refunds is not checked",
    file: "services/collections/src/refund.ts",
    from: "const rest = payment.amount_minor - payment.refunded_minor - payment.refunding_minor;",
    to: "const rest = payment.amount_minor - payment.refunded_minor;",
  },
  {
    name: "a failed refund keeps its part of the payment",
    file: "services/collections/src/refund-store.ts",
    from: "reserved: -amount_minor,",
    to: 'reserved: status === "failed" ? 0n : -amount_minor,',
  },
  {
    name: "a payment is refunded before its refunds have succeeded",
    file: "services/collections/src/store.ts",
    from: "status = case when p.refunded_minor + c.given_back = p.amount_minor then",
    to: "status = case when p.refunded_minor + p.refunding_minor = p.amount_minor then",
  },
  {
    name: "a withdrawal is approved without the binding check",
    file: "services/payouts/src/withdrawal-decide.ts",
    from: 'if (held === "insufficient_funds") {',
    to: "if (held === null) {",
  },
  {
    name: "an approval asks again under the ids of one that was refused",
    file: "services/payouts/src/withdrawal-store.ts",
    from: "set approval = approval + 1, version",
    to: "set version",
    caught_by: "services/payouts/src/withdrawal.db.test.ts",
  },
  {
    name: "a withdrawal goes where the account settles at its approval",
    file: "services/payouts/src/withdrawal-decide.ts",
    from: "copyDestination(caller, withdrawal.kept_as, withdrawal.id)",
    to: "copyDestination(caller, (await rooms.settlements.of(caller)).to?.kept_as ?? withdrawal.kept_as, withdrawal.id)",
  },
  {
    name: "the net of a withdrawal to another platform leaves no clearing",
    file: "services/payouts/src/withdrawal-postings.ts",
    from: "leaves ? post(",
    to: "false ? post(",
  },
  {
    name: "an approval that is under way doesn't keep others from deciding",
    file: "services/payouts/src/withdrawal-decide.ts",
    from: "if (await isUnderWay(tx, approvalId(locked))) return underWay();\n    const rejected",
    to: "const rejected",
  },
  {
    name: "the follow-up sends a withdrawal of nothing",
    file: "services/payouts/src/withdrawal-decide.ts",
    from: "if (withdrawal.amount_minor === 0n) {\n",
    to: "if (withdrawal.amount_minor < 0n) {\n",
    caught_by: "services/payouts/src/withdrawal.db.test.ts",
  },
  {
    name: "the event of a final state is lost",
    file: "packages/events/src/outgoing.ts",
    from: "for (const last of [table.record(tx, news), appendEvents(tx, events)])",
    to: "for (const last of [table.record(tx, news)])",
  },
  {
    name: "money that came back stays with the house",
    file: "services/payouts/src/payout.ts",
    from: 'ledger: "post_return"',
    to: 'ledger: "none"',
  },
  {
    name: "a return that is heard before the success is kept aside",
    file: "packages/events/src/outgoing.ts",
    from: 'const came_back = word.says === "return" &&',
    to: 'const came_back = word.says === "cancel" && word.source === "news" &&',
  },
  {
    name: "a draft that nobody can name is erased with its hold",
    file: "packages/events/src/outgoing-run.ts",
    from: 'if ((await rooms.ledger.reserve(draft)) === "stands") await rooms.ledger.post(draft, "release");',
    to: "",
  },
  {
    name: "a cancelled payout may have left",
    file: "services/payouts/src/operate.ts",
    from: 'if (answer.kind !== "word" || answer.word.source !== "withheld") {',
    to: 'if (answer.kind !== "word") {',
  },
];
