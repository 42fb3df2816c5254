// Takes a body off the line: its type first, its size while it comes, and nothing at all where no route asks for one.

import type { Server } from "node:http";
import type { Readable } from "node:stream";
import type { FastifyRequest } from "fastify";
import { type EdgeRefusal, edgeRefusal, RefusedEarly } from "./reasons.ts";

export type BodyRule = {
  readonly limit: number;
  /** Only `application/json` is taken. */
  readonly json: boolean;
  /** An empty body does, whatever its type: nothing in it is required. */
  readonly may_be_empty: boolean;
};

type Taken = (error: Error | null, body?: Buffer) => void;

/** Fastify's content type parser. */
export function takeBody(request: FastifyRequest, payload: Readable, done: Taken): void {
  const rule = request.routeOptions.config.body;
  if (rule === undefined) {
    done(null);
    return;
  }
  const { headers } = request;
  const declared = Number(headers["content-length"] ?? 0);
  const fits = !rule.json || isJson(headers["content-type"]);
  const encoded = rule.json && headers["content-encoding"] !== undefined;
  if (encoded || (!fits && (declared > 0 || !rule.may_be_empty))) done(new RefusedEarly(notJson()));
  else if (declared > rule.limit) done(new RefusedEarly(tooLarge(rule.limit)));
  else if (isHere(payload, declared)) done(null, payload.read() as Buffer);
  // A body without a declared length may still turn out to be empty; at its first byte the type counts.
  else {
    const refusalAt = (size: number) => (!fits ? notJson() : size > rule.limit ? tooLarge(rule.limit) : null);
    // Node itself ends what is slow over HTTP/1.1, and knows no such clock for a stream of HTTP/2.
    const { requestTimeout } = request.server.server as Server;
    gather(payload, refusalAt, done, request.raw.httpVersionMajor < 2 ? undefined : requestTimeout);
  }
}

/**
 * Whether the whole body came while the checks before it were made, as nearly all do: then it is taken in one piece.
 * To follow a stream's events costs as much as all else that an answer of ours takes of Node's HTTP.
 */
function isHere(payload: Readable & { readonly complete?: boolean }, declared: number): boolean {
  return declared > 0 && payload.complete === true && payload.readableLength === declared;
}

/** Reads to the end, or until what has come so far, or its slowness, is refused: its rest stays unread. */
function gather(
  payload: Readable,
  refusalAt: (size: number) => EdgeRefusal | null,
  done: Taken,
  limit_ms: number | undefined,
): void {
  const chunks: Buffer[] = [];
  let size = 0;
  let is_over = false;
  let timer: NodeJS.Timeout | undefined;
  const end = (error: Error | null, body?: Buffer) => {
    if (is_over) return;
    is_over = true;
    clearTimeout(timer);
    done(error, body);
  };
  const refuse = (refusal: EdgeRefusal) => {
    payload.pause();
    end(new RefusedEarly(refusal));
  };
  if (limit_ms !== undefined) timer = setTimeout(() => refuse(tooSlow(limit_ms)), limit_ms);
  payload.on("data", (chunk: Buffer) => {
    if (is_over) return;
    size += chunk.length;
    chunks.push(chunk);
    const refusal = refusalAt(size);
    if (refusal !== null) refuse(refusal);
  });
  payload.on("end", () => end(null, chunks.length === 1 ? chunks[0] : Buffer.concat(chunks)));
  payload.on("error", end);
  payload.on("close", () => end(Object.assign(new Error("the body broke off"), { code: "ECONNRESET" })));
}

function isJson(content_type: string | undefined): boolean {
  if (content_type === "application/json") return true;
  const [type = "", ...parameters] = (content_type ?? "").toLowerCase().split(";");
  if (type.trim() !== "application/json") return false;
  return parameters.every((parameter) => {
    const [name = "", value = ""] = parameter.split("=").map((part) => part.trim().replaceAll('"', ""));
    return name !== "charset" || value === "utf-8" || value === "utf8";
  });
}

export function notJson(): EdgeRefusal {
  return edgeRefusal("unsupported_media_type", "the body must be application/json in UTF-8, without Content-Encoding");
}

function tooSlow(limit_ms: number): EdgeRefusal {
  const message = `must come within ${limit_ms / 1000} seconds`;
  return edgeRefusal("invalid_request", message, { field: "body" });
}

export function tooLarge(limit: number): EdgeRefusal {
  return edgeRefusal("payload_too_large", `the body must have at most ${limit} bytes`);
}
