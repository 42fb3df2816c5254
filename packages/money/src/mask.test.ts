import assert from "node:assert/strict";
import { test } from "node:test";
import { maskAccountNumber, maskEmail, maskIban, maskName, maskPhone } from "./mask.ts";

test("mask_phone: country code, two digits, five stars, two digits", () => {
  assert.equal(maskPhone("+2250712345607"), "+22507*****07");
  assert.equal(maskPhone("+221771234567"), "+22177*****67");
  assert.equal(maskPhone("+33612345678"), "+3361*****78");
  assert.equal(maskPhone("+15551234567"), "+155*****67");
  assert.equal(maskPhone("+79161234567"), "+791*****67");
  assert.equal(maskPhone("+2250712345607", 3), "+22507*****07");
});

test("mask_phone: a short number shows its country alone", () => {
  assert.equal(maskPhone("+2250712"), "+225*****");
});

test("mask_name: the first character of each word, not its length", () => {
  assert.equal(maskName("Awa Koné"), "A*** K***");
  assert.equal(maskName("  Awa   K "), "A*** K***");
  assert.equal(maskName("𝒜wa"), "𝒜***");
  assert.equal(maskName(""), "");
});

test("mask_email: first characters and the last label", () => {
  assert.equal(maskEmail("awa@example.com"), "a***@e***.com");
  assert.equal(maskEmail("awa@mail.example.co.ke"), "a***@m***.ke");
  assert.equal(maskEmail("awa@localhost"), "a***@l***");
});

test("mask_iban: country and last four", () => {
  assert.equal(maskIban("CI93 CI00 8011 1301 1342 9120 0589"), "CI*****0589");
});

test("mask_account_number: last four, or nothing of a short one", () => {
  assert.equal(maskAccountNumber("01234567890"), "*****7890");
  assert.equal(maskAccountNumber("1234567"), "*****");
});
