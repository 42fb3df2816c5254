// References: the short names of operations that people read aloud, operators' fields hold and a QR's label carries.
// Also: what a text in a path may mean, and which texts a merchant may not choose as its own `client_ref`.

import { randomBytes } from "node:crypto";
import { CROCKFORD, ID_BODY, ID_BODY_LENGTH, ID_PREFIXES } from "./ids.ts";
import type { Mode } from "./mode.ts";

/** Every kind of operation that has a reference; the words are the public contract's. */
export const REFERENCE_KINDS = [
  "PAY",
  "PYT",
  "RFD",
  "TRF",
  "RBL",
  "PLK",
  "SUB",
  "WDR",
  "DSP",
  "RTP",
  "PER",
  "TON",
] as const;

export type ReferenceKind = (typeof REFERENCE_KINDS)[number];

/** One reading of the text that a caller gave where an operation is named. */
export type OperationRef = { readonly by: "id" | "reference" | "client_ref"; readonly value: string };

/** 1 to 64 characters, the first a letter or digit. */
export const CLIENT_REF = /^[A-Za-z0-9][A-Za-z0-9._:-]{0,63}$/;

const BODY_LENGTH = 12;
/** A test reference begins so and a live one never does: the signed body of a webhook tells the mode by it. */
const TEST_MARK = "TEST";

const REFERENCE = new RegExp(`^(?:${REFERENCE_KINDS.join("|")})-[${CROCKFORD}]{${BODY_LENGTH}}$`);
const ID_KIND = new RegExp(`^(?:${ID_PREFIXES.join("|")})$`);
const LOOKS_LIKE_ID = new RegExp(`^(?:${ID_PREFIXES.join("|")})_.{${ID_BODY_LENGTH}}$`, "i");
const LOOKS_LIKE_REFERENCE = new RegExp(`^(?:${REFERENCE_KINDS.join("|")})-.{${BODY_LENGTH}}$`, "i");

/**
 * Mints a reference: 60 random bits in live mode, 40 after the mark in test mode.
 * The column that stores it is unique, so whoever writes it mints another one in the rare case of a clash.
 */
export function newReference(kind: ReferenceKind, mode: Mode): string {
  if (mode === "test") return `${kind}-${TEST_MARK}${randomCharacters(BODY_LENGTH - TEST_MARK.length)}`;
  let body = randomCharacters(BODY_LENGTH);
  while (body.startsWith(TEST_MARK)) body = randomCharacters(BODY_LENGTH);
  return `${kind}-${body}`;
}

/** Tells whether a text has the prefix and length of one of our ids or references, in either case: no `client_ref` may. */
export function looksLikeOurs(text: string): boolean {
  return LOOKS_LIKE_ID.test(text) || LOOKS_LIKE_REFERENCE.test(text);
}

/**
 * What a text that names an operation can mean, in the order in which the meanings are tried.
 * An empty list means that nothing can have this name (the answer is 404, not 422). References are compared in upper case.
 */
export function parseOperationRef(text: string): OperationRef[] {
  const candidates: OperationRef[] = [];
  const separator = text.indexOf("_");
  if (separator > 0 && ID_KIND.test(text.slice(0, separator)) && ID_BODY.test(text.slice(separator + 1))) {
    candidates.push({ by: "id", value: text });
  }
  const upper = text.toUpperCase();
  if (REFERENCE.test(upper)) candidates.push({ by: "reference", value: upper });
  if (CLIENT_REF.test(text) && !looksLikeOurs(text)) candidates.push({ by: "client_ref", value: text });
  return candidates;
}

function randomCharacters(count: number): string {
  // 256 is a multiple of 32, so the low five bits of a random byte are evenly spread.
  return Array.from(randomBytes(count), (byte) => CROCKFORD.charAt(byte & 31)).join("");
}
