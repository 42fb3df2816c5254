import assert from "node:assert/strict";
import { test } from "node:test";
import { pathsOf } from "@cauri/money/moves";
import { isRefusal, type Refusal } from "@cauri/money/refusal";
import {
  type Account,
  type AccountCommand,
  accountMoves,
  checkSignUp,
  command,
  statusShown,
  switched,
} from "./account.ts";

const account: Account = {
  account_id: "acct_1",
  name: "Baobab",
  country: "CI",
  email: "a@b.ci",
  status: "pending",
  is_live: false,
  products: [],
  options: [],
  closing_since: null,
  settlement: null,
  created_at: new Date(0),
};

const fieldOf = (answer: unknown) => (isRefusal(answer) ? answer.field : assert.fail("was not refused"));

test("account_moves: every path keeps to the states, none leaves closed, none returns to pending", () => {
  for (const path of pathsOf(accountMoves, "pending")) {
    for (const [i, step] of path.entries()) {
      assert.notEqual(step.from, "closed");
      assert.notEqual(step.to, "pending");
      assert.equal(step.event, "account.changed");
      assert.equal(step.ledger, "none");
      if (i > 0) assert.equal(path[i - 1]?.to, step.from);
    }
  }
});

test("command: what is drawn leads on, what is not is refused with the state named", () => {
  assert.equal(command(account, "approve"), "approved");
  assert.equal(command({ ...account, status: "approved" }, "suspend"), "suspended");
  assert.equal(command({ ...account, status: "suspended" }, "reinstate"), "approved");
  for (const status of ["pending", "approved", "suspended"] as const) {
    assert.equal(command({ ...account, status }, "close"), "closed");
  }
  const illegal: [Account["status"], AccountCommand][] = [
    ["approved", "approve"],
    ["pending", "suspend"],
    ["pending", "reinstate"],
    ["approved", "reinstate"],
    ["suspended", "approve"],
    ["closed", "approve"],
    ["closed", "close"],
    ["closed", "reinstate"],
  ];
  for (const [status, asked] of illegal) {
    const answer = command({ ...account, status }, asked) as Refusal;
    assert.equal(answer.refused, "precondition_failed");
    assert.match(answer.message, new RegExp(status));
  }
});

test("command: while a close is being decided only close is heard, and the account shows as suspended", () => {
  const closing: Account = { ...account, status: "approved", closing_since: new Date(0) };
  assert.equal(statusShown(closing), "suspended");
  assert.equal(command(closing, "close"), "closed");
  assert.ok(isRefusal(command(closing, "suspend")));
});

test("check_sign_up: every bad value is refused with its field", () => {
  const good = { name: " Baobab SARL ", country: "CI", email: "ops@baobab.ci" };
  assert.deepEqual(checkSignUp(good), { ...good, name: "Baobab SARL" });
  assert.equal(fieldOf(checkSignUp({ ...good, name: "  " })), "name");
  assert.equal(fieldOf(checkSignUp({ ...good, name: "x".repeat(121) })), "name");
  assert.equal(fieldOf(checkSignUp({ ...good, name: "a\u0000b" })), "name");
  for (const country of ["", "ci", "CIV", "QX", "ZZ", "1A"])
    assert.equal(fieldOf(checkSignUp({ ...good, country })), "country");
  for (const email of ["", "nobody", "a@b", "a b@c.ci", "a@b@c.ci", "a@b..ci", `${"x".repeat(250)}@b.ci`]) {
    assert.equal(fieldOf(checkSignUp({ ...good, email })), "email");
  }
});

test("switched: the last switch of a word counts, the rest stays, an unknown word is refused", () => {
  assert.deepEqual(switched("products", [], [{ name: "tontine", on: true }]), ["tontine"]);
  assert.deepEqual(switched("products", ["tontine"], [{ name: "instant_payment", on: true }]), [
    "instant_payment",
    "tontine",
  ]);
  const twice = [
    { name: "tontine", on: true },
    { name: "tontine", on: false },
  ];
  assert.deepEqual(switched("products", ["instant_payment"], twice), ["instant_payment"]);
  assert.equal(fieldOf(switched("options", [], [{ name: "tontine", on: true }])), "options.0.name");
});
