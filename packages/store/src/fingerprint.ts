// The fingerprint of a creation: says whether two requests under one idempotency key ask for the same thing.
// An HMAC under a server key, so that whoever reads the table can't check a guess at a phone number against it.

import { createHmac } from "node:crypto";

/**
 * HMAC-SHA256 over the route and the ts-proto message as received: path parameters and known fields, before defaults.
 * Field order and absent fields don't matter (undefined and null are absence); everything else does.
 */
export function fingerprint(secret: string | Uint8Array, route: string, message: object): Buffer {
  return createHmac("sha256", secret)
    .update(`${route}\n${canonical(message)}`)
    .digest();
}

function canonical(value: unknown): string {
  if (typeof value === "bigint") return value.toString();
  if (value instanceof Date) return JSON.stringify(value.toISOString());
  if (value instanceof Uint8Array) return JSON.stringify(Buffer.from(value).toString("base64"));
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (value instanceof Map) return canonical(Object.fromEntries(value));
  if (typeof value !== "object" || value === null) return JSON.stringify(value) ?? "null";
  const fields = Object.entries(value)
    .filter(([, field]) => field !== undefined && field !== null)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, field]) => `${JSON.stringify(name)}:${canonical(field)}`);
  return `{${fields.join(",")}}`;
}
