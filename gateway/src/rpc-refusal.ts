// A refusal in the words of Connect, gRPC-Web and gRPC, for what is decided before their handlers run. The reason goes
// along as metadata: `cauri-reason`, `cauri-field`.

import { meaningOf } from "@cauri/rpc/reasons";
import { Code, ConnectError } from "@connectrpc/connect";
import { codeToHttpStatus, errorToJson } from "@connectrpc/connect/protocol-connect";
import type { FastifyReply, FastifyRequest } from "fastify";
import { type EdgeRefusal, sentenceOf } from "./reasons.ts";

/** Connect's code for a gRPC status number: they are the same numbers. */
export function connectError(refusal: EdgeRefusal): ConnectError {
  return new ConnectError(sentenceOf(refusal), codeOf(refusal), reasonHeaders(refusal));
}

/** `/cauri.collections.v1.PaymentService/CreatePayment` */
export function isRpcPath(url: string): boolean {
  return url.startsWith("/cauri.");
}

export function sendRpcRefusal(request: FastifyRequest, reply: FastifyReply, refusal: EdgeRefusal): FastifyReply {
  request.refused = meaningOf(refusal.refused).code;
  reply.headers(reasonHeaders(refusal));
  const type = request.headers["content-type"] ?? "";
  if (type.startsWith("application/grpc")) {
    // "Trailers-only": a call that failed before its first message tells its status in the head.
    return reply
      .code(200)
      .type(type)
      .headers({ "grpc-status": codeOf(refusal), "grpc-message": encodeURIComponent(sentenceOf(refusal)) })
      .send();
  }
  const error = connectError(refusal);
  const http = codeToHttpStatus(error.code);
  return reply
    .code(http)
    .type("application/json")
    .send(JSON.stringify(errorToJson(error, undefined)));
}

function codeOf(refusal: EdgeRefusal): Code {
  const { grpc } = meaningOf(refusal.refused);
  return Code[grpc] === undefined ? Code.Internal : grpc;
}

function reasonHeaders({ refused, field, retry_after_s }: EdgeRefusal): Record<string, string> {
  return {
    "cauri-reason": refused,
    // A path may hold a key that the client wrote; headers are ASCII.
    ...(field === undefined ? {} : { "cauri-field": field.replace(/[^\x20-\x7e]/g, "?") }),
    ...(retry_after_s === undefined ? {} : { "retry-after": String(retry_after_s) }),
  };
}
