// The signing secrets of an endpoint: `whsec_` and 32 random bytes in standard base64, sealed in its row.

import { randomBytes } from "node:crypto";
import type { Cipher } from "@cauri/store/cipher";
import { SECRET_PREFIX, type Signing } from "./notice.ts";

type Owner = { readonly operation_id: string };

/** An endpoint's secrets as its row holds them; the one before the current only while both sign. */
export type Sealed = Owner & { readonly secret_sealed: Buffer; readonly previous_sealed: Buffer | null };

export function newSecret(): string {
  return `${SECRET_PREFIX}${randomBytes(32).toString("base64")}`;
}

/** Seals it for the endpoint's own row: in another row it does not open. */
export function sealSecret(cipher: Cipher, owner: Owner, secret: string): Buffer {
  return cipher.seal(Buffer.from(secret, "utf8"), place(owner));
}

/** Opens the current secret of an endpoint. */
export function secretOf(cipher: Cipher, owner: Omit<Sealed, "previous_sealed">): string {
  return openSecret(cipher, owner, owner.secret_sealed);
}

/** The current secret, and while a rotation is under way the one before it. */
export function secretsOf(cipher: Cipher, owner: Sealed): readonly [current: string, ...previous: string[]] {
  const current = secretOf(cipher, owner);
  return owner.previous_sealed === null ? [current] : [current, openSecret(cipher, owner, owner.previous_sealed)];
}

/** With what the deliveries of an endpoint, or one that was claimed for it, are signed now. */
export function signingOf(cipher: Cipher, owner: Sealed & { readonly standard_headers: boolean }): Signing {
  return { secrets: secretsOf(cipher, owner), standard_headers: owner.standard_headers };
}

/** Endpoints whose opened secrets a process keeps at most; the oldest go first. */
const KEPT = 10_000;

/** As `signingOf`, and keeps what it has opened: opening costs more than signing, and a value that changed is another one. */
export function openSigning(cipher: Cipher): (owner: Parameters<typeof signingOf>[1]) => Signing {
  const kept = new Map<string, Signing & Pick<Sealed, "secret_sealed" | "previous_sealed">>();
  return (owner) => {
    const { operation_id, secret_sealed, previous_sealed } = owner;
    const known = kept.get(operation_id);
    if (known?.secret_sealed.equals(secret_sealed) && isEqual(known.previous_sealed, previous_sealed))
      return { secrets: known.secrets, standard_headers: owner.standard_headers };
    const signing = signingOf(cipher, owner);
    kept.delete(operation_id);
    kept.set(operation_id, { ...signing, secret_sealed, previous_sealed });
    const [oldest] = kept.keys();
    if (kept.size > KEPT && oldest !== undefined) kept.delete(oldest);
    return signing;
  };
}

/** Seals a value again, under the key that seals from now on. */
export function resealed(cipher: Cipher, owner: Owner, sealed: Buffer): Buffer {
  return sealSecret(cipher, owner, openSecret(cipher, owner, sealed));
}

function isEqual(one: Buffer | null, other: Buffer | null): boolean {
  return one === null || other === null ? one === other : one.equals(other);
}

function openSecret(cipher: Cipher, owner: Owner, sealed: Buffer): string {
  return cipher.open(sealed, place(owner)).toString("utf8");
}

function place({ operation_id }: Owner): string {
  return `endpoint:${operation_id}:secret`;
}
