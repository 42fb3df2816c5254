// A refusal in the words of Connect, gRPC-Web and gRPC. The reason goes along as an error detail for typed clients, and
// as metadata (`cauri-reason`, `cauri-field`) for whoever looks at headers alone.

import { ReasonSchema, RefusalDetailSchema } from "@cauri/proto/es/cauri/api/v1/reason_pb";
import { meaningOf } from "@cauri/rpc/reasons";
import { Code, ConnectError } from "@connectrpc/connect";
import { encodeEnvelope } from "@connectrpc/connect/protocol";
import { codeToHttpStatus, endStreamFlag, endStreamToJson, errorToJson } from "@connectrpc/connect/protocol-connect";
import { setTrailerStatus } from "@connectrpc/connect/protocol-grpc";
import type { FastifyReply, FastifyRequest } from "fastify";
import { type EdgeRefusal, retryAfterOf, sentenceOf } from "./reasons.ts";

const PREFIX = "REASON_";
const numbers: ReadonlyMap<string, number> = new Map(
  ReasonSchema.values.map(({ name, number }) => [name.slice(PREFIX.length).toLowerCase(), number]),
);

/** Connect tells these two by a status that means another thing to HTTP: "too many requests", "bad request". */
const BY_HTTP: readonly string[] = ["payload_too_large", "unsupported_media_type"];

/** `code` where the protocol has its own word for what happened. */
export function connectError(refusal: EdgeRefusal, request_id: string, code = codeOf(refusal)): ConnectError {
  const value = {
    reason: numbers.get(refusal.refused) ?? 0,
    code: meaningOf(refusal.refused).code,
    field: refusal.field ?? "",
    retryAfterS: retryAfterOf(refusal) ?? 0,
    requestId: request_id,
  };
  const details = [{ desc: RefusalDetailSchema, value }];
  return new ConnectError(sentenceOf(refusal), code, reasonHeaders(refusal), details);
}

/** `/cauri.collections.v1.PaymentService/CreatePayment` */
export function isRpcPath(url: string): boolean {
  return url.startsWith("/cauri.");
}

/** For what is decided before or instead of the protocols' own handlers, in the form of whichever protocol asked. */
export function sendRpcRefusal(request: FastifyRequest, reply: FastifyReply, refusal: EdgeRefusal): FastifyReply {
  request.refused = meaningOf(refusal.refused).code;
  const error = connectError(refusal, request.id);
  const type = request.headers["content-type"] ?? "";
  if (type.startsWith("application/grpc")) {
    // "Trailers-only": a call that failed before its first message tells its status in the head.
    const status = setTrailerStatus(new Headers(), error);
    return reply.code(200).type(type).headers(Object.fromEntries(status)).send();
  }
  if (type.startsWith("application/connect+")) {
    // A stream answers 200 whatever happens; its last envelope tells the error with its metadata, which clients add to
    // the headers: a reason in both would be read as two.
    const end = new TextEncoder().encode(JSON.stringify(endStreamToJson(new Headers(), error, undefined)));
    return reply
      .code(200)
      .type(type)
      .send(Buffer.from(encodeEnvelope(endStreamFlag, end)));
  }
  const http = BY_HTTP.includes(refusal.refused) ? meaningOf(refusal.refused).http : codeToHttpStatus(error.code);
  return reply
    .code(http)
    .headers(reasonHeaders(refusal))
    .type("application/json")
    .send(JSON.stringify(errorToJson(error, undefined)));
}

function codeOf(refusal: EdgeRefusal): Code {
  // Connect's code for a gRPC status number: they are the same numbers.
  const { grpc } = meaningOf(refusal.refused);
  return Code[grpc] === undefined ? Code.Internal : grpc;
}

function reasonHeaders(refusal: EdgeRefusal): Record<string, string> {
  const { refused, field } = refusal;
  const retry_after_s = retryAfterOf(refusal);
  return {
    "cauri-reason": refused,
    // A path may hold a key that the client wrote; headers are ASCII.
    ...(field === undefined ? {} : { "cauri-field": field.replace(/[^\x20-\x7e]/g, "?") }),
    ...(retry_after_s === undefined ? {} : { "retry-after": String(retry_after_s) }),
  };
}
