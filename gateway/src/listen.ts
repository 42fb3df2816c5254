// Opening the ports, with a sentence instead of a stack where one is taken.

import type { IncomingMessage, ServerResponse } from "node:http";
import { createServer, type Http2ServerRequest, type Http2ServerResponse, type ServerHttp2Session } from "node:http2";
import type { AddressInfo } from "node:net";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { isRoutable, refuseStream } from "./no-http.ts";

/** One gRPC connection carries many calls; both bounds keep a single client from taking the process's memory. */
const SESSION_MEMORY_MB = 16;
const MAX_STREAMS = 250;
/** A connection without a call for this long is let go; clients connect again by themselves. */
const SESSION_IDLE_MS = 300_000;

/** A stream that is closed at once may take its own answer with it. */
const LINGER_MS = 500;

export async function listen(app: FastifyInstance, host: string, port: number): Promise<number> {
  try {
    await app.listen({ host, port });
  } catch (cause) {
    throw new Error(`the port ${host}:${port} cannot be opened`, { cause });
  }
  return (app.server.address() as AddressInfo).port;
}

/**
 * Before an answer to a body that nobody will read to its end. Its rest would be taken for the next request of the line,
 * which is closed instead; of HTTP/2 only the one stream is, without an error, as RFC 9113 has it.
 */
export function leaveUnread(request: FastifyRequest, reply: FastifyReply): void {
  if (request.raw.httpVersionMajor < 2) {
    reply.header("Connection", "close");
    return;
  }
  // Fastify asks for the line's end by itself where a body is too large; HTTP/2 has no such header.
  reply.removeHeader("connection");
  // The response itself is finished only when its stream is closed, which waits for the body's end.
  const { stream } = reply.raw as unknown as Http2ServerResponse;
  stream.once("finish", () => setTimeout(() => stream.destroy(), LINGER_MS).unref());
}

export type H2cListener = { readonly port: number; close(): Promise<void> };

/**
 * Native gRPC needs HTTP/2, which shares no clear-text port with HTTP/1.1: a second listener of the same app, so that
 * every check, limit and log line is the same.
 */
export async function listenH2c(app: FastifyInstance, host: string, port: number): Promise<H2cListener> {
  const sessions = new Set<ServerHttp2Session>();
  const server = createServer({ maxSessionMemory: SESSION_MEMORY_MB, settings: { maxConcurrentStreams: MAX_STREAMS } });
  const serve = (request: Http2ServerRequest, response: Http2ServerResponse) => {
    if (!isRoutable(request)) return refuseStream(response);
    // Nothing needs to announce a body here, and without type and length Fastify would take it for none.
    if (!request.stream.endAfterHeaders && request.headers["content-type"] === undefined) {
      request.headers["transfer-encoding"] = "chunked";
    }
    return app.routing(request as unknown as IncomingMessage, response as unknown as ServerResponse);
  };
  server.on("request", serve);
  // Node would answer an expectation that it does not know, and a tunnel, without an envelope.
  server.on("checkExpectation", serve);
  server.on("connect", serve);
  server.on("session", (session) => {
    sessions.add(session);
    session.on("close", () => sessions.delete(session));
    // A peer that breaks off is no error of ours.
    session.on("error", () => session.destroy());
    session.setTimeout(SESSION_IDLE_MS, () => session.close());
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", (cause) => reject(new Error(`the gRPC port ${host}:${port} cannot be opened`, { cause })));
    server.listen(port, host, resolve);
  });
  return {
    port: (server.address() as AddressInfo).port,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        // Says GOAWAY: running calls end, new ones go to another gateway.
        for (const session of sessions) session.close();
      }),
  };
}
