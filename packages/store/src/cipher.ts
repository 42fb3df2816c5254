// What a database row may hold of a secret: AES-256-GCM under a key that comes from configuration and never from the
// database. Rails' vault and the webhook secrets use this one piece.

import { createCipheriv, createDecipheriv, createSecretKey, type KeyObject, randomFillSync } from "node:crypto";

const ALGORITHM = "aes-256-gcm";
const KEY_BYTES = 32;
/** The nonce length that GCM is specified for; at random it is safe for 2^32 seals under one key. */
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
/** Random bytes are drawn for so many nonces at once: a call of the generator costs more than the bytes. */
const NONCES_AT_ONCE = 256;
/** Leads every sealed text, so that another form can be told apart one day. */
const FORM = 1;
const KEY_ID = /^[A-Za-z0-9._-]{1,32}$/;

export type Cipher = {
  /** The key that seals from now on: the first of the configuration. */
  readonly keyId: string;
  /** Seals a text for one place: opened with another `context` (row id and field), it is refused. */
  seal(plain: Buffer, context: string): Buffer;
  /** Opens what any configured key has sealed; throws when it was changed, moved or sealed by a key that is gone. */
  open(sealed: Buffer, context: string): Buffer;
};

/**
 * Reads `id:base64,id:base64`, the first of which is current. The others only open, so that a key is changed by putting
 * a new one in front and the old one is dropped when no row names it any more.
 */
export function openCipher(keys: string): Cipher {
  const [current, ring] = parseKeys(keys);
  const head = Buffer.concat([Buffer.of(FORM, current.id.length), Buffer.from(current.id, "latin1")]);
  const nextNonce = openNonces();
  return {
    keyId: current.id,
    seal(plain, context) {
      const nonce = nextNonce();
      const cipher = createCipheriv(ALGORITHM, current.key, nonce).setAAD(associated(head, context));
      return Buffer.concat([head, nonce, cipher.update(plain), cipher.final(), cipher.getAuthTag()]);
    },
    open(sealed, context) {
      const idEnd = 2 + (sealed[1] ?? 0);
      if (sealed[0] !== FORM || sealed.length < idEnd + NONCE_BYTES + TAG_BYTES) {
        throw new Error("a sealed value has a form that this version does not know");
      }
      const head = sealed.subarray(0, idEnd);
      const id = head.toString("latin1", 2);
      const key = ring.get(id);
      if (key === undefined)
        throw new Error(`a sealed value names the key "${id}", which CAURI_VAULT_KEYS does not hold`);
      const body = sealed.subarray(idEnd + NONCE_BYTES, -TAG_BYTES);
      const nonce = sealed.subarray(idEnd, idEnd + NONCE_BYTES);
      const decipher = createDecipheriv(ALGORITHM, key, nonce, { authTagLength: TAG_BYTES });
      decipher.setAAD(associated(head, context)).setAuthTag(sealed.subarray(-TAG_BYTES));
      return Buffer.concat([decipher.update(body), decipher.final()]);
    },
  };
}

/** Nonces out of random bytes of which each serves once. */
function openNonces(): () => Buffer {
  const drawn = Buffer.alloc(NONCES_AT_ONCE * NONCE_BYTES);
  let at = drawn.length;
  return () => {
    if (at === drawn.length) {
      randomFillSync(drawn);
      at = 0;
    }
    at += NONCE_BYTES;
    return drawn.subarray(at - NONCE_BYTES, at);
  };
}

/** The head is authenticated as well, so that nobody can make a row name another key. */
function associated(head: Buffer, context: string): Buffer {
  return Buffer.concat([head, Buffer.from(context, "utf8")]);
}

function parseKeys(text: string): [{ id: string; key: KeyObject }, Map<string, KeyObject>] {
  const ring = new Map<string, KeyObject>();
  for (const [place, entry] of text.split(",").entries()) {
    const split = entry.indexOf(":");
    const id = entry.slice(0, split).trim();
    // Positions, never contents: this sentence is logged at boot.
    if (split < 0 || !KEY_ID.test(id)) throw new Error(`CAURI_VAULT_KEYS: entry ${place + 1} is not id:base64`);
    const key = Buffer.from(entry.slice(split + 1).trim(), "base64");
    if (key.length !== KEY_BYTES)
      throw new Error(`CAURI_VAULT_KEYS: the key "${id}" must be ${KEY_BYTES} bytes in base64`);
    if (ring.has(id)) throw new Error(`CAURI_VAULT_KEYS: the key "${id}" is there twice`);
    ring.set(id, createSecretKey(key));
  }
  const [first] = ring;
  if (first === undefined) throw new Error("CAURI_VAULT_KEYS: at least one id:base64 is needed");
  return [{ id: first[0], key: first[1] }, ring];
}
