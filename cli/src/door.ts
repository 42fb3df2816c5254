// Finds the house and speaks to its doors by Connect over HTTP/1.1: the admin door with the operator token, the public
// one with an API key.

import { readFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import type { DescService } from "@bufbuild/protobuf";
import { type Client, Code, ConnectError, createClient, type Interceptor, type Transport } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-node";
import { InvalidArgumentError } from "commander";

/** How the house is named on the command line; each is absent when it wasn't given. */
export type Where = {
  /** The admin door. */
  readonly url?: string;
  readonly token?: string;
  /** The public door. */
  readonly apiUrl?: string;
  readonly key?: string;
  readonly data?: string;
};

/** A door's address, and what opens it. */
export type Address = { readonly url: string; readonly token: string };

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

/** A door with typed clients; the house is looked for by the first call. */
export type Door = <S extends DescService>(service: S) => Client<S>;

export function openDoor(where: Where, env: Environment): Door {
  return dial(() => findHouse(where, env));
}

/** The door that merchants have. */
export function openPublicDoor(where: Where, env: Environment): Door {
  return dial(() => findPublicDoor(where, env));
}

function dial(find: () => Address): Door {
  let transport: Transport | undefined;
  return (service) => {
    transport ??= transportTo(find());
    return createClient(service, transport);
  };
}

function transportTo({ url, token }: Address): Transport {
  const authorize: Interceptor = (next) => (request) => {
    request.header.set("authorization", `Bearer ${token}`);
    return next(request);
  };
  return createConnectTransport({
    baseUrl: url,
    httpVersion: "1.1",
    interceptors: [authorize],
    defaultTimeoutMs: CALL_TIMEOUT_MS,
  });
}

/** Address and token: as given, else from `local.json`. A token of ours never goes to an address that was named alone. */
export function findHouse(where: Where, env: Environment): Address {
  const url = where.url ?? blankless(env["CAURI_ADMIN_URL"]);
  const token = where.token ?? blankless(env["CAURI_OPERATOR_TOKEN"]);
  if (url !== undefined) {
    if (token === undefined) {
      throw new InvalidArgumentError(
        "The house is named by its URL, so name its token too: --token or CAURI_OPERATOR_TOKEN.",
      );
    }
    return { url: checkUrl(url), token };
  }
  const local = readLocal(where, env);
  return { url: local.admin_url, token: token ?? local.operator_token };
}

/** Address and API key, by the same rules; on a local house the demo account's test key is taken where none is named. */
export function findPublicDoor(where: Where, env: Environment): Address {
  const url = where.apiUrl ?? blankless(env["CAURI_API_URL"]);
  const token = where.key ?? blankless(env["CAURI_API_KEY"]);
  if (url !== undefined) {
    if (token === undefined) {
      throw new InvalidArgumentError("The house is named by its URL, so name a key too: --key or CAURI_API_KEY.");
    }
    return { url: checkUrl(url), token };
  }
  if (where.url !== undefined || blankless(env["CAURI_ADMIN_URL"]) !== undefined) {
    throw new InvalidArgumentError("--url names the admin door; name the public one: --api-url or CAURI_API_URL.");
  }
  const local = readLocal(where, env);
  const key = token ?? local.test_key;
  if (key === null)
    throw new InvalidArgumentError("This house has no demo account, so name a key: --key or CAURI_API_KEY.");
  return { url: local.base_url, token: key };
}

function checkUrl(url: string): string {
  if (!/^https?:$/.test(URL.parse(url)?.protocol ?? ""))
    throw new InvalidArgumentError(`${url} is not an http(s) URL.`);
  return url.replace(/\/+$/, "");
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

/** What `npm start` writes of its doors; without a demo account there is no key. */
type Local = {
  readonly admin_url: string;
  readonly operator_token: string;
  readonly base_url: string;
  readonly test_key: string | null;
};

function readLocal(where: Where, env: Environment): Local {
  const folder = where.data ?? blankless(env["CAURI_DATA"]);
  const file = join(folder === undefined ? join(root, ".cauri") : resolve(folder), "local.json");
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch {
    throw new Refused(
      "temporarily_unavailable",
      `No running house: ${file} is not there. Start one with npm start, or name one: --help tells by which options.`,
    );
  }
  try {
    const local = JSON.parse(text) as Partial<Local>;
    const { admin_url, operator_token, base_url, test_key } = local;
    if (typeof admin_url === "string" && typeof operator_token === "string" && typeof base_url === "string")
      return { admin_url, operator_token, base_url, test_key: test_key ?? null };
  } catch {
    // Told below, like a file that lacks them.
  }
  throw new Refused("temporarily_unavailable", `${file} does not name a house: start it anew with npm start.`);
}

function blankless(text: string | undefined): string | undefined {
  return text === undefined || text.trim() === "" ? undefined : text;
}
