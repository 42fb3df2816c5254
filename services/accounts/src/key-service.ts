// The RPCs of API keys. A secret is in the answer that shows it and nowhere else: not in a row, an event or a log.

import { hmacOfSecret, newSecret } from "@cauri/money/api-key";
import { newId } from "@cauri/money/ids";
import { isMode } from "@cauri/money/mode";
import { isRefusal, type Refusal, refuse, refuseField } from "@cauri/money/refusal";
import {
  type CreateKeyRequest,
  type Key as KeyMessage,
  type ListKeysRequest,
  type ListKeysResponse,
  ResolvedKey,
  type ResolveKeyRequest,
  type RevokeKeyRequest,
  type RotateKeyRequest,
} from "@cauri/proto/ts/cauri/accounts/v1/accounts";
import { transact } from "@cauri/store/pool";
import { noSuchAccount } from "./account-service.ts";
import { findAccount, lockAccount } from "./account-store.ts";
import { tellKey } from "./events.ts";
import type { House } from "./house.ts";
import { checkKeyName, checkOverlap, chooseScopes, whyNotRotated } from "./key.ts";
import { accountOfKey, insertKey, listKeys, lockKey, replaceKey, resolveKey, revokeKey } from "./key-store.ts";
import { keyMessage, resolvedMessage } from "./messages.ts";

const HMAC_BYTES = 32;

const noSuchKey = (): Refusal => refuse("not_found", "no such key");
const accountClosed = (): Refusal => refuse("precondition_failed", "the account is closed");

export async function createKey(house: House, request: CreateKeyRequest): Promise<KeyMessage | Refusal> {
  const { mode, accountId: account_id } = request;
  if (!isMode(mode)) return refuseField("mode", "must be test or live");
  const scopes = chooseScopes(request.scopes);
  if (isRefusal(scopes)) return scopes;
  const name = checkKeyName(request.name);
  if (isRefusal(name)) return name;
  const secret = newSecret(mode);
  const hmac = hmacOfSecret(secret, house.pepper);
  const key_id = newId("key", house.clock());
  const key = await transact(house.pool, async (tx) => {
    const account = await lockAccount(tx, account_id);
    if (account === null) return noSuchAccount();
    if (account.status === "closed") return accountClosed();
    const inserted = await insertKey(tx, { key_id, account_id, mode, scopes, name, hmac });
    await tellKey(tx, inserted);
    return inserted;
  });
  return isRefusal(key) ? key : keyMessage(key, secret);
}

/** The new key and the end of the old one stand in one transaction; of two rotations at once the second is refused. */
export async function rotateKey(house: House, request: RotateKeyRequest): Promise<KeyMessage | Refusal> {
  const overlap_s = checkOverlap(request.overlapS);
  if (isRefusal(overlap_s)) return overlap_s;
  const account_id = await accountOfKey(house.pool, request.keyId);
  if (account_id === null) return noSuchKey();
  const key_id = newId("key", house.clock());
  const rotated = await transact(house.pool, async (tx) => {
    const account = await lockAccount(tx, account_id);
    if (account?.status === "closed") return accountClosed();
    const locked = await lockKey(tx, request.keyId);
    if (locked === null) return noSuchKey();
    const { key: old, now } = locked;
    const refused = whyNotRotated(old, now);
    if (refused !== null) return refused;
    const { mode, scopes, name } = old;
    const secret = newSecret(mode);
    const hmac = hmacOfSecret(secret, house.pepper);
    const key = await insertKey(tx, { key_id, account_id, mode, scopes, name, hmac });
    await replaceKey(tx, old.key_id, key_id, overlap_s);
    await tellKey(tx, old);
    await tellKey(tx, key);
    return { key, secret };
  });
  return isRefusal(rotated) ? rotated : keyMessage(rotated.key, rotated.secret);
}

/** Revoking is for emergencies: it asks for no state, and a repeat answers as the first call did. */
export async function endKey(house: House, request: RevokeKeyRequest): Promise<KeyMessage | Refusal> {
  const key = await transact(house.pool, async (tx) => {
    const revoked = await revokeKey(tx, request.keyId);
    if (revoked !== null) await tellKey(tx, revoked);
    return revoked;
  });
  return key === null ? noSuchKey() : keyMessage(key);
}

export async function listKeysOf(house: House, request: ListKeysRequest): Promise<ListKeysResponse | Refusal> {
  const account = await findAccount(house.pool, request.accountId);
  if (account === null) return noSuchAccount();
  const keys = await listKeys(house.pool, request.accountId);
  return { data: keys.map((key) => keyMessage(key)) };
}

export async function resolve(house: House, request: ResolveKeyRequest): Promise<ResolvedKey | Refusal> {
  if (request.hmac.byteLength !== HMAC_BYTES) return refuseField("hmac", `must have ${HMAC_BYTES} bytes`);
  const resolved = await resolveKey(house.pool, request.hmac);
  return resolved === null ? ResolvedKey.fromPartial({ known: false }) : resolvedMessage(resolved);
}
