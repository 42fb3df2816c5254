// The Idempotency-Key header: 1 to 255 printable ASCII characters, quoted (as the IETF draft writes it) or bare.

import { type EdgeRefusal, edgeRefusal } from "./reasons.ts";

const KEY = /^[\x20-\x7e]{1,255}$/;
const QUOTED = /^"((?:[^"\\]|\\["\\])*)"$/;

/** The key, null where none was sent, or a refusal. Quoted and bare are the same key. */
export function readIdempotencyKey(header: string | string[] | undefined): string | null | EdgeRefusal {
  if (header === undefined) return null;
  const text = Array.isArray(header) ? header.join(", ") : header;
  const quoted = QUOTED.exec(text);
  const key = quoted === null ? text : (quoted[1] ?? "").replace(/\\(["\\])/g, "$1");
  if (KEY.test(key)) return key;
  return edgeRefusal("invalid_request", "must have 1 to 255 printable ASCII characters", { field: "Idempotency-Key" });
}
