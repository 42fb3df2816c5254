// The secret of an API key: how it looks and what the house keeps of it. The edge and accounts must agree to the byte,
// so both have it from here.

import { createHmac, randomBytes } from "node:crypto";
import type { Mode } from "./mode.ts";

const BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/** 256 bits: guessing is hopeless, so the HMAC needs no slow hash. */
const SECRET_BYTES = 32;

/** 62^43 is just above 2^256: every secret has this many characters. */
const SECRET_LENGTH = 43;

const SECRET = /^sk_(?:test|live)_[0-9A-Za-z]{43}$/;

/** A new secret of this mode, `sk_test_…` or `sk_live_…`; it is shown once and never stored. */
export function newSecret(mode: Mode): string {
  let rest = BigInt(`0x${randomBytes(SECRET_BYTES).toString("hex")}`);
  let body = "";
  for (let i = 0; i < SECRET_LENGTH; i += 1) {
    body = BASE62.charAt(Number(rest % 62n)) + body;
    rest /= 62n;
  }
  return `sk_${mode}_${body}`;
}

/** Tells whether a text has the form of a secret; one that hasn't is unknown without asking anybody. */
export function isSecret(text: string): boolean {
  return SECRET.test(text);
}

/** What is stored and looked up: HMAC-SHA256 of the whole secret, keyed with CAURI_KEY_PEPPER as UTF-8 text. */
export function hmacOfSecret(secret: string, pepper: string): Buffer {
  return createHmac("sha256", pepper).update(secret).digest();
}
