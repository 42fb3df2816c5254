// Finds the house and speaks to its admin door: Connect over HTTP/1.1 with the operator token.

import { readFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import type { DescService } from "@bufbuild/protobuf";
import { type Client, Code, ConnectError, createClient, type Interceptor } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-node";
import { InvalidArgumentError } from "commander";

/** How the house is named on the command line; each is absent when it wasn't given. */
export type Where = { readonly url?: string; readonly token?: string; readonly data?: string };

/** The environment that names a house when the command line doesn't. */
export type Environment = { readonly [name: string]: string | undefined };

/** What the house answered instead of a success: a code of the contract and a sentence. */
export class Refused extends Error {
  override readonly name = "Refused";
  readonly code: string;

  constructor(code: string, sentence: string) {
    super(sentence);
    this.code = code;
  }
}

/** Long enough for every command but those that name their own time; the house's own deadlines are shorter. */
const CALL_TIMEOUT_MS = 40_000;

const root = dirname(dirname(import.meta.dirname));

/** The admin door with typed clients; nothing is dialled before the first call. */
export type Door = <S extends DescService>(service: S) => Client<S>;

export function openDoor(where: Where, env: Environment): Door {
  const { url, token } = findHouse(where, env);
  const authorize: Interceptor = (next) => (request) => {
    request.header.set("authorization", `Bearer ${token}`);
    return next(request);
  };
  const transport = createConnectTransport({
    baseUrl: url,
    httpVersion: "1.1",
    interceptors: [authorize],
    defaultTimeoutMs: CALL_TIMEOUT_MS,
  });
  return (service) => createClient(service, transport);
}

/** Address and token: as given, else from `local.json`. A token of ours never goes to an address that was named alone. */
export function findHouse(where: Where, env: Environment): { url: string; token: string } {
  const url = where.url ?? blankless(env["CAURI_ADMIN_URL"]);
  const token = where.token ?? blankless(env["CAURI_OPERATOR_TOKEN"]);
  if (url !== undefined) {
    if (!/^https?:$/.test(URL.parse(url)?.protocol ?? ""))
      throw new InvalidArgumentError(`${url} is not an http(s) URL.`);
    if (token === undefined) {
      throw new InvalidArgumentError(
        "The house is named by its URL, so name its token too: --token or CAURI_OPERATOR_TOKEN.",
      );
    }
    return { url: url.replace(/\/+$/, ""), token };
  }
  const local = readLocal(where.data ?? blankless(env["CAURI_DATA"]));
  return { url: local.url, token: token ?? local.token };
}

/** The sentence and the code of whatever a call threw. */
export function refusedBy(error: unknown): Refused {
  if (error instanceof Refused) return error;
  if (!(error instanceof ConnectError)) throw error;
  const reason = error.metadata.get("cauri-reason");
  if (reason !== null) return new Refused(reason, error.rawMessage);
  if (error.code === Code.Unauthenticated)
    return new Refused("operator_refused", "The house refused the operator token.");
  if (error.code === Code.DeadlineExceeded)
    return new Refused("temporarily_unavailable", "The house did not answer in time.");
  if (error.code === Code.Unavailable || isUnreached(error)) {
    return new Refused(
      "temporarily_unavailable",
      `The house cannot be reached (${error.rawMessage}). Is it running? See npm start.`,
    );
  }
  return new Refused("internal_error", `The house answered ${Code[error.code]}: ${error.rawMessage}`);
}

function isUnreached(error: ConnectError): boolean {
  const { cause } = error;
  return cause instanceof Error && "code" in cause && /^E(?:CONN|HOST|NET|PIPE|NOTFOUND)/.test(String(cause.code));
}

function readLocal(folder: string | undefined): { url: string; token: string } {
  const file = join(folder === undefined ? join(root, ".cauri") : resolve(folder), "local.json");
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch {
    throw new Refused(
      "temporarily_unavailable",
      `No running house: ${file} is not there. Start one with npm start, or name one with --url and --token.`,
    );
  }
  try {
    const { admin_url, operator_token } = JSON.parse(text) as { admin_url?: unknown; operator_token?: unknown };
    if (typeof admin_url === "string" && typeof operator_token === "string")
      return { url: admin_url, token: operator_token };
  } catch {
    // Told below, like a file that lacks the two.
  }
  throw new Refused("temporarily_unavailable", `${file} does not name a house: start it anew with npm start.`);
}

function blankless(text: string | undefined): string | undefined {
  return text === undefined || text.trim() === "" ? undefined : text;
}
