// One delivery to a developer's own machine: the body and the headers of a real one and nothing else, a line of its own,
// redirects not followed.

import { request as httpRequest, type IncomingMessage } from "node:http";
import { request as httpsRequest } from "node:https";
import { InvalidArgumentError } from "commander";

/** As long as a real endpoint has. */
const TIMEOUT_MS = 10_000;

export type Delivery = {
  readonly headers: readonly { readonly name: string; readonly value: string }[];
  readonly body: string;
};

/** In the words of the delivery log. */
export type Forwarded = {
  readonly status_code: number | null;
  readonly duration_ms: number;
  readonly error: string | null;
};

/** Why nothing came back, by the code that Node gives. */
const WHY: Readonly<Record<string, string>> = {
  ECONNREFUSED: "nothing listens there",
  ECONNRESET: "the connection was cut",
  ENOTFOUND: "there is no such host",
  EAI_AGAIN: "its name cannot be resolved now",
  DEPTH_ZERO_SELF_SIGNED_CERT: "its certificate is self-signed: name it by NODE_EXTRA_CA_CERTS",
};

export function parseTarget(text: string): URL {
  const url = URL.parse(text);
  if (url === null || !/^https?:$/.test(url.protocol))
    throw new InvalidArgumentError("Write an http(s) URL such as http://localhost:4242/hook.");
  return url;
}

/** Never throws: whatever happens at the other end is the answer. `signal` ends it early. */
export async function forward(
  target: URL,
  { headers, body }: Delivery,
  signal: AbortSignal,
  timeout_ms = TIMEOUT_MS,
): Promise<Forwarded> {
  const begun = performance.now();
  const took = () => Math.round(performance.now() - begun);
  try {
    const sent = Object.fromEntries(headers.map(({ name, value }) => [name, value]));
    const within = AbortSignal.any([signal, AbortSignal.timeout(timeout_ms)]);
    const status_code = await post(target, sent, Buffer.from(body), within);
    const is_taken = status_code >= 200 && status_code < 300;
    return { status_code, duration_ms: took(), error: is_taken ? null : `the answer was ${status_code}` };
  } catch (error) {
    return { status_code: null, duration_ms: took(), error: whyNot(error, timeout_ms) };
  }
}

function post(target: URL, headers: Record<string, string>, body: Buffer, signal: AbortSignal): Promise<number> {
  const request = target.protocol === "https:" ? httpsRequest : httpRequest;
  return new Promise((resolve, reject) => {
    const answered = (response: IncomingMessage) => {
      response.on("error", reject).on("end", () => resolve(response.statusCode ?? 0));
      response.resume();
    };
    // A connection that is kept would be a dead one whenever the developer's server restarts.
    const options = { method: "POST", headers: { ...headers, "content-length": body.length }, agent: false, signal };
    request(target, options, answered).on("error", reject).end(body);
  });
}

function whyNot(error: unknown, timeout_ms: number): string {
  const { name, code, message } = error as NodeJS.ErrnoException;
  if (name === "AbortError" || name === "TimeoutError") return `no answer within ${timeout_ms / 1_000} s`;
  return WHY[code ?? ""] ?? message;
}
