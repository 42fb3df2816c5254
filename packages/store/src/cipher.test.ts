import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { test } from "node:test";
import { openCipher } from "./cipher.ts";

const key = () => randomBytes(32).toString("base64");
const plain = Buffer.from("whsec_example");

test("cipher: what was sealed opens in its own place only", () => {
  const cipher = openCipher(`k1:${key()}`);
  const sealed = cipher.seal(plain, "endpoint:1");
  assert.deepEqual(cipher.open(sealed, "endpoint:1"), plain);
  assert.throws(() => cipher.open(sealed, "endpoint:2"));
  assert.ok(!sealed.includes(plain));
});

test("cipher: the same text is never sealed to the same bytes", () => {
  const cipher = openCipher(`k1:${key()}`);
  assert.notDeepEqual(cipher.seal(plain, "a"), cipher.seal(plain, "a"));
});

test("cipher: an older key opens after a new one was put in front, and a dropped one is named", () => {
  const [old, fresh] = [`k1:${key()}`, `k2:${key()}`];
  const sealed = openCipher(old).seal(plain, "a");
  const both = openCipher(`${fresh},${old}`);
  assert.equal(both.keyId, "k2");
  assert.deepEqual(both.open(sealed, "a"), plain);
  assert.throws(() => openCipher(fresh).open(sealed, "a"), /"k1"/);
});

test("cipher: every changed byte is noticed", () => {
  const cipher = openCipher(`k1:${key()}`);
  const sealed = cipher.seal(plain, "a");
  for (let at = 0; at < sealed.length; at++) {
    const changed = Buffer.from(sealed);
    changed[at] = (changed[at] ?? 0) ^ 1;
    assert.throws(() => cipher.open(changed, "a"), `byte ${at}`);
  }
  assert.throws(() => cipher.open(sealed.subarray(0, 10), "a"));
  assert.throws(() => cipher.open(Buffer.alloc(0), "a"));
});

test("cipher: senseless keys stop the boot without being shown", () => {
  for (const keys of ["", "abc", "k1:c2hvcnQ=", `k1:${key()},k1:${key()}`, `bad id:${key()}`]) {
    assert.throws(() => openCipher(keys), /CAURI_VAULT_KEYS/);
  }
  assert.throws(
    () => openCipher("k1:c2hvcnQ="),
    (error: Error) => !error.message.includes("c2hvcnQ"),
  );
});
