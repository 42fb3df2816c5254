// One HTTPS attempt, guarded: the name is resolved by us, every answer is checked, and exactly a checked address is
// dialled, so that a name can't be rebound between check and connect. Redirects are answers like others. Time, header
// and body sizes are bounded; the certificate is verified.

import type { LookupFunction, Socket } from "node:net";
import { createSecureContext, rootCertificates } from "node:tls";
import { Agent, buildConnector, type Dispatcher } from "undici";
import { literalOf, type Network, whyForbidden } from "./guard.ts";
import { openResolver, type Resolve } from "./resolver.ts";

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
}

export function openDialer(options: DialerOptions): Dialer {
  const { allowed, timeout_ms, resolve = openResolver() } = options;
  const agent = new Agent({
    connect: guardedConnector(options, resolve),
    allowH2: false,
    headersTimeout: timeout_ms,
    bodyTimeout: timeout_ms,
    keepAliveTimeout: KEEP_ALIVE_MS,
    maxHeaderSize: MAX_HEADER_BYTES,
    pipelining: 1,
  });
  return {
    post: (url, headers, body) =>
      new Promise((settle) => {
        const exchange = new Exchange(timeout_ms, settle);
        const { origin, pathname, search } = new URL(url);
        agent.dispatch({ origin, path: pathname + search, method: "POST", headers, body }, exchange);
      }),
    whyForbidden: (url) => whyHostForbidden(new URL(url), allowed, resolve),
    close: () => agent.destroy(),
  };
}

/**
 * Every socket is opened here. A literal address is never looked up, so it is checked before; a name's answers are
 * checked in the look-up; and what is connected at last is looked at once more, whatever brought it about.
 */
function guardedConnector({ allowed, ca, timeout_ms }: DialerOptions, resolve: Resolve): buildConnector.connector {
  // One context for all sockets: read from its text for each of them, the authorities' list costs 10 ms a handshake.
  const trusted = ca === undefined ? {} : { ca: [...rootCertificates, ca] };
  const connect = buildConnector({
    lookup: guardedLookup(resolve, allowed),
    secureContext: createSecureContext({ minVersion: "TLSv1.2", ...trusted }),
    rejectUnauthorized: true,
    timeout: timeout_ms,
    allowH2: false,
  });
  return (target, callback) => {
    const literal = literalOf(target.hostname);
    const why = literal === null ? null : whyForbidden(literal, allowed);
    if (why !== null) {
      queueMicrotask(() => callback(new Forbidden(why), null));
      return;
    }
    connect(target, (error, socket) => {
      if (error !== null) return callback(error, null);
      const why = whyForbidden(peerOf(socket), allowed);
      if (why === null) return callback(null, socket);
      socket.destroy();
      callback(new Forbidden(why), null);
    });
  };
}

function peerOf(socket: Socket): string {
  return socket.remoteAddress ?? "";
}

/** One request and its answer: settles once, at the answer's end, at its bounds, at an error or at the time-out. */
class Exchange implements Dispatcher.DispatchHandler {
  readonly #began = performance.now();
  readonly #settle: (attempt: Attempt) => void;
  readonly #timer: NodeJS.Timeout;
  readonly #kept: Buffer[] = [];
  #controller: Dispatcher.DispatchController | null = null;
  #status: number | null = null;
  #read = 0;
  #settled = false;

  constructor(timeout_ms: number, settle: (attempt: Attempt) => void) {
    this.#settle = settle;
    this.#timer = setTimeout(() => this.#hangUp("timed out"), timeout_ms);
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    // It waited for its connection until the time was over.
    if (this.#settled) this.#hangUp("timed out");
  }

  onResponseStart(_controller: Dispatcher.DispatchController, status: number): void {
    // 100 to 199 only announce the answer.
    if (status >= 200) this.#status = status;
  }

  onResponseData(_controller: Dispatcher.DispatchController, part: Buffer): void {
    if (this.#read < KEPT_BODY_BYTES) this.#kept.push(Buffer.from(part.subarray(0, KEPT_BODY_BYTES - this.#read)));
    this.#read += part.length;
    if (this.#read > MAX_BODY_BYTES) this.#hangUp("the answer is too long");
  }

  onResponseEnd(): void {
    this.#end("no answer");
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    this.#end(inFewWords(error));
  }

  #hangUp(why: string): void {
    this.#end(why);
    this.#controller?.abort(new Error(why));
  }

  /** An answer that breaks off after its status was an answer; `why` is what there was instead of one. */
  #end(why: string): void {
    if (this.#settled) return;
    this.#settled = true;
    clearTimeout(this.#timer);
    const status_code = this.#status;
    const delivered = status_code !== null && status_code < 300;
    this.#settle({
      delivered,
      status_code,
      duration_ms: Math.round(performance.now() - this.#began),
      error: delivered ? null : status_code === null ? why : `answered ${status_code}`,
      answer: status_code === null ? null : Buffer.concat(this.#kept),
    });
  }
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

/** The operating system's and OpenSSL's words are kept short and never hold the URL or an address of ours. */
const WORDS: Readonly<Record<string, string>> = {
  ENOTFOUND: "the host name does not resolve",
  ENODATA: "the host name does not resolve",
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
  const code = "code" in error && typeof error.code === "string" ? error.code : "";
  const [first] = error instanceof AggregateError ? error.errors : [];
  // A name server that refuses us, or is not there, has nothing to do with the merchant's own.
  const asked = "syscall" in error && String(error.syscall).startsWith("query");
  if (asked && code !== "ENOTFOUND" && code !== "ENODATA") return "the host name does not resolve now";
  if (WORDS[code] !== undefined) return WORDS[code];
  if (first !== undefined) return inFewWords(first);
  if (/CERT|SSL|TLS|ALTNAME|SELF_SIGNED|UNABLE_TO/.test(code)) return `TLS: ${code.toLowerCase().replaceAll("_", " ")}`;
  return error.cause === undefined ? "failed" : inFewWords(error.cause);
}
