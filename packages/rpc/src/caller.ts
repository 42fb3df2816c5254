// Who calls and for what, as it travels from process to process: gRPC metadata, or the fields beside a request that shares a
// stream; never fields of the request itself (wire.md).

import { isMode, type Mode } from "@cauri/money/mode";
import { traceparent } from "@cauri/trace/span";
import { Metadata } from "@grpc/grpc-js";

export type Caller = {
  readonly account: string;
  readonly mode: Mode;
  /** Id of the API key, `key_…`; null where the house itself acts. */
  readonly key_id: string | null;
  readonly request_id: string;
  readonly idempotency_key: string | null;
  /** The operation id that the gateway minted for a creation. */
  readonly operation: string | null;
  /** Epoch milliseconds at which the call that this caller made must be answered; calls made for it end 200 ms before. */
  readonly deadline_ms?: number;
};

const NAMES = {
  token: "cauri-token",
  account: "cauri-account",
  mode: "cauri-mode",
  key_id: "cauri-key",
  request_id: "cauri-request",
  idempotency_key: "cauri-idempotency-key",
  operation: "cauri-operation",
  traceparent: "traceparent",
} as const;

/** A caller for work that no request asked for, such as a sweeper's: it has no key, no deadline and its own request id. */
export function houseCaller(account: string, mode: Mode, request_id: string, operation: string | null = null): Caller {
  return { account, mode, key_id: null, request_id, idempotency_key: null, operation };
}

/** The metadata of a call; `caller` is absent where an operator RPC names the account in its message. */
export function writeMetadata(
  token: string,
  caller?: Partial<Caller>,
  operation?: string,
  trace = traceparent(),
): Metadata {
  const metadata = new Metadata();
  metadata.set(NAMES.token, token);
  set(metadata, NAMES.traceparent, trace);
  if (caller === undefined) return metadata;
  set(metadata, NAMES.account, caller.account);
  set(metadata, NAMES.mode, caller.mode);
  set(metadata, NAMES.key_id, caller.key_id);
  set(metadata, NAMES.request_id, caller.request_id);
  set(metadata, NAMES.idempotency_key, caller.idempotency_key);
  set(metadata, NAMES.operation, operation ?? caller.operation);
  return metadata;
}

/** The caller as a message or metadata tell him; an empty text is one that is absent. */
export type WrittenCaller = {
  readonly account: string;
  readonly mode: string;
  readonly keyId: string;
  readonly requestId: string;
  readonly idempotencyKey: string;
  readonly operation: string;
};

/** What the metadata say, or null where they name no account (operator RPCs). */
export function readCaller(metadata: Metadata, deadline_ms: number): Caller | null {
  const written = {
    account: text(metadata, NAMES.account),
    mode: text(metadata, NAMES.mode),
    keyId: text(metadata, NAMES.key_id),
    requestId: readRequestId(metadata),
    idempotencyKey: text(metadata, NAMES.idempotency_key),
    operation: text(metadata, NAMES.operation),
  };
  return callerOf(written, deadline_ms);
}

/** The caller, or null where none is named. */
export function callerOf(written: WrittenCaller, deadline_ms: number): Caller | null {
  const { account, mode, keyId, requestId, idempotencyKey, operation } = written;
  if (account === "" || !isMode(mode)) return null;
  return {
    account,
    mode,
    key_id: keyId === "" ? null : keyId,
    request_id: requestId,
    idempotency_key: idempotencyKey === "" ? null : idempotencyKey,
    operation: operation === "" ? null : operation,
    deadline_ms,
  };
}

/** The request id, which operator calls carry as well. */
export function readRequestId(metadata: Metadata): string {
  return text(metadata, NAMES.request_id);
}

/** W3C trace context of the call, written where it was made. */
export function readTraceparentOf(metadata: Metadata): string {
  return text(metadata, NAMES.traceparent);
}

export function readToken(metadata: Metadata): string {
  return text(metadata, NAMES.token);
}

function set(metadata: Metadata, name: string, value: string | null | undefined): void {
  if (value !== null && value !== undefined && value !== "") metadata.set(name, value);
}

function text(metadata: Metadata, name: string): string {
  const value = metadata.get(name)[0];
  return typeof value === "string" ? value : "";
}
