// The signing secret of an endpoint: `whsec_` and 32 random bytes in standard base64, sealed in its row.

import { randomBytes } from "node:crypto";
import type { Cipher } from "@cauri/store/cipher";

type Owner = { readonly operation_id: string };

export function newSecret(): string {
  return `whsec_${randomBytes(32).toString("base64")}`;
}

/** Seals it for the endpoint's own row: in another row it does not open. */
export function sealSecret(cipher: Cipher, owner: Owner, secret: string): Buffer {
  return cipher.seal(Buffer.from(secret, "utf8"), place(owner));
}

/** Opens the secret of an endpoint, or of the endpoint that a claimed delivery goes to. */
export function secretOf(cipher: Cipher, owner: Owner & { readonly secret_sealed: Buffer }): string {
  return cipher.open(owner.secret_sealed, place(owner)).toString("utf8");
}

function place({ operation_id }: Owner): string {
  return `endpoint:${operation_id}:secret`;
}
