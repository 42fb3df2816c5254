// A Fastify request as Connect's handlers take one: the body is there in whole and bounded, the signal tells that the
// client has left, and the client's own deadline is one that a timer can hold.

import type { ContextValues } from "@connectrpc/connect";
import { createAsyncIterable, type UniversalServerRequest } from "@connectrpc/connect/protocol";
import { parseTimeout as parseConnectTimeout } from "@connectrpc/connect/protocol-connect";
import { parseTimeout as parseGrpcTimeout } from "@connectrpc/connect/protocol-grpc";
import type { FastifyReply, FastifyRequest } from "fastify";

/** Handlers look at the path alone; what a client writes into `Host` is nobody's business here. */
const ORIGIN = "http://gateway";
/** Beyond this a timer fires at once; a client that waits for weeks has in fact no deadline. */
const LONGEST_TIMEOUT_MS = 2 ** 31 - 1;
const TIMEOUTS = [
  ["connect-timeout-ms", parseConnectTimeout],
  ["grpc-timeout", parseGrpcTimeout],
] as const;

export function universalRequest(
  path: string,
  request: FastifyRequest,
  reply: FastifyReply,
  body: Uint8Array,
  values: ContextValues,
): UniversalServerRequest {
  const left = new AbortController();
  reply.raw.once("close", () => left.abort());
  return {
    httpVersion: request.raw.httpVersion,
    method: request.method,
    url: ORIGIN + path,
    header: headersOf(request),
    body: createAsyncIterable([body]),
    signal: left.signal,
    contextValues: values,
  };
}

function headersOf({ headers }: FastifyRequest): Headers {
  const made = new Headers();
  for (const [name, value] of Object.entries(headers)) {
    // HTTP/2 keeps method and path among the headers, under names that begin with a colon.
    if (value === undefined || name.startsWith(":")) continue;
    for (const one of [value].flat()) made.append(name, one);
  }
  for (const [name, parse] of TIMEOUTS) {
    const { timeoutMs = 0 } = parse(made.get(name), Number.POSITIVE_INFINITY);
    if (timeoutMs > LONGEST_TIMEOUT_MS) made.delete(name);
  }
  return made;
}
