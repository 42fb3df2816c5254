// A new secret takes the place of the current one, which goes on signing beside it until the merchant's code has changed.

import { isRefusal, type Refusal, refuse, refuseField } from "@cauri/money/refusal";
import type { RotateEndpointSecretRequest } from "@cauri/proto/ts/cauri/webhooks/v1/webhooks";
import type { Cipher } from "@cauri/store/cipher";
import { type Pool, transact } from "@cauri/store/pool";
import { type Endpoint, findById, lockSealedByOthers, replaceSecret, writeSealed } from "./endpoint-store.ts";
import { unknownEndpoint } from "./registration.ts";
import { newSecret, resealed, sealSecret } from "./secret.ts";

/** A day for the merchant to deploy the new secret. */
const OVERLAP_S = 86_400;
/** A secret that is still accepted after a week was forgotten, not rotated. */
const OVERLAP_MAX_S = 604_800;
const ROTATION_ID = /^[\x21-\x7e]{1,64}$/;
/** Endpoints that are sealed again in one transaction. */
const RESEAL_BATCH = 100;

type Rooms = { readonly pool: Pool; readonly cipher: Cipher };

/**
 * Rotates once per rotation id, however often the call is made. While two secrets sign there is no third one: a rotation
 * with an overlap is then refused, so of two at once the second one is; without an overlap it always ends both, at once.
 */
export async function rotate(
  { pool, cipher }: Rooms,
  request: RotateEndpointSecretRequest,
): Promise<Endpoint | Refusal> {
  const { rotationId: rotation_id, accountId: account, endpointId: id } = request;
  if (!ROTATION_ID.test(rotation_id)) return refuseField("rotation_id", "must be 1 to 64 printable ASCII characters");
  const overlap_s = checkOverlap(request.overlapS);
  if (isRefusal(overlap_s)) return overlap_s;
  const secret = newSecret();
  return transact(pool, async (tx) => {
    const standing = await findById(tx, account, id, true);
    if (standing === null) return unknownEndpoint();
    if (standing.rotation_id === rotation_id) return standing;
    if (overlap_s > 0 && standing.previous_until !== null)
      return refuse(
        "precondition_failed",
        `a rotation is under way until ${standing.previous_until.toISOString()}: wait for its end, or rotate without an overlap`,
      );
    const secret_sealed = sealSecret(cipher, standing, secret);
    return (await replaceSecret(tx, id, { secret_sealed, overlap_s, rotation_id })) ?? unknownEndpoint();
  });
}

function checkOverlap(overlap_s = BigInt(OVERLAP_S)): number | Refusal {
  if (overlap_s < 0n || overlap_s > OVERLAP_MAX_S)
    return refuseField("overlap_s", `must be from 0 to ${OVERLAP_MAX_S} (7 days)`);
  return Number(overlap_s);
}

/** Seals what another key has sealed under the one that seals now, so that the other can be dropped; answers how many. */
export async function resealSecrets({ pool, cipher }: Rooms): Promise<number> {
  return transact(pool, async (tx) => {
    const rows = await lockSealedByOthers(tx, cipher.keyId, RESEAL_BATCH);
    for (const { id, previous_sealed, ...row } of rows) {
      await writeSealed(tx, {
        id,
        secret_sealed: resealed(cipher, row, row.secret_sealed),
        previous_sealed: previous_sealed === null ? null : resealed(cipher, row, previous_sealed),
      });
    }
    return rows.length;
  });
}
