// `cauri`, as an operator types it: the commands' JSON, exit codes and sentences.

import assert from "node:assert/strict";
import { test } from "node:test";
import { api, cauri, eventually, merchant, noteSecret, paymentBody, paymentIs } from "./house.ts";

async function json(...args: string[]) {
  const { code, stdout, stderr } = await cauri([...args, "--json"]);
  assert.equal(code, 0, `${args.join(" ")}: ${stderr}${stdout}`);
  return JSON.parse(stdout);
}

test("account and key: from sign-up to a first payment, by the command line alone", async () => {
  const account = await json(
    "account",
    "create",
    "--name",
    "Awa's shop",
    "--country",
    "CI",
    "--email",
    "awa@example.com",
  );
  assert.match(account.account_id, /^acct_/);
  assert.deepEqual([account.status, account.is_live, account.products, account.options], ["pending", false, [], []]);
  noteSecret(account.first_key.secret);
  assert.equal((await json("account", "approve", account.account_id)).status, "approved");
  const key = await json("key", "create", account.account_id, "--mode", "test", "--scopes", "all", "--name", "till");
  assert.match(noteSecret(key.secret), /^sk_test_[0-9A-Za-z]{43}$/);
  const { body } = await api(key.secret).post("/v1/payments", paymentBody("04"));
  const driven = await json("sandbox", "advance", body.id, "--to", "success");
  assert.deepEqual([driven.id, driven.status], [body.id, "success"]);
  await paymentIs(api(key.secret), body.reference, "success");
  const keys = await json("key", "list", account.account_id);
  assert.equal(keys.data.length, 2);
  assert.ok(keys.data.every((row: { secret?: unknown }) => (row.secret ?? null) === null));
  const set = await json(
    "account",
    "set",
    account.account_id,
    "--live",
    "on",
    "--product",
    "tontine=on",
    "--option",
    "internal_transfers=on",
  );
  assert.deepEqual([set.is_live, set.products, set.options], [true, ["tontine"], ["internal_transfers"]]);
});

test("corridors and fees: closing one refuses at once, a fee line of the account counts for the next payment", async () => {
  const at = await merchant("Terms");
  await json(
    "fee",
    "set",
    "--operation",
    "collection",
    "--asset",
    "ast_xof",
    "--account",
    at.account_id,
    "--percent-bps",
    "200",
    "--fixed-minor",
    "50",
  );
  const paid = await at.test.post("/v1/payments", paymentBody("01"));
  assert.equal(paid.body.fee_minor, 250, paid.text);
  const corridors = await json("corridor", "list");
  const wave = corridors.data.find(
    (row: { platform_id: string; direction: string }) =>
      row.platform_id === "plt_wave_sn" && row.direction === "collection",
  );
  const body = { amount_minor: 1_000, asset_id: "ast_xof", platform_id: "plt_wave_sn" };
  assert.equal((await at.test.post("/v1/payments", body)).status, 201);
  assert.equal((await json("corridor", "close", wave.corridor_id)).is_open, false);
  try {
    // Collections has asked for these terms, and forgets them when it hears that they changed.
    const again = () => at.test.post("/v1/payments", body);
    const refused = await eventually("the corridor is known to be closed", again, ({ status }) => status !== 201);
    assert.deepEqual([refused.status, refused.body.error.code], [422, "invalid_request"]);
    assert.ok(refused.body.error.message.startsWith("platform_id:"), refused.text);
  } finally {
    await json("corridor", "open", wave.corridor_id);
  }
});

test("sandbox fund: money appears, once per command, in the mode asked for", async () => {
  const at = await merchant("Fund");
  const fund = ["sandbox", "fund", at.account_id, "--platform", "plt_mtn_ci", "--asset", "ast_xof", "--amount"];
  assert.equal((await json(...fund, "5000")).available_minor, 5_000);
  assert.equal((await json(...fund, "2500")).available_minor, 7_500);
});

test("refusals: exit 1 with the sentence and its JSON; wrong usage: exit 2; help has an example", async () => {
  const unknown = await cauri(["account", "show", "acct_01KAE8QK8Q5V6ZJ9T2N4B7C1XW", "--json"]);
  assert.equal(unknown.code, 1);
  assert.equal(JSON.parse(unknown.stdout).error.code, "not_found");
  assert.ok(unknown.stderr.length > 0);
  assert.equal((await cauri(["account", "nonsense"])).code, 2);
  assert.equal((await cauri(["key", "create"])).code, 2);
  const help = await cauri(["key", "create", "--help"]);
  assert.equal(help.code, 0);
  assert.match(help.stdout, /cauri key create /);
  const at = await merchant("Arrows");
  const { body } = await at.test.post("/v1/payments", paymentBody("01"));
  const refused = await cauri(["sandbox", "advance", body.id, "--to", "dispute", "--json"]);
  assert.equal(refused.code, 1);
  assert.equal(JSON.parse(refused.stdout).error.code, "precondition_failed");
});

test("ledger verify: the books of the whole run hold", async () => {
  const verified = await json("ledger", "verify");
  assert.deepEqual([verified.ok, verified.problems], [true, []]);
  assert.ok(verified.transfers > 0 && verified.entries >= verified.transfers && verified.batches > 0);
});
