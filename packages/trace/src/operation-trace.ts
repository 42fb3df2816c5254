// An operation's trace has the operation's own UUID as its id, and its first span the last half of it. So a callback of
// tomorrow, a retry two hours later and a webhook find the trace of their operation without anyone keeping a header.

import { uuidOf } from "@cauri/money/ids";

export type TraceIds = { readonly traceId: string; readonly spanId: string };

/** Things that begin with one request and then live on by themselves; accounts or keys would gather a trace for ever. */
const OPERATIONS = /^(?:pay|po|re|tr|rb|pl|sub|inv|wr|dp|qr|rtp|whk)_[0-7][0-9A-HJKMNP-TV-Z]{25}$/;

/** Both ids of the span that begins an operation; null for what is no operation. */
export function operationIds(operation: string | null | undefined): TraceIds | null {
  if (operation === null || operation === undefined || !OPERATIONS.test(operation)) return null;
  const traceId = uuidOf(operation).replaceAll("-", "");
  // Version and variant bits of a UUIDv7 are never zero, so that neither id is the invalid one.
  return { traceId, spanId: traceId.slice(16) };
}
