// Internal ids: a prefix, `_` and a UUIDv7 as 26 Crockford base32 characters, so that ids of one kind sort by time.
// Whatever follows from an operation (ledger transfers, events, attempts) gets an id derived from it,
// so that a step run twice names the same thing twice.

import { hash, randomFillSync } from "node:crypto";

/** Crockford's base32: no I, L, O, U, so that a person can read an id aloud. Its order is the order of the bytes. */
export const CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/** Every kind of thing that has an internal id; the words are the public contract's. */
export const ID_PREFIXES = [
  "pay",
  "po",
  "re",
  "tr",
  "rb",
  "pl",
  "plan",
  "sub",
  "inv",
  "pm",
  "wr",
  "dp",
  "acl",
  "qr",
  "rtp",
  "rec",
  "per",
  "ton",
  "acct",
  "key",
  "evt",
  "dl",
  "ast",
  "plt",
  "cor",
  "req",
  "whk",
] as const;

export type IdPrefix = (typeof ID_PREFIXES)[number];

/** 128 bits in base32: the first character carries only 3 of them, so it never exceeds 7. */
export const ID_BODY = /^[0-7][0-9A-HJKMNP-TV-Z]{25}$/;
export const ID_BODY_LENGTH = 26;

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;
const TIME_BYTES = 6;
const UUID_BYTES = 16;
/** The 26 characters hold 130 bits: the two in front of the UUID are zero. */
const EMPTY_BITS = 2;
const CHARACTER_BITS = 5;
/** The value of each character by its code; an id's form is checked before. */
const VALUES = Uint8Array.from({ length: 128 }, (_, code) => Math.max(0, CROCKFORD.indexOf(String.fromCharCode(code))));

/** Random bytes are fetched for so many ids at once: the call into the system costs more than everything else here. */
const chance = Buffer.alloc(256 * UUID_BYTES);
let used = chance.length;

/** Mints an id whose first 48 bits are `now_ms` and whose other 74 free bits are random. */
export function newId(prefix: IdPrefix, now_ms: number): string {
  if (used === chance.length) {
    randomFillSync(chance);
    used = 0;
  }
  // Each stretch of chance serves one id, so that it may be written over in its place.
  const bytes = chance.subarray(used, used + UUID_BYTES);
  used += UUID_BYTES;
  bytes.writeUIntBE(Math.trunc(now_ms), 0, TIME_BYTES);
  return `${prefix}_${encodeBody(stamp(bytes, 7))}`;
}

/** Tells whether a text is a well-formed id of this kind; the body is upper case, as we write it. */
export function isId(prefix: IdPrefix, text: string): boolean {
  return text.startsWith(`${prefix}_`) && ID_BODY.test(text.slice(prefix.length + 1));
}

/** The UUID behind an id, in the lower-case text form of PostgreSQL's `uuid`. */
export function uuidOf(id: string): string {
  return uuidText(bytesOf(id));
}

/** The id of this kind that stands for a UUID: the inverse of `uuidOf`. */
export function idFromUuid(prefix: IdPrefix, uuid: string): string {
  if (!UUID.test(uuid)) throw new Error(`not a UUID in lower case: ${JSON.stringify(uuid)}`);
  return `${prefix}_${encodeBody(Buffer.from(uuid.replaceAll("-", ""), "hex"))}`;
}

/**
 * The UUID (version 8) of one step of a parent: always the same for the same two texts.
 * Where the parent is an id of ours its 48 bits of time are kept, so that what is derived lands beside its neighbours
 * in an index instead of all over it; the 74 bits of SHA-256 that remain are as many as a UUIDv7 has at random.
 */
export function deriveUuid(parent: string, step: string): string {
  return uuidText(derive(parent, step));
}

/** `deriveUuid` in the form of an id. */
export function deriveId(prefix: IdPrefix, parent: string, step: string): string {
  return `${prefix}_${encodeBody(derive(parent, step))}`;
}

function derive(parent: string, step: string): Buffer {
  // NUL separates the two, so that ("a", "bc") and ("ab", "c") are different steps.
  const digest = hash("sha256", `${parent}\0${step}`, "buffer").subarray(0, UUID_BYTES);
  if (hasBody(parent)) bytesOf(parent).copy(digest, 0, 0, TIME_BYTES);
  return stamp(digest, 8);
}

/** Writes the version and the variant of RFC 9562 into 16 bytes. */
function stamp(bytes: Buffer, version: 7 | 8): Buffer {
  bytes.writeUInt8((bytes.readUInt8(6) & 0x0f) | (version << 4), 6);
  bytes.writeUInt8((bytes.readUInt8(8) & 0x3f) | 0x80, 8);
  return bytes;
}

function encodeBody(bytes: Buffer): string {
  let body = "";
  let held = 0;
  let bits = EMPTY_BITS;
  for (let at = 0; at < UUID_BYTES; at += 1) {
    held = ((held & 31) << 8) | bytes.readUInt8(at);
    for (bits += 8; bits >= CHARACTER_BITS; bits -= CHARACTER_BITS) {
      body += CROCKFORD.charAt((held >>> (bits - CHARACTER_BITS)) & 31);
    }
  }
  return body;
}

function hasBody(id: string): boolean {
  return ID_BODY.test(id.slice(id.lastIndexOf("_") + 1));
}

function bytesOf(id: string): Buffer {
  const body = id.slice(id.lastIndexOf("_") + 1);
  if (!ID_BODY.test(body)) throw new Error(`not an internal id: ${JSON.stringify(id)}`);
  const bytes = Buffer.alloc(UUID_BYTES);
  let held = 0;
  let bits = -EMPTY_BITS;
  let filled = 0;
  for (let at = 0; at < ID_BODY_LENGTH; at += 1) {
    held = ((held & 255) << CHARACTER_BITS) | (VALUES[body.charCodeAt(at)] ?? 0);
    bits += CHARACTER_BITS;
    if (bits < 8) continue;
    bits -= 8;
    bytes.writeUInt8((held >>> bits) & 255, filled);
    filled += 1;
  }
  return bytes;
}

function uuidText(bytes: Buffer): string {
  const hex = bytes.toString("hex");
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join("-");
}
