import assert from "node:assert/strict";
import { test } from "node:test";
import { checkDestination, maskDestination, readDestination, writeDestination } from "./destination.ts";

const NONE = { phone: undefined, iban: undefined, accountNumber: undefined, bankCode: undefined, name: undefined };
type Given = Parameters<typeof checkDestination>[0];
const check = (given: Partial<Given> & { type: string }, country = "CI") =>
  checkDestination({ ...NONE, ...given }, country, "destination");
function refusalOf(given: Partial<Given> & { type: string }, country = "CI"): string {
  const checked = check(given, country);
  assert.ok("refused" in checked);
  return `${checked.field}: ${checked.message}`;
}

test("destination: a wallet needs a valid phone of the platform's country", () => {
  assert.deepEqual(check({ type: "mobile_wallet", phone: "+2250707070700", name: "Awa" }), {
    type: "mobile_wallet",
    phone: "+2250707070700",
    name: "Awa",
  });
  assert.equal(refusalOf({ type: "mobile_wallet" }), "destination.phone: is required for a mobile_wallet");
  for (const phone of ["+221771234567", "0707070700", "+22507", "+225 0707070700"]) {
    assert.equal(refusalOf({ type: "mobile_wallet", phone }), "destination.phone: not a valid phone number for CI");
  }
});

test("destination: an IBAN is checked by country, length and the remainder by 97", () => {
  const iban = "CI93 CI00 8011 1301 1342 9120 0589";
  assert.deepEqual(check({ type: "bank_account", iban }), { type: "bank_account", iban: iban.replaceAll(" ", "") });
  const wrong = "destination.iban: not a valid IBAN of CI";
  for (const bad of [
    "CI94CI0080111301134291200589",
    "CI93CI008011130113429120058",
    "FR1420041010050500013M02606",
    "x",
  ]) {
    assert.equal(refusalOf({ type: "bank_account", iban: bad }), wrong, bad);
  }
  assert.equal(refusalOf({ type: "bank_account", iban }, "SN"), "destination.iban: not a valid IBAN of SN");
  assert.equal(refusalOf({ type: "bank_account", iban }, "GH"), "destination.iban: not a valid IBAN of GH");
});

test("destination: without an IBAN account number and bank code stand together", () => {
  const given = { type: "bank_account", accountNumber: "0123-4567 8900", bankCode: "ci001" };
  const kept = { type: "bank_account", account_number: "012345678900", bank_code: "CI001" };
  assert.deepEqual(check(given), kept);
  assert.match(refusalOf({ type: "bank_account" }), /^destination\.iban: is required/);
  assert.match(refusalOf({ ...given, bankCode: undefined }), /^destination\.bank_code: is required/);
  assert.match(refusalOf({ ...given, accountNumber: "12" }), /^destination\.account_number: must have/);
  for (const bankCode of ["SN001", "CI01", "CI0001", "!"]) {
    assert.equal(refusalOf({ ...given, bankCode }), "destination.bank_code: not a bank code of CI");
  }
  assert.match(refusalOf({ ...given, iban: "CI93CI0080111301134291200589" }), /^destination\.iban: give either/);
});

test("destination: another type and an empty name are refused", () => {
  assert.match(refusalOf({ type: "alias" }), /^destination\.type: /);
  assert.match(refusalOf({ type: "mobile_wallet", phone: "+2250707070700", name: " " }), /^destination\.name: /);
});

test("destination: masks show country and ends, and what is sealed is read as it was", () => {
  const given = [
    { type: "mobile_wallet", phone: "+2250707070707", name: "Awa Kone" },
    { type: "bank_account", iban: "CI93CI0080111301134291200589" },
    { type: "bank_account", accountNumber: "012345678900", bankCode: "CI001" },
  ].map((one) => {
    const checked = check(one);
    assert.ok(!("refused" in checked));
    assert.deepEqual(readDestination(writeDestination(checked)), checked);
    return maskDestination(checked);
  });
  assert.deepEqual(given, [
    { type: "mobile_wallet", phone: "+22507*****07", name: "A*** K***" },
    { type: "bank_account", iban: "CI*****0589" },
    { type: "bank_account", accountNumber: "*****8900", bankCode: "CI001" },
  ]);
});
