// One HTTPS attempt, guarded: the name is resolved by us, every answer is checked, and exactly a checked address is
// dialled, so that a name can't be rebound between check and connect. Redirects are answers like others. Time, header
// and body sizes are bounded; the certificate is verified.

import { type LookupAddress, lookup as systemLookup } from "node:dns";
import { isIP, type LookupFunction } from "node:net";
import { rootCertificates } from "node:tls";
import { Agent, type Dispatcher } from "undici";
import { literalOf, type Network, whyForbidden } from "./guard.ts";

/** Of the answer's body no more is read. */
const MAX_BODY_BYTES = 65_536;
/** So much of it is kept for the merchant's log. */
const KEPT_BODY_BYTES = 2_048;
const MAX_HEADER_BYTES = 16_384;
/** Below the 5 s after which many servers hang up: a socket that is reused must not be one that is just being closed. */
const KEEP_ALIVE_MS = 4_000;

export type Attempt = {
  readonly delivered: boolean;
  readonly status_code: number | null;
  readonly duration_ms: number;
  /** A few words that hold no secret and no URL; null when delivered. */
  readonly error: string | null;
  /** The first 2 KiB of the answer's body as they came; null when no answer came. */
  readonly answer: Buffer | null;
};

export type Resolve = (hostname: string) => Promise<readonly LookupAddress[]>;

export type Dialer = {
  /** Posts a body; never throws: whatever happens is an attempt with its error. */
  post(url: string, headers: Readonly<Record<string, string>>, body: string): Promise<Attempt>;
  /** Why this host may not be registered, as far as can be told now; a name that does not resolve may. */
  whyForbidden(url: string): Promise<string | null>;
  close(): Promise<void>;
};

export type DialerOptions = {
  readonly allowed: readonly Network[];
  /** PEM of a further certificate authority. */
  readonly ca?: string;
  /** Of the whole attempt, from the name to the end of the answer. */
  readonly timeout_ms: number;
  /** For tests: a resolver of their own. */
  readonly resolve?: Resolve;
};

class Forbidden extends Error {
  override readonly name = "Forbidden";
  readonly code = "CAURI_FORBIDDEN_ADDRESS";
}

export function openDialer(options: DialerOptions): Dialer {
  const { allowed, timeout_ms, resolve = resolveBySystem } = options;
  const agent = new Agent({
    connect: {
      lookup: guardedLookup(resolve, allowed),
      minVersion: "TLSv1.2",
      rejectUnauthorized: true,
      timeout: timeout_ms,
      ...(options.ca === undefined ? {} : { ca: [...rootCertificates, options.ca] }),
    },
    allowH2: false,
    headersTimeout: timeout_ms,
    bodyTimeout: timeout_ms,
    keepAliveTimeout: KEEP_ALIVE_MS,
    maxHeaderSize: MAX_HEADER_BYTES,
    pipelining: 1,
  });
  return {
    post: (url, headers, body) => attempt(agent, url, headers, body, allowed, timeout_ms),
    whyForbidden: (url) => whyHostForbidden(new URL(url), allowed, resolve),
    close: () => agent.destroy(),
  };
}

async function attempt(
  agent: Dispatcher,
  url: string,
  headers: Readonly<Record<string, string>>,
  body: string,
  allowed: readonly Network[],
  timeout_ms: number,
): Promise<Attempt> {
  const started = performance.now();
  const done = (status_code: number | null, error: string | null, kept: Buffer | null = null): Attempt => ({
    delivered: error === null,
    status_code,
    duration_ms: Math.round(performance.now() - started),
    error,
    answer: kept,
  });
  const { hostname, origin, pathname, search } = new URL(url);
  // A literal is never looked up, so it is checked here.
  const literal = literalOf(hostname);
  const why = literal === null ? null : whyForbidden(literal, allowed);
  if (why !== null) return done(null, `refused to connect: ${why}`);
  try {
    const answer = await agent.request({
      origin,
      path: pathname + search,
      method: "POST",
      headers: { ...headers },
      body,
      signal: AbortSignal.timeout(timeout_ms),
    });
    const kept = await readBounded(answer.body);
    const ok = answer.statusCode >= 200 && answer.statusCode < 300;
    return done(answer.statusCode, ok ? null : `answered ${answer.statusCode}`, kept);
  } catch (error) {
    return done(null, inFewWords(error));
  }
}

/** Reads the answer so that the connection can be used again, hangs up on one that is too long, and keeps its beginning. */
async function readBounded(body: Dispatcher.ResponseData["body"]): Promise<Buffer> {
  let read = 0;
  const kept: Buffer[] = [];
  try {
    for await (const part of body as AsyncIterable<Buffer>) {
      if (read < KEPT_BODY_BYTES) kept.push(part.subarray(0, KEPT_BODY_BYTES - read));
      read += part.length;
      if (read > MAX_BODY_BYTES) break;
    }
  } catch {
    // The status was there: an answer that breaks off afterwards was an answer.
  }
  if (!body.destroyed) body.destroy();
  return Buffer.concat(kept);
}

/** The lookup that sockets are opened by: all answers must be permitted, and only they are handed on. */
function guardedLookup(resolve: Resolve, allowed: readonly Network[]): LookupFunction {
  return (hostname, options, callback) => {
    resolve(hostname).then(
      (addresses) => {
        const [first] = addresses;
        const why = addresses.map(({ address }) => whyForbidden(address, allowed)).find((reason) => reason !== null);
        if (first === undefined) callback(new Error("no address"), "", 0);
        else if (why !== undefined && why !== null) callback(new Forbidden(why), "", 0);
        else if (options.all === true) callback(null, [...addresses]);
        else callback(null, first.address, first.family);
      },
      (error: Error) => callback(error, "", 0),
    );
  };
}

async function whyHostForbidden(url: URL, allowed: readonly Network[], resolve: Resolve): Promise<string | null> {
  const literal = literalOf(url.hostname);
  if (literal !== null) return whyForbidden(literal, allowed);
  const addresses = await resolve(url.hostname).catch(() => []);
  return addresses.map(({ address }) => whyForbidden(address, allowed)).find((reason) => reason !== null) ?? null;
}

function resolveBySystem(hostname: string): Promise<LookupAddress[]> {
  return new Promise((settle, fail) => {
    systemLookup(hostname, { all: true, verbatim: true }, (error, addresses) => {
      if (error) fail(error);
      else settle(addresses.filter(({ address }) => isIP(address) !== 0));
    });
  });
}

/** The operating system's and OpenSSL's words are kept short and never hold the URL or an address of ours. */
const WORDS: Readonly<Record<string, string>> = {
  ENOTFOUND: "the host name does not resolve",
  EAI_AGAIN: "the host name does not resolve now",
  ECONNREFUSED: "the connection was refused",
  ECONNRESET: "the connection was reset",
  EPIPE: "the connection was reset",
  UND_ERR_SOCKET: "the connection was closed",
  UND_ERR_CONNECT_TIMEOUT: "timed out",
  UND_ERR_HEADERS_TIMEOUT: "timed out",
  UND_ERR_BODY_TIMEOUT: "timed out",
  UND_ERR_ABORTED: "timed out",
  UND_ERR_HEADERS_OVERFLOW: "the answer's headers are too large",
};

function inFewWords(error: unknown): string {
  if (!(error instanceof Error)) return "failed";
  if (error instanceof Forbidden) return `refused to connect: ${error.message}`;
  if (error.name === "TimeoutError" || error.name === "AbortError") return "timed out";
  const code = "code" in error && typeof error.code === "string" ? error.code : "";
  const [first] = error instanceof AggregateError ? error.errors : [];
  if (WORDS[code] !== undefined) return WORDS[code];
  if (first !== undefined) return inFewWords(first);
  if (/CERT|SSL|TLS|ALTNAME|SELF_SIGNED|UNABLE_TO/.test(code)) return `TLS: ${code.toLowerCase().replaceAll("_", " ")}`;
  return error.cause === undefined ? "failed" : inFewWords(error.cause);
}
