// The books as an operator reads them on the command line, after a merchant was funded and paid.

import assert from "node:assert/strict";
import { test } from "node:test";
import { cauri, merchant } from "./house.ts";

async function json(...args: string[]) {
  const { code, stdout, stderr } = await cauri([...args, "--json"]);
  assert.equal(code, 0, `${args.join(" ")}: ${stdout}${stderr}`);
  return JSON.parse(stdout);
}

test("ledger: account, entries, statement and transfer tell the same money, as tables and as JSON", async () => {
  const at = await merchant("Reading");
  await json("sandbox", "fund", at.account_id, "--platform", "plt_mtn_ci", "--asset", "ast_xof", "--amount", "5000");
  await json("sandbox", "fund", at.account_id, "--platform", "plt_mtn_ci", "--asset", "ast_xof", "--amount", "2500");
  const account = [`merchant:${at.account_id}:plt_mtn_ci`, "--asset", "ast_xof", "--mode", "test"];
  const now = await json("ledger", "account", ...account);
  assert.deepEqual([now.balances.balance_minor, now.balances.available_minor, now.at], [7_500, 7_500, null]);
  const first = await json("ledger", "entries", ...account, "--limit", "1");
  assert.deepEqual([first.data.length, first.data[0].credits_posted_minor], [1, 2_500]);
  const second = await json("ledger", "entries", ...account, "--limit", "1", "--cursor", first.next_cursor);
  assert.deepEqual([second.data[0].after.balance_minor, second.next_cursor], [5_000, null]);
  const between = await json("ledger", "account", ...account, "--at", second.data[0].recorded_at);
  assert.equal(between.balances.balance_minor, 5_000);
  for (const by of ["recorded", "effective"]) {
    const stretch = ["--from", "2020-01-01", "--to", "2100-01-01", "--by", by];
    const statement = await json("ledger", "statement", ...account, ...stretch);
    assert.deepEqual(
      [statement.opening.balance_minor, statement.lines.length, statement.closing.balance_minor],
      [0, 2, 7_500],
    );
  }
  const { transfer } = await json("ledger", "transfer", first.data[0].transfer_id);
  assert.deepEqual([transfer.amount_minor, transfer.credit_code, transfer.state], [2_500, account[0], "posted"]);
  const table = await cauri(["ledger", "statement", ...account, "--from", "2020-01-01", "--to", "2100-01-01"]);
  assert.match(table.stdout, /^Opening {2}0,[\s\S]*RECORDED[\s\S]*^Closing {2}7500, available 7500$/m);
  assert.equal((await cauri(["ledger", "entries", ...account])).code, 0);
  assert.equal((await cauri(["ledger", "transfer", first.data[0].transfer_id])).code, 0);
});

test("ledger: the trial balance balances, clearing accounts are empty, wrong usage names what is wrong", async () => {
  const { balanced, data } = await json("ledger", "trial-balance", "--asset", "ast_xof", "--mode", "test");
  assert.deepEqual([balanced, data.length], [true, 1]);
  assert.equal((await cauri(["ledger", "trial-balance"])).code, 0);
  assert.ok(Array.isArray((await json("ledger", "clearing")).data));
  assert.deepEqual((await json("ledger", "archives")).data, []);
  assert.equal((await cauri(["ledger", "trial-balance", "--asset", "ast_typo"])).code, 1);
  const unknown = await cauri(["ledger", "account", "cash", "--asset", "ast_xof", "--json"]);
  assert.deepEqual([unknown.code, JSON.parse(unknown.stdout).error.code], [1, "invalid_request"]);
  assert.equal((await cauri(["ledger", "account", "fees", "--asset", "ast_xof", "--at", "yesterday"])).code, 2);
  for (const name of ["account", "entries", "statement", "transfer", "trial-balance", "clearing", "archives"]) {
    assert.match((await cauri(["ledger", name, "--help"])).stdout, new RegExp(`cauri ledger ${name}`));
  }
  const verified = await json("ledger", "verify", "--resume");
  assert.deepEqual([verified.ok, verified.first_bad_batch], [true, null]);
});
