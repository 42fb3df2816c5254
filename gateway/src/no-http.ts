// What is told to whoever does not speak HTTP as we know it, before there is a request that could be answered: the error
// envelope and a request id, written by hand.

import { METHODS } from "node:http";
import type { Http2ServerRequest, Http2ServerResponse } from "node:http2";
import type { Duplex } from "node:stream";
import { newId } from "@cauri/money/ids";

const BAD_REQUEST = [400, "Bad Request"] as const;
/** By the code of Node's own error. */
const CLIENT_ERRORS: { readonly [code: string]: readonly [number, string] } = {
  HPE_HEADER_OVERFLOW: [431, "Request Header Fields Too Large"],
  ERR_HTTP_REQUEST_TIMEOUT: [408, "Request Timeout"],
};

/** The last that is said on a line of HTTP/1.1. */
export function refuseLine(socket: Duplex, error_code?: string): void {
  if (!socket.writable) return;
  const [status, text] = CLIENT_ERRORS[error_code ?? ""] ?? BAD_REQUEST;
  const body = envelope(text);
  const head = { ...headersOf(body), Connection: "close" };
  const lines = Object.entries(head).map(([name, value]) => `${name}: ${value}\r\n`);
  socket.end(`HTTP/1.1 ${status} ${text}\r\n${lines.join("")}\r\n${body}`);
}

/** A stream of HTTP/2 with a method that no router knows: HTTP/1.1 does not even parse those. */
export function refuseStream(response: Http2ServerResponse): void {
  const [status, text] = BAD_REQUEST;
  const body = envelope(text);
  response.writeHead(status, headersOf(body)).end(body);
}

/** Whether a method is one that the router can refuse by itself; CONNECT asks for a tunnel, which HTTP tells apart. */
export function isRoutable({ method }: Http2ServerRequest): boolean {
  return method !== "CONNECT" && METHODS.includes(method);
}

function envelope(text: string): string {
  return JSON.stringify({ error: { code: "invalid_request", message: text.toLowerCase() } });
}

function headersOf(body: string): { [name: string]: string | number } {
  return {
    "X-Request-Id": newId("req", Date.now()),
    "Content-Type": "application/json; charset=utf-8",
    "Content-Length": body.length,
  };
}
