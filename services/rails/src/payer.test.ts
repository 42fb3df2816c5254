import assert from "node:assert/strict";
import { test } from "node:test";
import { checkPayer, isEmpty, maskPayer, readPayer, writePayer } from "./payer.ts";

const check = (payer: { phone?: string; name?: string; email?: string }, country = "CI") =>
  checkPayer({ phone: undefined, name: undefined, email: undefined, ...payer }, country, "payer");

/** Begins of mobile numbers that are valid with each pair of last digits: those of README. */
const SANDBOX: readonly (readonly [string, string])[] = [
  ["CI", "+22507070707"],
  ["CI", "+22507000000"],
  ["CI", "+22505050505"],
  ["CI", "+22501010101"],
  ["SN", "+2217712345"],
  ["SN", "+2217700000"],
  ["GH", "+2332412345"],
  ["BJ", "+22901979797"],
  ["BF", "+226701234"],
  ["ML", "+223650123"],
  ["TG", "+228901123"],
  ["NE", "+227931234"],
  ["GW", "+2459550123"],
];

test("payer: every sandbox phone of the README is valid with every pair of last digits", () => {
  for (const [country, begin] of SANDBOX) {
    for (let digits = 0; digits < 100; digits += 1) {
      const phone = begin + String(digits).padStart(2, "0");
      assert.deepEqual(check({ phone }, country), { phone }, `${country} ${phone}`);
    }
  }
});

test("payer: a phone of another country, of no plan or in another form is refused, naming the field", () => {
  const refused = {
    refused: "invalid_request",
    field: "payer.phone",
    message: "not a valid phone number for CI",
  };
  for (const phone of [
    "+221771234567",
    "+22507070707",
    "+225070707070799",
    "0707070707",
    "+225 07 07 07 07 07",
    "+2259907070707",
    "002250707070707",
    "",
    "+",
  ]) {
    assert.deepEqual(check({ phone }), refused, phone);
  }
  assert.deepEqual(check({ phone: "+2250707070707" }, "XX"), {
    ...refused,
    message: "not a valid phone number for XX",
  });
});

test("payer: name and e-mail have a shape", () => {
  for (const name of ["", "   ", "x".repeat(141)]) {
    assert.equal((check({ name }) as { field?: string }).field, "payer.name", JSON.stringify(name));
  }
  for (const email of ["", "awa", "awa@", "@x.ci", "a b@x.ci", "awa@ci", "awa@x..ci", `${"a".repeat(65)}@x.ci`]) {
    assert.equal((check({ email }) as { field?: string }).field, "payer.email", email);
  }
  const fine = { name: "Ọlá́ 🙂".repeat(2), email: "awa.koné+shop@exemple.co.ci" };
  assert.deepEqual(check(fine), fine);
});

test("payer: what is sealed comes back, what is shown is masked", () => {
  for (const payer of [{}, { phone: "+2250707070707" }, { name: "Awa Koné", email: "awa@exemple.ci" }]) {
    assert.deepEqual(readPayer(writePayer(payer)), payer);
    assert.equal(isEmpty(payer), Object.keys(payer).length === 0);
  }
  assert.deepEqual(maskPayer({ phone: "+2250707070707", name: "Awa Koné", email: "awa@exemple.com" }), {
    phone: "+22507*****07",
    name: "A*** K***",
    email: "a***@e***.com",
  });
});
